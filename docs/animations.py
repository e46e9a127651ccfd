"""Write the animated figures of the concepts as SVG: maps that move a grid, and flows of classes.

A map M moves a point z along its flow, M^s z for s from 0 to 1. Where the reader prefers reduced
motion, the figures show grid and image (or the flow lines) without moving.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

import numpy as np
import torch
from numpy.typing import NDArray

from fivestar.geometry.fixed_points import power
from fivestar.geometry.mobius import apply

BLUE, ORANGE, GRAY = "#2a6fdb", "#d9702b", "#888888"
PANEL, TITLE, GAP = 150, 20, 8
SECONDS = 7
STEPS = 16
# Times of a loop: the grid rests, moves, rests as its image, and moves back.
REST = 0.12

Points = NDArray[np.complex128]


class Panel:
    """A square part of the plane, with a title, at a place of the figure."""

    def __init__(self, number: int, title: str, size: float) -> None:
        """Show [−size, size]² as panel `number` of the row."""
        self.left, self.title, self.size = number * (PANEL + GAP), title, size
        self.parts: list[str] = []

    def pixels(self, z: Points) -> str:
        """Return points as pairs of SVG coordinates; far ones end well outside the panel."""
        scale = PANEL / (2 * self.size)
        far = np.maximum(np.abs(z) / (8 * self.size), 1)
        x, y = PANEL / 2 + scale * (z / far).real, PANEL / 2 - scale * (z / far).imag
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    def line(self, z: Points, style: str) -> None:
        self.parts.append(f'<path class="{style}" d="M{self.pixels(z)}"/>')

    def moving_line(self, frames: list[Points], times: Iterable[float], style: str) -> None:
        values = ";".join(f"M{self.pixels(z)}" for z in frames)
        self.parts.append(
            f'<path class="moving {style}" d="M{self.pixels(frames[0])}">'
            f'<animate attributeName="d" dur="{SECONDS}s" repeatCount="indefinite" '
            f'keyTimes="{_times(times)}" values="{values}"/></path>'
        )

    def dot(self, z: complex, style: str) -> None:
        x, y = self.pixels(np.array([z])).split(",")
        self.parts.append(f'<circle class="{style}" cx="{x}" cy="{y}" r="2.6"/>')

    def moving_dot(self, frames: Points, seconds: float, style: str) -> None:
        pairs = [pair.split(",") for pair in self.pixels(frames).split()]
        x, y = (";".join(values) for values in zip(*pairs, strict=True))
        common = f'dur="{seconds}s" repeatCount="indefinite"'
        self.parts.append(
            f'<circle class="moving {style}" r="1.8"><animate attributeName="cx" {common} '
            f'values="{x}"/><animate attributeName="cy" {common} values="{y}"/></circle>'
        )

    def svg(self) -> str:
        half, end = PANEL / 2, PANEL
        axes = f'<path class="axis" d="M0,{half} {end},{half} M{half},0 {half},{end}"/>'
        return (
            f'<svg x="{self.left}" y="{TITLE}" width="{PANEL}" height="{PANEL}">{axes}\n'
            + "\n".join(self.parts)
            + f'\n<rect class="axis" width="{PANEL}" height="{PANEL}"/></svg>\n'
            f'<text x="{self.left + half}" y="13">{escape(self.title)}</text>\n'
        )


def _times(times: Iterable[float]) -> str:
    return ";".join(f"{time:.4f}".rstrip("0").rstrip(".") for time in times)


def figure(title: str, panels: list[Panel]) -> str:
    """Return a row of panels as an SVG file."""
    width, height = len(panels) * (PANEL + GAP) - GAP, PANEL + TITLE
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img" aria-label="{escape(title)}">
<title>{escape(title)}</title>
<style>
path, rect {{ fill: none; stroke-linejoin: round }}
text {{ font: 11px sans-serif; text-anchor: middle; fill: #333 }}
.axis {{ stroke: {GRAY}; stroke-width: .5 }}
.grid {{ stroke: {BLUE}; stroke-width: .6 }}
.image {{ stroke: {ORANGE}; stroke-width: 1.1 }}
.trail {{ stroke: {GRAY}; stroke-width: .7; stroke-dasharray: 2 2 }}
.flow {{ stroke: {BLUE}; stroke-width: .6; opacity: .6 }}
.point {{ fill: {BLUE} }}
.fixed {{ fill: {ORANGE} }}
.still {{ display: none }}
@media (prefers-reduced-motion: reduce) {{
  .moving {{ display: none }}
  .still {{ display: inline }}
}}
</style>
{"".join(panel.svg() for panel in panels)}</svg>
"""


