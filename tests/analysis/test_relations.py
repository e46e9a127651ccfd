"""Known maps are classified and measured correctly."""

from __future__ import annotations

import math

import pytest
import torch
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.relations import SharedClasses, inverse_pair_classes, relation_geometry
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.runs.settings import make_settings
from fivestar.training.train import train

DIM = 4
MAPS = {
    "shift": ((1, 2 + 1j, 0, 1), "parabolic"),
    "turn": ((1j, 0, 0, 1), "elliptic"),
    "half turn": ((-1, 3, 0, 1), "circular"),
    "grow": ((3, 0, 0, 1), "hyperbolic"),
    "spiral": ((2j, 1, 0, 1), "loxodromic"),
    "stay": ((2, 0, 0, 2), "identity"),
    "invert": ((0, 1, 1, 0.5), "hyperbolic"),
}


@pytest.fixture(scope="module")
def run():
    facts = [(f"e{i}", name, f"e{i + 1}") for name in MAPS for i in range(20)]
    graph = fivestar.read_graph(facts)
    settings = make_settings({"model": {"dim": DIM}, "training": {"epochs": 0}})
    run = train(graph, settings)
    with torch.no_grad():
        run.model.entities.normal_(generator=torch.Generator().manual_seed(0))
        run.model.entities[0] = torch.tensor([-0.5] * DIM + [0.0] * DIM)  # the pole of "invert"
        for name, (entries, _) in MAPS.items():
            row = torch.tensor([[e.real] * DIM + [e.imag] * DIM for e in map(complex, entries)])
            run.model.relations[graph.relations.id_of(name)] = row.flatten()
    return run


def test_classes_and_measures_of_known_maps(run):
    by_name = {each.name: each for each in relation_geometry(run, 1e-6)}
    for name, (_, mobius_class) in MAPS.items():
        if name != "invert":
            assert by_name[name].classes[mobius_class] == 1
            assert by_name[name].distortion.high == pytest.approx(0, abs=1e-9)
            assert by_name[name].near_pole == 0
    assert by_name["shift"].translation.median == pytest.approx(math.hypot(2, 1))
    assert by_name["turn"].rotation.median == pytest.approx(math.pi / 2)
    assert by_name["grow"].expansion.median == pytest.approx(math.log(3))
    assert by_name["grow"].local_expansion.median == pytest.approx(math.log(3))
    assert by_name["spiral"].local_rotation.median == pytest.approx(math.pi / 2)
    assert by_name["stay"].relative_determinant.median == pytest.approx(1)
    assert by_name["invert"].distortion.low > 0.1
    assert by_name["invert"].near_pole > 0
    assert by_name["stay"].facts == 20


def test_the_command(run, tmp_path):
    run.save(tmp_path / "run")

    def call(*arguments):
        return CliRunner().invoke(app, ["geometry", str(tmp_path / "run"), *arguments])

    assert "lox 100" in call().stdout
    assert "circular" in call("--relation", "half turn").stdout
    loose = call("--relation", "spiral", "--tolerance", "100").stdout
    assert "loxodromic" not in loose
    assert '"untrained"' in call("--relation", "shift", "--json").stdout
    assert "no relation 'shft'; did you mean 'shift'" in str(call("--relation", "shft").exception)


def test_inverse_pairs_share_a_class(tmp_path):
    """The maps of up and down and of left and right are inverse, and of different classes."""
    facts = [(f"e{i}", "up", f"e{i + 1}") for i in range(40)]
    facts += [(f"e{i}", "left", f"e{i + 7}") for i in range(30)]
    facts += [(t, {"up": "down", "left": "right"}[r], h) for h, r, t in facts]
    settings = make_settings({"model": {"dim": DIM}, "training": {"epochs": 0}})
    run = train(fivestar.read_graph(facts), settings)
    grow, spiral, shift = (3, 0, 0, 1), (2j, 1, 0, 1), (1, 1, 0, 1)
    maps = {"up": [grow, grow, spiral, spiral], "left": [shift, spiral, spiral, spiral]}
    for name, other in (("up", "down"), ("left", "right")):
        maps[other] = [(d, -b, -c, a) for a, b, c, d in maps[name]]
    with torch.no_grad():
        for name, each in maps.items():
            entries = torch.tensor(each, dtype=torch.complex64).T
            row = torch.cat([torch.cat([e.real, e.imag]) for e in entries])
            run.model.relations[run.graph.relations.id_of(name)] = row
    found = inverse_pair_classes(run)
    assert found["inverse"] == SharedClasses(2, 1.0, 3, 1.0)
    assert found["other"] == SharedClasses(4, 0.5, 8, 0.0)
    run.save(tmp_path / "run")
    shown = " ".join(CliRunner().invoke(app, ["geometry", str(tmp_path / "run")]).stdout.split())
    assert "relations: 2, with maps of the same class in 100.0% of the dimensions" in shown
    assert "other pairs of these relations: 50.0%" in shown


def test_other_models_are_refused_and_other_denominators_warned_about(run, tmp_path):
    for name, options in (("quate", {}), ("fivestar", {"denominator": "phase"})):
        settings = {"model": {"name": name, "dim": 2, **options}, "training": {"epochs": 0}}
        fivestar.train(run.graph, settings).save(tmp_path / name)
    with pytest.raises(SettingsError, match="the maps of a 5★E, and the run is a quate"):
        relation_geometry(fivestar.load(tmp_path / "quate"))
    result = CliRunner().invoke(app, ["geometry", str(tmp_path / "fivestar")])
    assert "the matrix, not the map" in result.stderr
