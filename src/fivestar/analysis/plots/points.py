"""Pictures of entities: the shapes they lie in, how a relation moves them, and where types lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fivestar.analysis.clustering import Typed
from fivestar.analysis.plots.style import FAINT, INK, MARKS, SCALE, Points, frame, panels, styled
from fivestar.analysis.relations import matrices, mobius_of, points
from fivestar.analysis.shapes import Example, fitted_circle, fitted_line
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import apply, reflect
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points drawn at most; more hide each other.
_MOST = 150


@styled
def shapes(examples: Sequence[tuple[str, Run, Example]]) -> Figure:
    """Heads of a relation in one dimension (above) and where it moves them (below).

    Each example has a name, its run (a 5★E, or converted to one) and where to look. A point keeps
    its colour when it is moved; the fitted line or circle is drawn through.
    """
    if not examples:
        raise SettingsError("there is no example of a shape to draw")
    figure, axes = panels(2, len(examples), 2.4, 2.5)
    for (above, below), (name, run, example) in zip(axes.T, examples, strict=True):
        relation = run.graph.relations.id_of(example.relation)
        _, heads, moved = _moved(run, relation, example.dimension)
        before, after = example.change.split(" → ")
        order = _order(heads, before)
        for place, z, shape in ((above, heads, before), (below, moved, after)):
            place.scatter(z.real, z.imag, c=order, cmap=SCALE, s=6, zorder=3)
            frame(place, [z])
            _draw_fit(place, z, shape)
        above.set_title(f"{name}: {example.change}")
        below.set_xlabel(f"{_short(example.relation)}\ndimension {example.dimension}")
    axes[0, 0].set_ylabel("heads")
    axes[1, 0].set_ylabel("moved heads")
    return figure


@styled
def entities(run: Run, relation: str, dimensions: Sequence[int] = ()) -> Figure:
    """Heads of a relation, where it moves them, and its tails, in some dimensions.

    With the bilinear pairing the tails are mirrored: that is where moved heads should go.
    """
    number = run.graph.relations.id_of(relation)
    chosen = list(dimensions) or _nearest_to_tails(run, number, 4)
    figure, axes = panels(1, len(chosen), 2.5, 2.8)
    for place, dimension in zip(axes[0], chosen, strict=True):
        tails, heads, moved = _moved(run, number, dimension)
        drawn = (("heads", heads), ("moved heads", moved), ("tails", tails))
        for (name, z), color, mark in zip(drawn, (FAINT, INK[0], INK[1]), "oxs", strict=True):
            how = {"facecolors": "none", "edgecolors": color} if mark == "s" else {"color": color}
            place.scatter(
                z.real,
                z.imag,
                s=9,
                marker=mark,
                linewidths=0.7,
                label=name,
                **how,
            )
        frame(place, [heads, moved, tails])
        place.set_title(f"dimension {dimension}")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    figure.suptitle(relation, fontsize=9)
    return figure


@styled
def clusters(
    maps: Mapping[str, tuple[npt.NDArray[np.float64], Typed]], captions: Mapping[str, str]
) -> Figure:
    """Entities by type, as `entity_map` placed them, for each of some models."""
    figure, axes = panels(1, len(maps), 3.4, 3.7)
    for place, (name, (xy, typed)) in zip(axes[0], maps.items(), strict=True):
        # The largest type first, so that it covers no other.
        sizes = np.bincount(typed.classes, minlength=len(typed.types))
        order = np.argsort(-sizes, kind="stable")
        for number in order:
            here = typed.classes == number
            style = number % len(INK)
            place.scatter(
                *xy[here].T,
                s=5,
                color=INK[style],
                marker=MARKS[style],
                linewidths=0,
                alpha=0.7,
                label=f"{_short(typed.types[number])} ({here.sum():,})",
            )
        place.set_title(name, fontsize=11)
        place.set_xlabel(captions.get(name, ""))
        place.set_xticks([])
        place.set_yticks([])
        place.set_aspect("equal", adjustable="datalim")
    handles, names = axes[0, 0].get_legend_handles_labels()
    columns = 3 if len(maps) > 1 else 1
    figure.legend(handles, names, loc="outside lower center", ncols=columns, markerscale=2)
    return figure


def _moved(run: Run, relation: int, dimension: int) -> tuple[Points, Points, Points]:
    """Tails, heads and moved heads of some facts of a relation in one dimension."""
    model = mobius_of(run)
    if not 0 <= dimension < model.dim:
        raise SettingsError(f"no dimension {dimension}: there are 0 to {model.dim - 1}")
    train = run.graph.train
    heads, tails = _facts(run, relation)
    if not len(heads):
        name = run.graph.relations.name_of(relation)
        raise SettingsError(f"{name} has no fact among the {len(train):,} of train to draw")
    h, t = (points(model, torch.as_tensor(ids))[:, dimension] for ids in (heads, tails))
    m = matrices(model, model.relations.detach()[relation])[dimension]
    if model.pairing == "bilinear":
        t = reflect(t)
    return t.numpy(), h.numpy(), apply(m, h).numpy()


def _facts(run: Run, relation: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One fact a head, drawn in an order that depends on nothing."""
    train = run.graph.train
    here = np.flatnonzero(train.relations == relation)
    _, first = np.unique(train.heads[here], return_index=True)
    some = np.random.default_rng(0).permutation(here[first])[:_MOST]
    return train.heads[some].astype(np.int64), train.tails[some].astype(np.int64)


def _nearest_to_tails(run: Run, relation: int, count: int) -> list[int]:
    """The dimensions in which moved heads and tails go together best (as numbers correlate)."""
    model = mobius_of(run)
    heads, tails = _facts(run, relation)
    h, t = (points(model, torch.as_tensor(ids)) for ids in (heads, tails))
    m = matrices(model, model.relations.detach()[relation])
    if model.pairing == "bilinear":
        t = reflect(t)
    product = (apply(m, h) * t.conj()).real.nan_to_num(0, 0, 0).mean(dim=0)
    return product.topk(min(count, model.dim)).indices.tolist()


def _order(z: Points, shape: str) -> npt.NDArray[np.float64]:
    """Where points stand along their line, or round their circle."""
    if shape == "circle":
        centre, _ = fitted_circle(torch.as_tensor(z)[:, None])
        return np.angle(z - complex(centre[0]))
    _, direction = fitted_line(torch.as_tensor(z)[:, None])
    return np.real(z * np.conj(complex(direction[0])))


def _draw_fit(axes: Axes, z: Points, shape: str) -> None:
    if shape == "circle":
        centre, radius = fitted_circle(torch.as_tensor(z)[:, None])
        turn = np.exp(1j * np.linspace(0, 2 * math.pi, 200))
        line = complex(centre[0]) + float(radius[0]) * turn
    elif shape == "line":
        middle, direction = fitted_line(torch.as_tensor(z)[:, None])
        reach = np.abs(z - complex(middle[0])).max()
        line = complex(middle[0]) + np.array([-reach, reach]) * complex(direction[0])
    else:
        return
    axes.plot(line.real, line.imag, color=INK[1], linewidth=1, zorder=2)


def _short(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"…{name[-most:]}"