def _flow(matrix: NDArray[np.complex128], z: Points, time: float) -> Points:
    """Return M^s z."""
    moved: Points = apply(power(torch.from_numpy(matrix), time), torch.from_numpy(z)).numpy()
    return moved


def _grid(points: int) -> list[Points]:
    """Return the lines of a grid beside the origin."""
    along, at = np.linspace(0.2, 1.2, points), np.linspace(0.2, 1.2, 6)
    return [x + 1j * along for x in at] + [along + 1j * y for y in at]


def five_transformations() -> str:
    """A grid that moves along the flow of a map to its image, and back."""
    maps = {
        "translation": ([1, -1.6 - 1.2j, 0, 1], 2),
        "rotation": ([np.exp(2j), 0, 0, 1], 2),
        "homothety": ([1.5, 0, 0, 1], 2),
        "inversion + reflection": ([0, 1, 1, 0], 15),
        "a general Möbius map": ([0.5 - 0.75j, -1 - 0.25j, -0.25 - 0.5j, 0.75 + 0.5j], 15),
    }
    steps = np.linspace(0, 1, STEPS + 1)
    there = REST + (0.5 - REST) * np.arccos(1 - 2 * steps) / np.pi  # slow, fast, slow
    times = [0, *there, *(0.5 + there)]
    panels = []
    for number, (title, (entries, points)) in enumerate(maps.items()):
        panel = Panel(number, title, 2)
        matrix = np.array(entries, dtype=complex).reshape(2, 2)
        for line in _grid(points):
            panel.line(line, "grid")
        for corner in (0.2 + 0.2j, 0.2 + 1.2j, 1.2 + 0.2j, 1.2 + 1.2j):
            path = [_flow(matrix, np.array([corner]), time)[0] for time in np.linspace(0, 1, 25)]
            panel.line(np.array(path), "trail")
        for line in _grid(points):
            frames = [_flow(matrix, line, time) for time in steps]
            panel.moving_line([line, *frames, *frames[::-1]], times, "image")
            panel.line(frames[-1], "still image")
        panels.append(panel)
    return figure("A grid under translation, rotation, homothety, 1/z and a general map", panels)


def classes() -> str:
    """Flow lines of maps with the fixed points −1 and 1, or with ∞ alone, and points on them."""
    panels = []
    time = np.linspace(-8, 8, 161)
    turns = 2 * np.pi / 8
    for title, rate in {"elliptic": 1j, "hyperbolic": 1.0, "loxodromic": 0.6 + 1j}.items():
        panel = Panel(len(panels), title, 2.2)
        circles = title == "elliptic"
        starts = np.exp(np.linspace(-1.8, 1.8, 8) if circles else 2j * np.pi * np.arange(10) / 10)
        span = np.linspace(0, 2 * np.pi, 65) if circles else time
        for start in starts:
            panel.line(_around_one(start * np.exp(rate * span)), "flow")
            for begin in np.arange(8 if circles else 10) - (0 if circles else 5):
                steps = turns * (begin + np.linspace(0, 1, 9))
                panel.moving_dot(_around_one(start * np.exp(rate * steps)), 2.5, "point")
        panel.dot(1, "fixed")
        panel.dot(-1, "fixed")
        panels.append(panel)
    panel = Panel(len(panels), "parabolic (fixed point ∞)", 2.2)
    for height in np.linspace(-2, 2, 9):
        panel.line(np.array([-3, 3]) + 1j * height, "flow")
        for begin in np.arange(-2.4, 2.4, 0.6):
            panel.moving_dot(begin + 1j * height + np.array([0, 0.6]), 2.5, "point")
    panels.append(panel)
    return figure("Flows of an elliptic, a hyperbolic, a loxodromic and a parabolic map", panels)


def _around_one(w: Points) -> Points:
    """Return the points of the flow around 0 and ∞ as a flow around 1 and −1."""
    moved: Points = (1 + w) / np.where(np.abs(1 - w) < 1e-9, 1e-9, 1 - w)
    return moved
