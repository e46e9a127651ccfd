"""The reliability of probabilities: what is said, and how often it is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fivestar.analysis.plots.style import INK, MARKS, panels, styled
from fivestar.evaluation.calibration import Reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def reliability_diagram(found: Mapping[str, Reliability]) -> Figure:
    """Shares of true answers by probability; on the diagonal, what is said is so.

    A mark is as large as the share of answers that it stands for.
    """
    figure, axes = panels(1, 1, 4.2, 4.0)
    place = axes[0, 0]
    place.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
    for (name, each), color, mark in zip(found.items(), INK, MARKS, strict=False):
        said, true, share = zip(*each.bins, strict=True)
        place.plot(said, true, color=color, linewidth=1)
        label = f"{name} (Brier {each.brier:.3f}, error {each.calibration_error:.3f})"
        place.plot([], [], color=color, marker=mark, linewidth=1, label=label)
        sizes = [12 + 200 * s for s in share]
        place.scatter(said, true, s=sizes, color=color, marker=mark, alpha=0.8)
    place.set_xlabel("probability")
    place.set_ylabel("share of true answers")
    place.set_xlim(-0.02, 1.02)
    place.set_ylim(-0.02, 1.02)
    place.set_aspect("equal")
    figure.legend(loc="outside lower center", markerscale=0.6)
    return figure
