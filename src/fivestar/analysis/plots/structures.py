"""Pictures of small structures: ranks of their facts, and where models put their nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fivestar.analysis.plots.style import INK, Points, frame, panels, plain, styled
from fivestar.analysis.relations import mobius_of, points
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# By relation: inside the first structure, between both, inside the second.
_COLOURS = (INK[0], "#999999", INK[1])
_STYLES = ("-", ":", "-")


@styled
def rank_maps(
    triples: Mapping[str, Sequence[str]],
    ranks: Mapping[str, Mapping[str, npt.NDArray[np.float64]]],
    marked: Sequence[str],
    most: int,
) -> Figure:
    """The left and right ranks of triples by models, as numbers and shades; some are framed.

    One panel for each key of `triples` (its rows) and `ranks` (by model: triples × left and right).
    """
    rows = max(len(names) for names in triples.values())
    figure, axes = panels(1, len(triples), 4.6, 0.19 * rows + 1.2)
    shades: Any = None
    for place, (title, names) in zip(axes[0], triples.items(), strict=True):
        values = np.concatenate(list(ranks[title].values()), axis=1)
        shades = place.imshow(values, cmap="viridis", vmin=1, vmax=most, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            color = "white" if value < most * 0.6 else "black"
            text = f"{value:g}"
            place.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
        place.set_yticks(range(len(names)), names, fontsize=6)
        for tick, name in zip(place.get_yticklabels(), names, strict=True):
            tick.set_fontweight("bold" if name in marked else "normal")
        models = list(ranks[title])
        place.set_xticks(
            range(2 * len(models)), [side for _ in models for side in ("left", "right")], fontsize=6
        )
        above = place.secondary_xaxis("top")
        above.set_xticks(
            [2 * n + 0.5 for n in range(len(models))],
            [m.replace(" ", "\n") for m in models],
            fontsize=7,
        )
        above.tick_params(length=0)
        for n in range(1, len(models)):
            place.axvline(2 * n - 0.5, color="white", linewidth=2)
        for row, name in enumerate(names):
            if name in marked:
                _framed(place, row, 2 * len(models))
        place.set_title(title)
    ticks = [1, *range(5, most + 1, 5)]
    label = f"rank (1 is the best of {most})"
    figure.colorbar(shades, ax=axes, shrink=0.6, ticks=ticks, label=label)
    return figure


@styled
def structures(runs: Mapping[str, Run]) -> Figure:
    """Two structures side by side as drawn, and as a 5★E of dimension 1 has embedded them.

    The keys are as `path beside loop`; nodes h come first, then as many nodes t.
    """
    figure, axes = panels(2, len(runs), 2.6, 2.6)
    for (above, below), (name, run) in zip(axes.T, runs.items(), strict=True):
        heads, tails = name.split(" beside ")
        drawn = _drawn(heads, tails, len(run.graph.entities) // 2)
        _draw(above, run, drawn)
        plain(above)
        above.set_xlim(-2.1, 2.1)
        above.set_ylim(-1.3, 1.3)
        above.set_title(name)
        z = points(mobius_of(run), torch.arange(len(run.graph.entities)))[:, 0].numpy()
        _draw(below, run, z)
        frame(below, [z], spread=0)
    return figure


def _drawn(heads: str, tails: str, nodes: int) -> Points:
    """Places of nodes: a loop as a circle, a path as a line; tails on the right."""
    turn = np.exp(2j * math.pi * np.arange(nodes) / nodes) * 0.75
    rise = 1j * np.linspace(1, -1, nodes)
    # As the nodes of a path that goes down, those of a loop begin at the top.
    shapes = {"path": rise, "loop": 1j * np.conj(turn)}
    return np.concatenate([shapes[heads] - 1.1, shapes[tails] + 1.1])


def _draw(axes: Axes, run: Run, z: Points) -> None:
    train, nodes = run.graph.train, len(z) // 2
    facts = zip(train.heads.tolist(), train.relations.tolist(), train.tails.tolist(), strict=True)
    for head, relation, tail in facts:
        arrow = {
            "arrowstyle": "-|>",
            "color": _COLOURS[relation],
            "linestyle": _STYLES[relation],
            "lw": 0.8,
            "shrinkA": 5,
            "shrinkB": 5,
            "mutation_scale": 7,
        }
        start, end = ((z[n].real, z[n].imag) for n in (head, tail))
        axes.annotate("", end, start, arrowprops=arrow, zorder=1)
    for side, mark, color in ((z[:nodes], "o", INK[0]), (z[nodes:], "s", INK[1])):
        axes.scatter(side.real, side.imag, marker=mark, s=60, color=color, zorder=2)
        for number, each in enumerate(side):
            axes.text(
                each.real,
                each.imag,
                str(number + 1),
                color="white",
                fontsize=6,
                ha="center",
                va="center",
                zorder=3,
            )


def _framed(axes: Axes, row: int, columns: int) -> None:
    corners = [(-0.5, row - 0.5), (columns - 0.5, row - 0.5), (columns - 0.5, row + 0.5)]
    corners += [(-0.5, row + 0.5), (-0.5, row - 0.5)]
    axes.plot(*zip(*corners, strict=True), color=INK[1], linewidth=2, clip_on=False)
