"""Plots show the data, are written in three formats, and refuse runs without Möbius maps."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.clustering import TypedEntities
from fivestar.analysis.plots import maps, points, sphere, style
from fivestar.analysis.shapes import (
    ShapeCriterion,
    ShapeExample,
    clearest_examples,
    fit_circle,
    fit_line,
    flatness,
)
from fivestar.cli.main import app
from fivestar.errors import MissingExtra, OutputError, SettingsError
from fivestar.geometry.classification import EXAMPLE_MULTIPLIERS, MobiusClass, example_map
from fivestar.geometry.fixed_points import velocity
from fivestar.geometry.mobius import apply
from fivestar.runs.run import convert_to_fivestar

KEPT = [0, 2, 3]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("drawn") / "run"
    training = {"epochs": 3, "evaluate-every": 0, "snapshot-epochs": KEPT}
    settings = {"model": {"dim": 8, "init": "identity"}, "training": training}
    fivestar.train(fivestar.read_graph(), settings, place)
    return place


@pytest.fixture(scope="module")
def run(folder):
    return fivestar.load(folder)


def offsets(axes):
    """Return all scattered points of axes as complex numbers."""
    arrays = [np.asarray(each.get_offsets()) for each in axes.collections]
    flat = np.concatenate([each for each in arrays if len(each)])
    return flat[:, 0] + 1j * flat[:, 1]


def test_a_grid_and_its_image(run):
    figure = maps.grids(run, ["capital_of", "has_capital"], 2)
    before, first, second = figure.axes
    np.testing.assert_allclose(offsets(before), maps.grid().ravel())
    model = run.model
    for axes, name in ((first, "capital_of"), (second, "has_capital")):
        row = model.relations.detach()[[run.graph.relations.id_of(name)]]
        m = maps.relation_maps(model, row)[0, 2]
        moved = apply(m, torch.as_tensor(maps.grid())).numpy().ravel()
        np.testing.assert_allclose(offsets(axes), moved)
        assert name in axes.get_title()


def test_the_view_ignores_points_near_the_pole():
    _, axes = style.panels(1, 1)
    z = np.concatenate([maps.grid().ravel(), [1e9 + 1e9j, complex("inf")]])
    style.set_view(axes[0, 0], [z])
    low, high = axes[0, 0].get_xlim()
    assert -2 < low < -0.9
    assert 0.9 < high < 2
    assert "2 outside" in {text.get_text() for text in axes[0, 0].texts}
    assert axes[0, 0].get_aspect() == 1


def test_labels_of_ticks_do_not_overlap():
    figure, axes = style.panels(1, 1)
    style.set_view(axes[0, 0], [np.array([-0.252 + 0j, -0.16 + 0.09j])])
    figure.draw_without_rendering()
    low, high = axes[0, 0].get_xlim()
    labels = axes[0, 0].get_xticklabels()
    boxes = [t.get_window_extent() for t in labels if low <= t.get_position()[0] <= high]
    assert len(boxes) > 1
    assert all(left.x1 + 5 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("mobius_class", EXAMPLE_MULTIPLIERS)
def test_flow_lines_follow_the_flow(mobius_class):
    """Each step of a line has the direction of the velocity, up to discretization."""
    m = example_map(mobius_class)
    lines = sphere.flow_lines(m)
    assert len(lines) > 3
    for line in lines:
        middle, step = (line[1:] + line[:-1]) / 2, line.diff()
        usable = (middle.abs() < 3) & (step.abs() > 1e-4) & (step.abs() < 0.05)
        along = (velocity(m, middle) / step)[usable]
        assert (along.real > 0).all()
        assert (along.imag.abs() < 0.1 * along.real + 1e-9).all()


def test_five_classes_are_plotted_on_the_sphere_and_in_the_plane():
    figure = maps.mobius_classes()
    assert len(figure.axes) == 10
    figure.draw_without_rendering()
    for panel in figure.axes[:5]:
        (pole,) = (text for text in panel.texts if text.get_text() == "∞")
        assert not pole.get_window_extent().overlaps(panel.title.get_window_extent())


@pytest.mark.parametrize(
    ("mobius_class", "kinds"),
    [
        (MobiusClass.CIRCULAR, ["neutral", "neutral"]),
        (MobiusClass.ELLIPTIC, ["neutral", "neutral"]),
        (MobiusClass.HYPERBOLIC, ["attracting", "repelling"]),
        (MobiusClass.LOXODROMIC, ["attracting", "repelling"]),
        (MobiusClass.PARABOLIC, ["parabolic"]),
    ],
)
def test_kinds_of_fixed_points(mobius_class, kinds):
    m = example_map(mobius_class)
    found = maps.kinds_of_fixed_points(m)
    assert sorted(kind for _, kind in found) == kinds
    for z, kind in found:
        fixed = torch.tensor(z, dtype=torch.complex128)
        assert complex(apply(m, fixed)) == pytest.approx(z)
        # Near a neutral point the map is a rotation, near the others it contracts or expands.
        near = fixed + 1e-4 * torch.tensor([1, -1, 1j, -1j])
        ratios = (apply(m, near) - fixed).abs() / 1e-4
        if kind == "attracting":
            assert (ratios < 0.9).all()
        elif kind == "repelling":
            assert (ratios > 1.1).all()
        else:
            assert (ratios - 1).abs().max() < 1e-3
            assert (kind == "neutral") == bool(((apply(m, near) - near).abs() > 1e-6).all())


def test_fixed_points_differ_by_kind_and_the_legend_names_them():
    figure = maps.mobius_classes()
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    kinds = ("attracting", "repelling", "neutral", "parabolic")
    assert names == [f"{kind} fixed point" for kind in kinds]
    handles = legend.legend_handles
    looks = {(h.get_marker(), h.get_fillstyle(), h.get_markerfacecolor()) for h in handles}
    assert len(looks) == len(kinds)
    # Only what occurs is in the legend.
    _, axes = style.panels(1, 1)
    maps.draw_flow(axes[0, 0], example_map(MobiusClass.ELLIPTIC), 2)
    markers = [line.get_marker() for line in axes[0, 0].lines]
    assert markers == [handles[2].get_marker()] * 2


def test_captions_of_flows_show_class_and_multiplier(run):
    figure = maps.flows(run, ["capital_of", "has_capital"], [0, 3])
    assert [axes.get_title() for axes in figure.axes[:2]] == [
        "capital_of, dimension 0",
        "capital_of, dimension 3",
    ]
    assert "|k| = " in figure.axes[0].get_xlabel()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["attracting fixed point", "repelling fixed point"]
    assert len(maps.flows(run, ["capital_of"]).axes) == 3  # the clearest dimensions


def test_epochs_in_order(folder):
    runs = {epoch: fivestar.load(folder, epoch) for epoch in reversed(KEPT)}
    figure = maps.epochs(runs, "capital_of", 1)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["epoch 0", "epoch 2", "epoch 3"]
    # Near the identity before training: the grid is all but itself.
    np.testing.assert_allclose(offsets(figure.axes[0]), maps.grid().ravel(), atol=0.05)


@pytest.mark.parametrize("pairing", ["hermitian", "bilinear"])
def test_entities_are_heads_transformed_heads_and_tails(pairing):
    settings = {"model": {"dim": 4, "pairing": pairing}, "training": {"epochs": 2}}
    run = fivestar.train(fivestar.read_graph(), settings)
    figure = points.entities(run, "capital_of", [1])
    *panels, bar = figure.axes
    scatters = [axes.collections[0] for axes in panels]
    heads, moved, tails = (np.asarray(each.get_offsets()) for each in scatters)
    assert len(heads) == len(moved) == len(tails)
    # A head, its image and its tail have the same color.
    for each in scatters:
        angles = np.arctan2(heads[:, 1], heads[:, 0])
        np.testing.assert_allclose(each.get_array(), np.degrees(angles))
    # The key of the colors and of the markers, which differ.
    assert "color of the head, its image and its tail" in bar.get_xlabel()
    assert [text.get_text() for text in bar.get_xticklabels()][::4] == ["−180°", "180°"]
    labels = [axes.get_ylabel() for axes in panels]
    assert labels[2] == ("tails" if pairing == "hermitian" else "conjugated tails")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == labels
    assert len({each.get_paths()[0].vertices.tobytes() for each in scatters}) == 3
    assert "denominator mobius" in figure.get_suptitle()
    number = run.graph.relations.id_of("capital_of")
    facts = run.graph.train.relations == number
    wanted = run.model.entities.detach().double().numpy()[run.graph.train.tails[facts]][:, [1, 5]]
    wanted[:, 1] *= 1 if pairing == "hermitian" else -1
    assert {tuple(row) for row in np.round(tails, 5)} <= {tuple(r) for r in np.round(wanted, 5)}
    assert len(points.entities(run, "capital_of").axes) == 12 + 1


@pytest.mark.parametrize("pairing", ["hermitian", "bilinear"])
@pytest.mark.parametrize("denominator", ["mobius", "phase", "none"])
def test_every_form_is_plotted_as_it_transforms(denominator, pairing):
    model = {"dim": 4, "denominator": denominator, "pairing": pairing}
    run = fivestar.train(fivestar.read_graph(), {"model": model, "training": {"epochs": 3}})
    number = run.graph.relations.id_of("capital_of")
    figure = points.entities(run, "capital_of", [2])
    heads, images = (offsets(axes) for axes in figure.axes[:2])
    grid_figure = maps.grids(run, ["capital_of"], 2)
    grid_before, grid_image = (offsets(axes) for axes in grid_figure.axes)
    for z, w in ((heads, images), (grid_before, grid_image)):
        rows = torch.zeros(len(z), 8)
        rows[:, 2], rows[:, 6] = torch.as_tensor(z.real), torch.as_tensor(z.imag)
        relation = run.model.relations.detach()[[number]].expand(len(z), -1)
        query = run.model.transform(rows, relation).detach().double().numpy()
        sign = 1 if pairing == "hermitian" else -1
        np.testing.assert_allclose(query[:, 2] + sign * 1j * query[:, 6], w, atol=1e-3, rtol=1e-3)
    for each in (figure, grid_figure):
        assert f"denominator {denominator}" in each.get_suptitle()
    # Only a Möbius map has a class.
    assert ("|k|" in grid_figure.axes[1].get_xlabel()) == (denominator == "mobius")
    assert 0 <= int(maps.grids(run, ["capital_of"]).get_suptitle().split()[1][:-1]) < 4


def test_shapes_of_a_converted_model(tmp_path):
    settings = {"model": {"name": "complex", "dim": 4}, "training": {"epochs": 2}}
    run = convert_to_fivestar(fivestar.train(fivestar.read_graph(), settings))
    example = ShapeExample("in_time_zone", 2, "line → circle", 0.1)
    figure = points.shapes([("complex", run, example)])
    assert figure.axes[0].get_title() == "complex: line → circle"
    # A line through the heads and a circle through their images.
    assert len(figure.axes[0].lines[0].get_xdata()) == 2
    assert len(figure.axes[1].lines[0].get_xdata()) == 200
    with pytest.raises(SettingsError, match="no example"):
        points.shapes([])


def test_many_examples_of_shapes_are_in_pairs_of_rows():
    settings = {"model": {"name": "complex", "dim": 4}, "training": {"epochs": 1}}
    run = convert_to_fivestar(fivestar.train(fivestar.read_graph(), settings))
    examples = [ShapeExample("in_time_zone", n % 4, "line → line", 0.1) for n in range(6)]
    figure = points.shapes([(f"model {n}", run, each) for n, each in enumerate(examples)])
    rows = np.array(figure.axes).reshape(4, 4)
    titles = [[panel.get_title() for panel in row] for row in rows]
    assert titles[0] == [f"model {n}: line → line" for n in range(4)]
    assert titles[2] == ["model 4: line → line", "model 5: line → line", "", ""]
    below = [panel.get_xlabel().splitlines()[1] for panel in (*rows[1], *rows[3, :2])]
    assert below == [f"dimension {each.dimension}" for each in examples]
    assert not any(panel.axison for panel in rows[2:, 2:].flat)
    names = ["heads", "transformed heads"]
    assert [panel.get_ylabel() for panel in rows[:, 0]] == names * 2


def test_models_that_preserve_shapes_have_an_example_of_a_line():
    settings = {"model": {"name": "rotate", "dim": 4}, "training": {"epochs": 2}}
    run = fivestar.train(fivestar.read_graph(), settings)
    strict = ShapeCriterion(max_width=0, max_deviation=0)
    ((name, converted, example),) = clearest_examples([("RotatE", run)], strict)
    assert (name, example.change) == ("RotatE", "line → line")
    number = run.graph.relations.id_of(example.relation)
    heads = np.unique(run.graph.train.heads[run.graph.train.relations == number])
    z = run.model.entities.detach().double()[torch.as_tensor(heads.astype(np.int64))]
    width = float(flatness(torch.complex(*z.chunk(2, dim=1)))[example.dimension])
    assert example.residual == pytest.approx(width, rel=1e-5)
    assert example.residual <= min(
        each.residual
        for _, _, each in clearest_examples([("", run)], ShapeCriterion(1, 0))
        if each.change == "line → line"
    ) * (1 + 1e-6)
    label = points.shapes([(name, converted, example)]).axes[1].get_xlabel()
    assert f"residual {example.residual:.2f}" in label
    assert "denominator" not in label


def clusters_figure():
    """Return a map of six types, one of them rare, as in the docs."""
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(6), [2000, 1500, 1000, 500, 200, 100])
    typed = TypedEntities([f"type {n}" for n in range(6)], np.arange(len(classes)), classes)
    xy = rng.normal(size=(len(classes), 2)) + 5 * np.stack([classes, classes % 2], axis=1)
    return points.clusters(dict.fromkeys("abc", (xy, typed)), {})


def test_the_colors_of_a_legend_are_those_of_the_points_after_compression(tmp_path):
    spec = importlib.util.spec_from_file_location("compress", ROOT / "scripts/compress_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file = tmp_path / "clusters.png"
    style.save_figure(clusters_figure(), file)
    module.compress(file)
    pixels = np.asarray(Image.open(file).convert("RGB")).astype(int)
    assert pixels.shape[1] == module.MAX_WIDTH
    edge = int(0.8 * len(pixels))
    for color in style.COLORS:
        wanted = [int(color[n : n + 2], 16) for n in (1, 3, 5)]
        is_near = np.abs(pixels - wanted).max(axis=-1) <= 8
        in_plot, in_legend = is_near[:edge].sum(), is_near[edge:].sum()
        assert in_plot > 50, color
        assert in_legend > 10, color


def test_fits():
    turn = torch.linspace(0, 5, 50, dtype=torch.float64)
    z = 3 * torch.polar(torch.ones_like(turn), turn) + (2 - 1j)
    center, radius = fit_circle(z[:, None])
    assert complex(center[0]) == pytest.approx(2 - 1j)
    assert float(radius[0]) == pytest.approx(3)
    middle, direction = fit_line(((turn - 2.5) * (1 + 1j) + 7)[:, None])
    assert complex(middle[0]) == pytest.approx(7)
    assert abs(complex(direction[0]).imag) == pytest.approx(2**-0.5)


@pytest.mark.parametrize("suffix", style.FORMATS)
def test_the_same_figure_has_the_same_bytes(suffix, run, tmp_path):
    files = [tmp_path / f"{n}{suffix}" for n in (1, 2)]
    for file in files:
        style.save_figure(maps.grids(run, ["capital_of"], 0), file)
    one, two = (file.read_bytes() for file in files)
    assert one == two


def test_invalid_requests_are_refused(run, tmp_path):
    with pytest.raises(OutputError, match=r"\.png, \.svg, \.pdf"):
        style.check_figure_path(tmp_path / "figure.gif")
    with pytest.raises(OutputError, match="make it first"):
        style.check_figure_path(tmp_path / "nowhere" / "figure.png")
    with pytest.raises(SettingsError, match="0 to 7"):
        maps.grids(run, ["capital_of"], 8)
    with pytest.raises(SettingsError, match="0 to 7"):
        points.entities(run, "capital_of", [-1])
    with pytest.raises(SettingsError, match="at least one relation"):
        maps.flows(run, [])
    with pytest.raises(fivestar.FivestarError, match="did you mean"):
        maps.grids(run, ["capital_off"])
    training = {"epochs": 1, "evaluate-every": 0}
    phase = {"model": {"dim": 4, "denominator": "phase"}, "training": training}
    other = fivestar.train(fivestar.read_graph(), phase)
    with pytest.raises(SettingsError, match="no Möbius map"):
        maps.flows(other, ["capital_of"])


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fivestar-kge\[plots\]'"):
        maps.mobius_classes()


def test_commands(folder, tmp_path):
    invoke = CliRunner().invoke

    def plot(*words):
        out = tmp_path / f"{words[0]}.png"
        shown = invoke(app, ["plot", *map(str, words), "--out", str(out)])
        assert shown.exit_code == 0, shown.output
        assert out.read_bytes().startswith(b"\x89PNG")

    two = ("--relation", "capital_of", "--relation", "has_capital")
    plot("classes")
    plot("grid", folder, *two, "--dimension", 1)
    plot("flow", folder, *two, "--dimension", 1, "--dimension", 2)
    plot("epochs", folder, "--relation", "capital_of", "--dimension", 1)
    plot("entities", folder, "--relation", "capital_of", "--dimension", 1)
    plain = tmp_path / "complex"
    settings = {"model": {"name": "complex", "dim": 4}, "training": {"epochs": 5}}
    fivestar.train(fivestar.read_graph(), settings, plain)
    refused = invoke(
        app, ["plot", "epochs", str(plain), "--relation", "capital_of", "--out", "x.png"]
    )
    assert "snapshot-epochs" in str(refused.exception)
    # Nothing is a perfect line; everything is one if it may be as wide as long.
    none = ["--widest", "0", "--roughest", "0", "--out", str(tmp_path / "none.png")]
    assert "no example" in str(invoke(app, ["plot", "shapes", str(folder), *none]).exception)
    plot("shapes", plain, "--widest", 1, "--roughest", 0.1)


def test_figures_of_several_runs_have_the_labels_of_their_models(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save_figure", lambda figure, _: drawn.append(figure))
    models = {"one": {"name": "complex"}, "two": {"denominator": "phase"}, "three": {}}
    for name, model in models.items():
        settings = {"model": {"dim": 4, **model}, "training": {"epochs": 2, "evaluate-every": 0}}
        fivestar.train(fivestar.read_graph(), settings, tmp_path / name)
    labels = ["ComplEx", "5★E (phase)", "5★E (mobius)"]
    folders = [str(tmp_path / name) for name in models]

    def titles(*words):
        shown = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "figure.png")])
        assert shown.exit_code == 0, shown.output
        return [panel.get_title() for panel in drawn.pop().axes if panel.get_title()]

    found = titles("plot", "shapes", *folders, "--widest", "1", "--roughest", "1")
    assert list(dict.fromkeys(title.split(":")[0] for title in found)) == labels
    assert titles("cluster", *folders, "--method", "pca", "--neighbors", "2") == labels
