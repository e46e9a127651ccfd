"""Plot the figures of the concepts: python docs/figures.py writes docs/concepts/figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from animations import BLUE, GRAY, ORANGE, classes, five_transformations
from matplotlib.figure import Figure

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "fivestar"  # the same figure is the same file
OUT = Path(__file__).parent / "concepts" / "figures"


def projective_line() -> Figure:
    """A section through the sphere: the pole, the plane, and a point with its image."""
    figure = Figure(figsize=(5, 2.4), layout="constrained")
    axes = figure.subplots()
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(angle), np.sin(angle), color=GRAY)
    axes.axhline(0, color=GRAY, lw=1)
    for z in (0.45, 2.2):
        x, y = 2 * z / (z * z + 1), (z * z - 1) / (z * z + 1)
        far = (z, 0) if z > 1 else (x, y)
        axes.plot([0, far[0]], [1, far[1]], color=BLUE, lw=1)
        axes.plot([x], [y], "o", color=ORANGE)
        axes.plot([z], [0], "o", color=BLUE)
        axes.annotate("z", (z, 0), (z + 0.06, 0.08), color=BLUE)
    axes.plot([0], [1], "o", color="black")
    axes.annotate("∞", (0, 1), (0.08, 1.06))
    axes.annotate("the plane", (2.7, 0), (2.65, -0.22), color=GRAY)
    axes.set(xlim=(-1.6, 3.4), ylim=(-1.2, 1.35), aspect="equal")
    axes.axis("off")
    return figure


def main() -> None:
    OUT.mkdir(exist_ok=True)
    projective_line().savefig(OUT / "projective-line.svg", metadata={"Date": None})
    for draw in (five_transformations, classes):
        name = draw.__name__.replace("_", "-")
        (OUT / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
