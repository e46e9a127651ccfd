"""The Riemann sphere on the plane, in an orthographic view from above."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.analysis.plots.style import COLORS, GRAY, ComplexPoints, hide_axes
from fivestar.geometry.fixed_points import canonical_form, multiplier, power
from fivestar.geometry.mobius import apply, to_sphere

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AZIMUTH, _ELEVATION = math.radians(-68), math.radians(24)
_PLANE = 1.3
# What is shown: the corners of the plane, the sphere and the name of its pole ∞.
_VIEW_WIDTH, _VIEW_HEIGHT = 3.5, (-1.66, 1.34)
ASPECT = (_VIEW_HEIGHT[1] - _VIEW_HEIGHT[0]) / _VIEW_WIDTH
# Number of flow lines, and of points per line.
_NUM_LINES, _NUM_SAMPLES = 12, 400
# Flow lines end at this negative logarithm of the distance to a fixed point.
_REACH = 5.0
# Below this expansion (rotation) a map counts as not expanding (rotating).
_NEGLIGIBLE = 1e-6

Positions = npt.NDArray[np.float64]


def view(positions: Positions) -> tuple[Positions, Positions, Positions]:
    """Return the coordinates (right, up, toward the viewer) of points (…, 3)."""
    east = np.array([-math.sin(_AZIMUTH), math.cos(_AZIMUTH), 0])
    ahead = np.array(
        [
            math.cos(_ELEVATION) * math.cos(_AZIMUTH),
            math.cos(_ELEVATION) * math.sin(_AZIMUTH),
            math.sin(_ELEVATION),
        ]
    )
    return positions @ east, positions @ np.cross(ahead, east), positions @ ahead


def draw_sphere(axes: Axes) -> None:
    """Draw the plane, and the sphere above it with its equator and its poles 0 and ∞."""
    hide_axes(axes)
    axes.set_xlim(-_VIEW_WIDTH / 2, _VIEW_WIDTH / 2)
    axes.set_ylim(*_VIEW_HEIGHT)
    ends = np.linspace(-_PLANE, _PLANE, 9)
    floor = np.full_like(ends, -1)
    for position in ends:
        fixed = np.full_like(ends, position)
        for x, y in ((ends, fixed), (fixed, ends)):
            right, up, _ = view(np.stack([x, y, floor], axis=-1))
            axes.plot(right, up, color=GRAY, linewidth=0.4, zorder=0)
    angle = np.linspace(0, 2 * math.pi, 200)
    axes.fill(np.cos(angle), np.sin(angle), color="white", alpha=0.82, zorder=1)
    axes.plot(np.cos(angle), np.sin(angle), color="#555555", linewidth=0.8, zorder=4)
    equator = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=-1)
    draw_curve(axes, equator, color="#888888", linewidth=0.6, linestyle="--")
    for height, name in ((1.0, "∞"), (-1.0, "0")):
        right, up, _ = view(np.array([0.0, 0.0, height]))
        axes.annotate(
            name,
            (right, up),
            (0, 5 if height > 0 else -5),
            textcoords="offset points",
            ha="center",
            va="bottom" if height > 0 else "top",
            fontsize=8,
            zorder=6,
        )


def draw_curve(axes: Axes, positions: Positions, **style: object) -> None:
    """Draw a curve (n, 3) on the sphere; the part behind is faint."""
    right, up, near = view(positions)
    for mask, alpha, order in ((near < 0, 0.25, 2), (near >= 0, 1.0, 3)):
        x, y = np.where(mask, right, np.nan), np.where(mask, up, np.nan)
        axes.plot(x, y, alpha=alpha, zorder=order, **style)  # type: ignore[arg-type]


def draw_flow(axes: Axes, m: Tensor, color: str = COLORS[0]) -> None:
    """Draw the flow lines of a map on the sphere, with arrows in front."""
    for line in flow_lines(m):
        positions = to_sphere(line).numpy()
        draw_curve(axes, positions, color=color, linewidth=0.8)
        _draw_arrow(axes, positions, color)


def draw_points(axes: Axes, z: ComplexPoints, **style: object) -> None:
    """Draw points of the plane on the sphere; those behind are faint."""
    right, up, near = view(to_sphere(torch.as_tensor(z)).numpy())
    for mask, alpha in ((near < 0, 0.35), (near >= 0, 1.0)):
        axes.scatter(right[mask], up[mask], alpha=alpha, zorder=5, **style)  # type: ignore[arg-type]


def draw_fixed_point(axes: Axes, z: complex, style: Mapping[str, object]) -> None:
    """Draw a fixed point, for which there is a style of `Axes.plot`; faint if behind."""
    right, up, near = view(to_sphere(torch.as_tensor(z)).numpy())
    alpha = 1.0 if near >= -_NEGLIGIBLE else 0.35
    axes.plot(right, up, alpha=alpha, zorder=5, **style)  # type: ignore[arg-type]


def flow_lines(m: Tensor) -> list[Tensor]:
    """Return the orbits of points under the powers of a map: circles, arcs or spirals."""
    form, conjugator = canonical_form(m)
    k = multiplier(m)
    expansion, rotation = float(k.abs().log()), float(k.angle().abs())
    ends = torch.linspace(-_REACH, _REACH, _NUM_SAMPLES, dtype=torch.float64)
    if abs(form[0, 1]) > 0:  # parabolic: z ↦ z + 1
        starts, times = 1j * _spaced(2.0, _NUM_LINES).sinh(), ends.sinh()
    elif expansion < _NEGLIGIBLE:  # elliptic: full circles
        starts, times = (
            _spaced(2.4, _NUM_LINES - 3).exp() + 0j,
            (ends / _REACH) * math.pi / rotation,
        )
    else:  # arcs between the fixed points, or half as many spirals, which are longer
        count = _NUM_LINES if rotation < _NEGLIGIBLE else _NUM_LINES // 2
        starts = torch.exp(2j * math.pi / count * torch.arange(count, dtype=torch.float64))
        times = ends / expansion
    return list(apply(power(m, times), apply(conjugator, starts)[:, None]))


def _spaced(end: float, count: int) -> Tensor:
    return torch.linspace(-end, end, count, dtype=torch.float64)


def _draw_arrow(axes: Axes, positions: Positions, color: str) -> None:
    """Draw an arrowhead in the middle of the part in front."""
    right, up, near = view(positions)
    length = np.hypot(np.diff(right), np.diff(up)) * (near[1:] > 0.15)
    if length.sum() < 0.4:
        return
    middle = int(np.searchsorted(np.cumsum(length), length.sum() / 2))
    start = max(middle - 1, 0)
    axes.annotate(
        "",
        (right[middle + 1], up[middle + 1]),
        (right[start], up[start]),
        zorder=3,
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": 0.6, "mutation_scale": 7},
    )
