"""Patterns that were planted in the maps are patterns, and no others."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.patterns import learned_patterns, proximity
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import entries, inverse, matrix
from fivestar.runs.settings import make_settings

# Facts from an entity to itself are suspicious elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")

DIM = 30
OTHERS = [f"other {i}" for i in range(8)]


def random_maps(generator):
    parts = torch.randn(2, DIM, 2, 2, generator=generator, dtype=torch.float64)
    return torch.complex(*parts)


def planted_run(pairing):
    """Return a run whose maps satisfy the facts, up to noise and scale."""
    facts = [(f"e{i}", "parent", f"e{i + 1}") for i in range(30)]
    facts += [(t, "child", h) for h, _, t in facts]
    facts += [(f"e{i}", "grandparent", f"e{i + 2}") for i in range(29)]
    friends = [(f"e{i}", f"e{i + 15}") for i in range(10)]
    facts += [(x, "friend", y) for x, y in friends] + [(y, "friend", x) for x, y in friends]
    facts += [(f"e{i}", "same", f"e{i}") for i in range(20)]
    for number, name in enumerate(OTHERS):
        facts += [(f"e{i}", name, f"e{(i * 7 + number) % 31}") for i in range(6)]
    graph = fivestar.read_graph(facts)
    model = {"dim": DIM, "pairing": pairing}
    run = fivestar.train(graph, make_settings({"model": model, "training": {"epochs": 0}}))
    generator = torch.Generator().manual_seed(0)
    maps = {name: random_maps(generator) for name in graph.relations}
    is_plain = pairing == "hermitian"

    def back(m):
        return inverse(m if is_plain else m.conj())

    maps["child"] = back(maps["parent"])
    maps["grandparent"] = maps["parent"] @ maps["parent"]
    maps["same"] = torch.eye(2, dtype=torch.complex128).expand(DIM, 2, 2)
    friend = maps["friend"]
    a, b, c, _ = entries(friend)
    # M = M⁻¹ exactly if tr M = 0; M = conj(M)⁻¹ for every M = A conj(A)⁻¹.
    maps["friend"] = matrix(a, b, c, -a) if is_plain else friend @ inverse(friend.conj())
    with torch.no_grad():
        for name, exact in maps.items():
            number = graph.relations.id_of(name)
            for row, m in ((number, exact), (number + len(graph.relations), back(exact))):
                noisy = m + 0.02 * random_maps(generator) * m.abs().mean()
                scale = torch.randn(DIM, generator=generator) + 3
                parts = [torch.cat([e.real, e.imag]) for e in entries(noisy)]
                run.model.relations[row] = torch.cat(parts) * scale.repeat(8)
    return run


@pytest.mark.parametrize("pairing", ["hermitian", "bilinear"])
def test_planted_patterns_are_recovered(pairing):
    patterns = learned_patterns(planted_run(pairing))
    assert patterns.control.auc > 0.99
    assert patterns.control.own < patterns.control.others / 4
    learned = {(f.pattern, *f.relations) for f in patterns.findings if f.learned}
    expected = {
        ("symmetric", "friend"),
        ("symmetric", "same"),  # what does nothing undoes itself
        ("inverse", "parent", "child"),
        ("reflexive", "same"),
    }
    if pairing == "hermitian":
        expected.add(("composed", "parent", "parent", "grandparent"))
        assert not patterns.untested
    else:
        assert "never a relation" in patterns.untested[0]
    assert learned - {x for x in learned if x[0] == "composed"} == expected - {
        x for x in expected if x[0] == "composed"
    }
    assert {x for x in expected if x[0] == "composed"} <= learned
    for finding in patterns.findings:
        if finding.learned:
            assert finding.p_value < 0.02
    scores = patterns.scores()
    assert scores["inverse"]["precision"] == scores["inverse"]["recall"] == 1
    assert scores["reflexive"]["recall"] == 1


def test_the_command(tmp_path):
    planted_run("hermitian").save(tmp_path / "run")
    shown = CliRunner().invoke(app, ["patterns", str(tmp_path / "run")]).stdout
    assert "parent, child" in shown
    assert "Control" in shown
    few = CliRunner().invoke(app, ["patterns", str(tmp_path / "run"), "--top", "1"]).stdout
    assert "more: --top or --json" in few
    printed = CliRunner().invoke(app, ["patterns", str(tmp_path / "run"), "--json"]).stdout
    assert json.loads(printed)["scores"]["symmetric"]["recall"] == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"denominator": "phase"}}, "no Möbius map"),
        ({"training": {"reciprocals": False}}, "calibrated on reciprocal relations"),
        ({"model": {"name": "complex"}}, "model.to_fivestar"),
    ],
)
def test_unsuitable_runs_are_refused(settings, message):
    facts = [("a", "r", "b"), ("b", "s", "c")]
    values = {
        "model": {"dim": 2, **settings.get("model", {})},
        "training": {"epochs": 0, **settings.get("training", {})},
    }
    run = fivestar.train(fivestar.read_graph(facts), values)
    with pytest.raises(SettingsError, match=message):
        learned_patterns(run)


@pytest.mark.parametrize("axis", [0, 1])
def test_proximity_ignores_maps_that_are_near_to_all_others(axis):
    far = torch.rand(7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = proximity(far)
    # Shifts of whole rows, or of whole columns, change all alike: no pair gains on another.
    shifted = proximity(far + 3 * torch.arange(7.0).unsqueeze(axis))
    change = (shifted - near).amax(dim=1 - axis) - (shifted - near).amin(dim=1 - axis)
    assert change.abs().max() < 1e-9
    torch.testing.assert_close(proximity(far + 5), near)
