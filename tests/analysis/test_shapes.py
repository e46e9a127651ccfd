"""Lines and circles are recognized; similarities preserve them, Möbius maps need not."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.shapes import ShapeCriterion, count_shapes, fit_shapes, flatness, roundness
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.runs.run import Run, build_model
from fivestar.runs.settings import make_settings

LINE, CIRCLE, NEITHER = range(3)


def on_line(count, generator, noise=0.0):
    along = torch.randn(count, generator=generator, dtype=torch.float64)
    return torch.complex(along, noise * torch.randn(count, generator=generator).double())


def on_circle(count, generator, share=1.0):
    turn = torch.rand(count, generator=generator, dtype=torch.float64) * 2 * math.pi * share
    return torch.polar(torch.ones_like(turn), turn)


@pytest.mark.parametrize("shift", [0, 3 + 4j])
@pytest.mark.parametrize("factor", [1, 0.01j, 50])
def test_shapes_are_recognized(shift, factor):
    generator = torch.Generator().manual_seed(0)
    cloud = torch.complex(*torch.randn(2, 200, generator=generator, dtype=torch.float64))
    cases = {
        LINE: [on_line(200, generator), on_line(200, generator, 0.1)],
        CIRCLE: [on_circle(200, generator)],
        # A short arc and a cloud are neither.
        NEITHER: [cloud, on_circle(200, generator, 0.4)],
    }
    for shape, several in cases.items():
        for z in several:
            assert int(fit_shapes((factor * z + shift)[:, None], ShapeCriterion()).shape) == shape


@given(
    st.integers(0, 10**6),
    st.complex_numbers(min_magnitude=1e-2, max_magnitude=1e2),
    st.complex_numbers(max_magnitude=10),
)
def test_similarities_preserve_shapes(seed, factor, shift):
    """So ComplEx (z ↦ r z) and RotatE (|r| = 1) turn no line into a circle: a theorem."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.complex(*torch.randn(2, 40, 5, generator=generator, dtype=torch.float64))
    moved = factor * z + shift
    torch.testing.assert_close(flatness(moved), flatness(z), rtol=1e-6, atol=1e-6)
    for before, after in zip(roundness(z), roundness(moved), strict=True):
        torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)
    assert torch.equal(
        fit_shapes(moved, ShapeCriterion()).shape, fit_shapes(z, ShapeCriterion()).shape
    )


@pytest.fixture(scope="module")
def run():
    """Heads on the real line in dimension 0, on the unit circle in 1, anywhere in 2."""
    facts = [(f"e{i}", name, f"e{(i + 1) % 90}") for name in ("cayley", "stay") for i in range(90)]
    graph = fivestar.read_graph(facts)
    run = fivestar.train(graph, make_settings({"model": {"dim": 3}, "training": {"epochs": 0}}))
    generator = torch.Generator().manual_seed(1)
    cloud = torch.complex(*torch.randn(2, 90, generator=generator, dtype=torch.float64))
    columns = torch.stack([on_line(90, generator), on_circle(90, generator), cloud], dim=1)
    with torch.no_grad():
        run.model.entities.copy_(torch.cat([columns.real, columns.imag], dim=1))
        # (z − i)/(z + i) takes the real line to the unit circle.
        for name, maps in {
            "cayley": [(1, -1j, 1, 1j), (1, 1.2, 1, -1.2), (1, 0, 0, 1)],
            "stay": [(1, 0, 0, 1)] * 3,
        }.items():
            entries = torch.tensor(maps, dtype=torch.complex64).T
            row = torch.cat([torch.cat([e.real, e.imag]) for e in entries])
            run.model.relations[graph.relations.id_of(name)] = row
    return run


def test_changes_of_shape_are_counted(run):
    result = count_shapes(run)
    assert result.relations == 2
    assert result.counts["line → circle"] == 1
    assert result.counts["line → line"] == 1
    assert result.counts["circle → circle"] >= 1
    assert sum(result.counts.values()) == sum(result.baseline.values()) == 6
    assert sum(n for name, n in result.baseline.items() if "circle" in name) <= 1
    example = next(one for one in result.examples if one.change == "line → circle")
    assert (example.relation, example.dimension) == ("cayley", 0)
    assert example.residual < 0.05


def test_one_relation_and_other_forms(run):
    one = count_shapes(run, relations=[run.graph.relations.id_of("stay")])
    assert (one.relations, one.denominator) == (1, "mobius")
    assert one.counts["line → circle"] == 0
    affine, phase = (with_denominator(run, form) for form in ("none", "phase"))
    # The affine part of (z − i)/(z + i) is a similarity.
    assert count_shapes(affine).counts["line → circle"] == 0
    assert count_shapes(affine).counts["line → line"] == 2
    # (z − i) conj(z + i)/|z + i| = (z − i)²/|z + i| of a real z has the modulus |z + i|.
    assert count_shapes(phase).counts["line → circle"] == 0
    assert count_shapes(phase).denominator == "phase"


def with_denominator(run, denominator):
    """Return the run with the same weights in another form."""
    options = {"dim": 3, "denominator": denominator}
    settings = make_settings({"model": options, "training": {"epochs": 0}})
    model = build_model(run.graph, settings)
    model.load_state_dict(run.model.state_dict())
    return Run(run.graph, settings, model)


def test_the_command(run, tmp_path):
    run.save(tmp_path / "run")
    stay = CliRunner().invoke(app, ["shapes", str(tmp_path / "run"), "--relation", "stay"]).stdout
    assert "denominator mobius, 1 relations" in " ".join(stay.split())
    assert "line → circle" in CliRunner().invoke(app, ["shapes", str(tmp_path / "run")]).stdout
    printed = CliRunner().invoke(app, ["shapes", str(tmp_path / "run"), "--json"]).stdout
    assert json.loads(printed)["counts"]["line → circle"] == 1
    for option, value, change, count in (
        ("--roughest", "0", "line → circle", 0),
        ("--widest", "1", "line → line", 6),
    ):
        other = ["shapes", str(tmp_path / "run"), "--json", option, value]
        assert json.loads(CliRunner().invoke(app, other).stdout)["counts"][change] == count


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_graphs_without_enough_heads_are_refused():
    run = fivestar.train(
        fivestar.read_graph([("a", "r", "b"), ("b", "s", "c")]),
        {"model": {"dim": 2}, "training": {"epochs": 0}},
    )
    with pytest.raises(SettingsError, match="has 30 heads"):
        count_shapes(run)
