"""Plots of a hyperparameter search: its trials, and the importance of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from fivestar.analysis.plots.style import COLORS, GRAY, MARKERS, panels, styled
from fivestar.training.search.trials import Tried

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def history(tried: Sequence[Tried]) -> Figure:
    """Plot the validation MRR of each trial, and the best so far."""
    figure, axes = panels(1, 1, width=5, height=3)
    (ax,) = axes.flat
    for index, state in enumerate(("complete", "pruned")):
        points = [(t.number, t.mrr) for t in tried if t.state == state and t.mrr is not None]
        if points:
            color = GRAY if state == "pruned" else COLORS[0]
            ax.scatter(
                *zip(*points, strict=True), s=18, c=color, marker=MARKERS[index], label=state
            )
    complete = [(t.number, t.mrr) for t in tried if t.state == "complete" and t.mrr is not None]
    if complete:
        numbers, values = zip(*complete, strict=True)
        best = list(accumulate(values, max))
        ax.step(numbers, best, where="post", color=COLORS[1], linewidth=1, label="best so far")
    for trial in tried:
        if trial.state == "failed":
            ax.axvline(trial.number, color=GRAY, linewidth=0.8, linestyle=":")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("trial (dotted: failed)")
    ax.set_ylabel("validation MRR")
    if complete or any(t.state == "pruned" for t in tried):
        ax.legend()
    return figure


@styled
def importance(shares: dict[str, float]) -> Figure:
    """Plot the share of the variation between trials that each setting explains."""
    figure, axes = panels(1, 1, width=5, height=0.5 + 0.35 * len(shares))
    (ax,) = axes.flat
    names = sorted(shares, key=lambda name: shares[name])
    ax.barh(names, [shares[name] for name in names], color=COLORS[0], height=0.6)
    ax.set_xlabel("share of the variation in validation MRR")
    ax.set_xlim(0, 1)
    return figure
