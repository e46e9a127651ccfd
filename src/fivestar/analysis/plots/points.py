"""Plots of entities: their shapes, their images under a relation, and clusters of types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fivestar.analysis.clustering import TypedEntities
from fivestar.analysis.plots.style import (
    COLORMAP,
    COLORS,
    CYCLIC_COLORMAP,
    MARKERS,
    ComplexPoints,
    panels,
    set_view,
    styled,
)
from fivestar.analysis.relations import entity_points, require_fivestar, transform_points
from fivestar.analysis.shapes import ShapeExample, fit_circle, fit_line
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import reflect
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Maximum number of points in a plot; more hide each other.
_MAX_POINTS = 150
# Maximum number of panels beside each other whose texts are readable on a page.
_MAX_COLUMNS = 4
# Of heads, their images and tails.
_ENTITY_MARKERS = MARKERS[:3]


@styled
def shapes(examples: Sequence[tuple[str, Run, ShapeExample]]) -> Figure:
    """Plot the heads of a relation in one dimension, and their images below.

    A head and its image have the same color; the fitted line or circle is shown. More than four
    examples are in several pairs of rows.

    Args:
        examples: triples of a name, a run (a 5★E, or converted to one) and an example.

    Raises:
        SettingsError: if there are no examples.
    """
    if not examples:
        raise SettingsError("there is no example of a shape to plot")
    columns = min(len(examples), _MAX_COLUMNS)
    pairs = -(-len(examples) // columns)
    figure, axes = panels(2 * pairs, columns, 2.4, 2.5)
    # From (pairs · 2, columns) to one row (above, below) per example.
    of_examples = axes.reshape(pairs, 2, columns).swapaxes(1, 2).reshape(-1, 2)
    for panel in of_examples[len(examples) :].flat:
        panel.set_axis_off()
    for (above, below), (name, run, example) in zip(of_examples, examples, strict=False):
        relation = run.graph.relations.id_of(example.relation)
        _, heads, images = _heads_and_images(run, relation, example.dimension)
        before, after = example.change.split(" → ")
        order = _order(heads, before)
        for panel, z, shape in ((above, heads, before), (below, images, after)):
            panel.scatter(z.real, z.imag, c=order, cmap=COLORMAP, s=6, zorder=3)
            set_view(panel, [z])
            _draw_fit(panel, z, shape)
        above.set_title(f"{name}: {example.change}")
        form = "" if "converted_from" in run.metrics else f"{_form(run)}, "
        fit = f"{form}dimension {example.dimension}\nresidual {example.residual:.2f}"
        below.set_xlabel(f"{_short(example.relation)}\n{fit}")
    for panel, name in zip(axes[:, 0], ("heads", "transformed heads") * pairs, strict=True):
        panel.set_ylabel(name)
    return figure


@styled
def entities(run: Run, relation: str, dimensions: Sequence[int] = ()) -> Figure:
    """Plot heads, transformed heads and tails of a relation, one column per dimension.

    A head, its image and its tail have the same color: that of the angle of the head. With the
    bilinear pairing the tails are conjugated, as training moves heads there.

    Args:
        run: a run of a 5★E of any form.
        relation: the name of a relation.
        dimensions: the dimensions; by default the four with the best fit.

    Raises:
        SettingsError: if there is no such dimension, or the run is of another model.
    """
    relation_id = run.graph.relations.id_of(relation)
    chosen = list(dimensions) or _best_fitting(run, relation_id, 4)
    figure, axes = panels(3, len(chosen), 2.3, 2.6)
    for column, dimension in zip(axes.T, chosen, strict=True):
        tails, heads, images = _heads_and_images(run, relation_id, dimension)
        for panel, z, marker in zip(column, (heads, images, tails), _ENTITY_MARKERS, strict=True):
            points = panel.scatter(
                z.real,
                z.imag,
                c=np.degrees(np.angle(heads)),
                cmap=CYCLIC_COLORMAP,
                vmin=-180,
                vmax=180,
                s=10,
                marker=marker,
                edgecolors="#555555",  # some colors are nearly white
                linewidths=0.2,
            )
            set_view(panel, [z])
        column[0].set_title(f"dimension {dimension}")
    tails_name = "tails" if require_fivestar(run).pairing == "hermitian" else "conjugated tails"
    names = ("heads", "transformed heads", tails_name)
    for panel, name, marker in zip(axes[:, 0], names, _ENTITY_MARKERS, strict=True):
        panel.set_ylabel(name)
        axes[0, 0].scatter([], [], s=20, marker=marker, color="#555555", label=name)
    figure.legend(loc="outside lower center", ncols=3)
    bar = figure.colorbar(
        points,
        ax=axes,
        location="bottom",
        shrink=0.6,
        aspect=50,
        label="angle of a head, which gives the color of the head, its image and its tail",
    )
    bar.set_ticks(
        range(-180, 181, 90), labels=[f"{n}°".replace("-", "−") for n in range(-180, 181, 90)]
    )
    figure.suptitle(f"{relation} ({_form(run)})", fontsize=9)
    return figure


@styled
def clusters(
    maps: Mapping[str, tuple[npt.NDArray[np.float64], TypedEntities]], captions: Mapping[str, str]
) -> Figure:
    """Plot entities by type.

    Args:
        maps: by name of a model, the points (n, 2) of `entity_map` and their types.
        captions: texts below the panels, by name of a model.
    """
    figure, axes = panels(1, len(maps), 3.4, 3.7)
    for panel, (name, (xy, typed)) in zip(axes[0], maps.items(), strict=True):
        # Draw the largest type first, so that it covers no other.
        sizes = np.bincount(typed.classes, minlength=len(typed.types))
        order = np.argsort(-sizes, kind="stable")
        for index in order:
            mask = typed.classes == index
            style = index % len(COLORS)
            panel.scatter(
                *xy[mask].T,
                s=5,
                color=COLORS[style],
                marker=MARKERS[style],
                linewidths=0,
                label=f"{_short(typed.types[index])} ({mask.sum():,})",
            )
        panel.set_title(name, fontsize=11)
        panel.set_xlabel(captions.get(name, ""))
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_aspect("equal", adjustable="datalim")
    handles, names = axes[0, 0].get_legend_handles_labels()
    columns = 3 if len(maps) > 1 else 1
    figure.legend(handles, names, loc="outside lower center", ncols=columns, markerscale=2)
    return figure


def _heads_and_images(
    run: Run, relation: int, dimension: int
) -> tuple[ComplexPoints, ComplexPoints, ComplexPoints]:
    """Return tails, heads and transformed heads of facts of a relation in one dimension."""
    model = require_fivestar(run)
    if not 0 <= dimension < model.dim:
        raise SettingsError(f"no dimension {dimension}: there are 0 to {model.dim - 1}")
    heads, tails = _facts(run, relation)
    if not len(heads):
        name = run.graph.relations.name_of(relation)
        raise SettingsError(f"{name} has no fact in train to plot")
    h, t = (entity_points(model, torch.as_tensor(ids)) for ids in (heads, tails))
    q = transform_points(model, model.relations.detach()[relation], h)
    if model.pairing == "bilinear":
        t = reflect(t)
    return t[:, dimension].numpy(), h[:, dimension].numpy(), q[:, dimension].numpy()


def _form(run: Run) -> str:
    """Return the form of a 5★E, for a caption."""
    return f"denominator {require_fivestar(run).denominator}"


def _facts(run: Run, relation: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return heads and tails of a fixed random sample of facts, one per head."""
    train = run.graph.train
    rows = np.flatnonzero(train.relations == relation)
    _, first = np.unique(train.heads[rows], return_index=True)
    sample = np.random.default_rng(0).permutation(rows[first])[:_MAX_POINTS]
    return train.heads[sample].astype(np.int64), train.tails[sample].astype(np.int64)


