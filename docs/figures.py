"""Plot the figures of the concepts: python docs/figures.py writes docs/concepts/figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "fivestar"  # the same figure is the same file
OUT = Path(__file__).parent / "concepts" / "figures"
BLUE, ORANGE, GRAY = "#2a6fdb", "#d9702b", "#888888"

Map = Callable[[np.ndarray], np.ndarray]


def grid_lines() -> list[np.ndarray]:
    """Return the lines of a grid beside the origin, as arrays of complex numbers."""
    along, at = np.linspace(0.2, 1.2, 21), np.linspace(0.2, 1.2, 6)
    return [x + 1j * along for x in at] + [along + 1j * y for y in at]


def frame(axes: Axes, title: str, size: float = 2) -> None:
    axes.set(xlim=(-size, size), ylim=(-size, size), aspect="equal", xticks=[], yticks=[])
    axes.axhline(0, color=GRAY, lw=0.5)
    axes.axvline(0, color=GRAY, lw=0.5)
    axes.set_title(title, fontsize=9)


def five_transformations() -> Figure:
    maps: list[tuple[str, Map]] = [
        ("translation", lambda z: z - 1.6 - 1.2j),
        ("rotation", lambda z: z * np.exp(2j)),
        ("homothety", lambda z: 1.5 * z),
        ("inversion + reflection", lambda z: 1 / z),
        ("a general Möbius map", lambda z: ((1 + 1j) * z - 1.5) / (z + 0.8j)),
    ]
    figure = Figure(figsize=(10, 2.4), layout="constrained")
    for axes, (title, transform) in zip(figure.subplots(1, 5), maps, strict=True):
        for line in grid_lines():
            axes.plot(line.real, line.imag, color=BLUE, lw=0.6)
            image = transform(line)
            axes.plot(image.real, image.imag, color=ORANGE, lw=0.9)
        frame(axes, title)
    return figure


def classes() -> Figure:
    """Flow lines of maps with the fixed points −1 and 1, or with ∞ alone."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    rates = {"elliptic": 1j, "hyperbolic": 1.0, "loxodromic": 0.6 + 1j}
    panels = figure.subplots(1, 4)
    time = np.linspace(-8, 8, 300)
    for axes, (title, rate) in zip(panels, rates.items(), strict=False):
        seeds = np.exp(np.linspace(-1.8, 1.8, 9)) if title == "elliptic" else None
        starts = seeds if seeds is not None else np.exp(2j * np.pi * np.arange(10) / 10)
        for start in starts:
            w = start * np.exp(rate * time)  # the flow around 0 and ∞
            with np.errstate(all="ignore"):
                z = (1 + w) / (1 - w)  # 0 to 1, and ∞ to −1
            z[np.abs(z) > 6] = np.nan
            axes.plot(z.real, z.imag, color=BLUE, lw=0.8)
        axes.plot([1, -1], [0, 0], "o", color=ORANGE, ms=4)
        frame(axes, title, 2.2)
    for height in np.linspace(-2, 2, 9):
        panels[3].annotate(
            "",
            (2, height),
            (-2, height),
            arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 0.8},
        )
    frame(panels[3], "parabolic (fixed point ∞)", 2.2)
    return figure


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
    for plot in (five_transformations, classes, projective_line):
        name = plot.__name__.replace("_", "-")
        plot().savefig(OUT / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
