"""The Riemann sphere, seen from a little above and to the side, resting on the plane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.analysis.plots.style import FAINT, INK, Points, plain
from fivestar.geometry.fixed_points import canonical_form, multiplier, power
from fivestar.geometry.mobius import apply, to_sphere

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AZIMUTH, _ELEVATION = math.radians(-68), math.radians(24)
_PLANE = 1.3
# How many lines, and how many points of each.
_LINES, _SAMPLES = 12, 400
# Flow lines run from where a fixed point is this near (as a logarithm) to where the other is.
_REACH = 5.0
# Below these a map turns but does not expand, or does neither.
_STILL = 1e-6

Seen = npt.NDArray[np.float64]


def view(positions: Seen) -> tuple[Seen, Seen, Seen]:
    """Points (…, 3) of space as (right, up, towards us)."""
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
    """The plane, and the sphere above it with its equator and its poles 0 and ∞."""
    plain(axes)
    ends = np.linspace(-_PLANE, _PLANE, 9)
    floor = np.full_like(ends, -1)
    for at in ends:
        fixed = np.full_like(ends, at)
        for x, y in ((ends, fixed), (fixed, ends)):
            right, up, _ = view(np.stack([x, y, floor], axis=-1))
            axes.plot(right, up, color=FAINT, linewidth=0.4, zorder=0)
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


def draw_curve(axes: Axes, positions: Seen, **how: object) -> None:
    """A curve (n, 3) on the sphere: what lies behind is faint."""
    right, up, near = view(positions)
    for where, faintness, order in ((near < 0, 0.25, 2), (near >= 0, 1.0, 3)):
        shown_x, shown_y = np.where(where, right, np.nan), np.where(where, up, np.nan)
        axes.plot(shown_x, shown_y, alpha=faintness, zorder=order, **how)  # type: ignore[arg-type]


def draw_flow(axes: Axes, m: Tensor, color: str = INK[0]) -> None:
    """The flow lines of a map on the sphere, with arrows on those in front."""
    for line in flow_lines(m):
        positions = to_sphere(line).numpy()
        draw_curve(axes, positions, color=color, linewidth=0.8)
        _arrow(axes, positions, color)


def draw_points(axes: Axes, z: Points, **how: object) -> None:
    """Points of the plane on the sphere; those behind are faint."""
    right, up, near = view(to_sphere(torch.as_tensor(z)).numpy())
    for where, faintness in ((near < 0, 0.35), (near >= 0, 1.0)):
        axes.scatter(right[where], up[where], alpha=faintness, zorder=5, **how)  # type: ignore[arg-type]


def flow_lines(m: Tensor) -> list[Tensor]:
    """Lines along which the powers of a map move points: circles, arcs or spirals."""
    form, conjugator = canonical_form(m)
    k = multiplier(m)
    expansion, rotation = float(k.abs().log()), float(k.angle().abs())
    ends = torch.linspace(-_REACH, _REACH, _SAMPLES, dtype=torch.float64)
    if abs(form[0, 1]) > 0:  # parabolic: z ↦ z + 1
        begin, times = 1j * _spaced(2.0, _LINES).sinh(), ends.sinh()
    elif expansion < _STILL:  # elliptic: circles, once round
        begin, times = _spaced(2.4, _LINES - 3).exp() + 0j, (ends / _REACH) * math.pi / rotation
    else:  # arcs from end to end; of spirals, which are longer, half as many
        count = _LINES if rotation < _STILL else _LINES // 2
        begin = torch.exp(2j * math.pi / count * torch.arange(count, dtype=torch.float64))
        times = ends / expansion
    return list(apply(power(m, times), apply(conjugator, begin)[:, None]))


def _spaced(end: float, count: int) -> Tensor:
    return torch.linspace(-end, end, count, dtype=torch.float64)


def _arrow(axes: Axes, positions: Seen, color: str) -> None:
    """An arrowhead in the middle of the longest part in front."""
    right, up, near = view(positions)
    length = np.hypot(np.diff(right), np.diff(up)) * (near[1:] > 0.15)
    if length.sum() < 0.4:
        return
    at = int(np.searchsorted(np.cumsum(length), length.sum() / 2))
    start = max(at - 1, 0)
    axes.annotate(
        "",
        (right[at + 1], up[at + 1]),
        (right[start], up[start]),
        zorder=3,
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": 0.6, "mutation_scale": 7},
    )
