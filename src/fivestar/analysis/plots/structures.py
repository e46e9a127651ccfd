"""Plots of small structures: ranks of their facts, and embeddings of their nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fivestar.analysis.plots.style import COLORS, ComplexPoints, hide_axes, panels, set_view, styled
from fivestar.analysis.relations import entity_points, require_mobius
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# By relation: within the first structure, between both, within the second.
_RELATION_COLORS = (COLORS[0], "#999999", COLORS[1])
_STYLES = ("-", ":", "-")
# Of the drawing of two structures, with their nodes.
_DRAWING_WIDTH, _DRAWING_HEIGHT = 4.2, 2.4


@styled
def rank_maps(
    triples: Mapping[str, Sequence[str]],
    ranks: Mapping[str, Mapping[str, npt.NDArray[np.float64]]],
    marked: Sequence[str],
    max_rank: int,
) -> Figure:
    """Plot the left and right ranks of triples by several models as heat maps.

    Args:
        triples: the names of triples (rows) by title of a panel.
        ranks: by title and name of a model, the ranks (triples, 2).
        marked: the names of triples to frame.
        max_rank: the number of candidates.
    """
    rows = max(len(names) for names in triples.values())
    num_models = max(len(by_model) for by_model in ranks.values())
    figure, axes = panels(1, len(triples), 0.77 * num_models, 0.19 * rows + 1.2)
    image: Any = None
    for panel, (title, names) in zip(axes[0], triples.items(), strict=True):
        values = np.concatenate(list(ranks[title].values()), axis=1)
        image = panel.imshow(values, cmap="viridis", vmin=1, vmax=max_rank, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            color = "white" if value < max_rank * 0.6 else "black"
            text = f"{value:g}"
            panel.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
        panel.set_yticks(range(len(names)), names, fontsize=6)
        for tick, name in zip(panel.get_yticklabels(), names, strict=True):
            tick.set_fontweight("bold" if name in marked else "normal")
        models = list(ranks[title])
        panel.set_xticks(
            range(2 * len(models)), [side for _ in models for side in ("left", "right")], fontsize=6
        )
        above = panel.secondary_xaxis("top")
        above.set_xticks(
            [2 * n + 0.5 for n in range(len(models))],
            [m.replace(" ", "\n") for m in models],
            fontsize=7,
        )
        above.tick_params(length=0)
        for n in range(1, len(models)):
            panel.axvline(2 * n - 0.5, color="white", linewidth=2)
        for row, name in enumerate(names):
            if name in marked:
                _draw_frame(panel, row, 2 * len(models))
        panel.set_title(title)
    ticks = [1, *range(5, max_rank + 1, 5)]
    label = f"rank (1 is the best of {max_rank})"
    figure.colorbar(image, ax=axes, shrink=0.6, ticks=ticks, label=label)
    return figure


@styled
def structures(runs: Mapping[str, Run]) -> Figure:
    """Plot pairs of structures as drawings (top) and as embedded by a 5★E with d=1 (bottom).

    Args:
        runs: runs by name, as "path beside loop"; nodes h come first, then as many nodes t.
    """
    figure, axes = panels(2, len(runs), 2.6, (2.6 * _DRAWING_HEIGHT / _DRAWING_WIDTH + 0.2, 2.6))
    for (above, below), (name, run) in zip(axes.T, runs.items(), strict=True):
        heads, tails = name.split(" beside ")
        layout = _layout(heads, tails, len(run.graph.entities) // 2)
        _draw(above, run, layout)
        hide_axes(above)
        above.set_xlim(-_DRAWING_WIDTH / 2, _DRAWING_WIDTH / 2)
        above.set_ylim(-_DRAWING_HEIGHT / 2, _DRAWING_HEIGHT / 2)
        above.set_title(name)
        z = entity_points(require_mobius(run), torch.arange(len(run.graph.entities)))[:, 0].numpy()
        _draw(below, run, z)
        # Leave space for the markers, which have numbers.
        set_view(below, [z.mean() + 1.1 * (z - z.mean())], spread=0)
    return figure


def _layout(heads: str, tails: str, nodes: int) -> ComplexPoints:
    """Return positions of nodes: a loop is a circle, a path a line; tails on the right."""
    circle = np.exp(2j * math.pi * np.arange(nodes) / nodes) * 0.75
    line = 1j * np.linspace(1, -1, nodes)
    # Both begin at the top.
    shapes = {"path": line, "loop": 1j * np.conj(circle)}
    return np.concatenate([shapes[heads] - 1.1, shapes[tails] + 1.1])


def _draw(axes: Axes, run: Run, z: ComplexPoints) -> None:
    train, nodes = run.graph.train, len(z) // 2
    facts = zip(train.heads.tolist(), train.relations.tolist(), train.tails.tolist(), strict=True)
    for head, relation, tail in facts:
        arrow = {
            "arrowstyle": "-|>",
            "color": _RELATION_COLORS[relation],
            "linestyle": _STYLES[relation],
            "lw": 0.8,
            "shrinkA": 5,
            "shrinkB": 5,
            "mutation_scale": 7,
        }
        start, end = ((z[n].real, z[n].imag) for n in (head, tail))
        axes.annotate("", end, start, arrowprops=arrow, zorder=1)
    for side, marker, color in ((z[:nodes], "o", COLORS[0]), (z[nodes:], "s", COLORS[1])):
        axes.scatter(side.real, side.imag, marker=marker, s=60, color=color, zorder=2)
        for index, node in enumerate(side):
            axes.text(
                node.real,
                node.imag,
                str(index + 1),
                color="white",
                fontsize=6,
                ha="center",
                va="center",
                zorder=3,
            )


def _draw_frame(axes: Axes, row: int, columns: int) -> None:
    corners = [(-0.5, row - 0.5), (columns - 0.5, row - 0.5), (columns - 0.5, row + 0.5)]
    corners += [(-0.5, row + 0.5), (-0.5, row - 0.5)]
    axes.plot(*zip(*corners, strict=True), color=COLORS[1], linewidth=2, clip_on=False)