def _best_fitting(run: Run, relation: int, count: int) -> list[int]:
    """Return the dimensions with the largest mean inner product of transformed head and tail."""
    model = require_fivestar(run)
    heads, tails = _facts(run, relation)
    h, t = (entity_points(model, torch.as_tensor(ids)) for ids in (heads, tails))
    q = transform_points(model, model.relations.detach()[relation], h)
    if model.pairing == "bilinear":
        t = reflect(t)
    product = (q * t.conj()).real.nan_to_num(0, 0, 0).mean(dim=0)
    return product.topk(min(count, model.dim)).indices.tolist()


def _order(z: ComplexPoints, shape: str) -> npt.NDArray[np.float64]:
    """Return the positions of points along their line or around their circle."""
    if shape == "circle":
        center, _ = fit_circle(torch.as_tensor(z)[:, None])
        return np.angle(z - complex(center[0]))
    _, direction = fit_line(torch.as_tensor(z)[:, None])
    return np.real(z * np.conj(complex(direction[0])))


def _draw_fit(axes: Axes, z: ComplexPoints, shape: str) -> None:
    if shape == "circle":
        center, radius = fit_circle(torch.as_tensor(z)[:, None])
        unit_circle = np.exp(1j * np.linspace(0, 2 * math.pi, 200))
        line = complex(center[0]) + float(radius[0]) * unit_circle
    elif shape == "line":
        mean, direction = fit_line(torch.as_tensor(z)[:, None])
        reach = np.abs(z - complex(mean[0])).max()
        line = complex(mean[0]) + np.array([-reach, reach]) * complex(direction[0])
    else:
        return
    axes.plot(line.real, line.imag, color=COLORS[1], linewidth=1, zorder=2)


def _short(name: str, limit: int = 34) -> str:
    return name if len(name) <= limit else f"…{name[-limit:]}"
