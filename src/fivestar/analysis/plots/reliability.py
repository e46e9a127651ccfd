"""Reliability diagrams of calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fivestar.analysis.plots.style import COLORS, MARKERS, panels, styled
from fivestar.evaluation.calibration import Reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def reliability_diagram(reliabilities: Mapping[str, Reliability]) -> Figure:
    """Plot the share of true answers against the predicted probability.

    The diagonal is perfect calibration; the area of a marker grows with its number of answers.

    Args:
        reliabilities: the binned probabilities by name.
    """
    figure, axes = panels(1, 1, 4.2, 4.0)
    panel = axes[0, 0]
    panel.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
    for (name, each), color, marker in zip(reliabilities.items(), COLORS, MARKERS, strict=False):
        predicted, observed, share = zip(*each.bins, strict=True)
        panel.plot(predicted, observed, color=color, linewidth=1)
        label = f"{name} (Brier {each.brier:.3f}, error {each.calibration_error:.3f})"
        panel.plot([], [], color=color, marker=marker, linewidth=1, label=label)
        sizes = [12 + 200 * s for s in share]
        panel.scatter(predicted, observed, s=sizes, color=color, marker=marker, alpha=0.8)
    panel.set_xlabel("probability")
    panel.set_ylabel("share of true answers")
    panel.set_xlim(-0.02, 1.02)
    panel.set_ylim(-0.02, 1.02)
    panel.set_aspect("equal")
    figure.legend(loc="outside lower center", markerscale=0.6)
    return figure
