"""Lines and circles as one thing, and what Möbius maps keep of them.

A generalised circle is the set of z with p |z|² + 2 Re(conj(q) z) + r = 0 (p and r real), kept as
the hermitian matrix H = [[p, q], [conj(q), r]]: v* H v = 0 for v = (z, 1). p = 0 is a line, a
circle through ∞.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.moebius import (
    INFINITY,
    determinant,
    entries,
    homogeneous,
    inverse,
    matrix,
    norm,
    point,
)


def circle(centre: Tensor, radius: Tensor) -> Tensor:
    """The circle |z − centre| = radius."""
    one = torch.ones_like(centre)
    last = (centre.abs().square() - radius.square()).to(centre.dtype)
    return matrix(one, -centre, -centre.conj(), last)


def line(through: Tensor, direction: Tensor) -> Tensor:
    """The line through a point along a direction."""
    normal = direction * 1j / direction.abs()
    last = (-2 * (normal.conj() * through).real).to(through.dtype)
    return matrix(torch.zeros_like(normal), normal, normal.conj(), last)


def through(z1: Tensor, z2: Tensor, z3: Tensor) -> Tensor:
    """The generalised circle through three different points; ∞ may be one of them."""
    # The real line under the map that takes 0, 1, ∞ to the three points.
    to_zero_one_infinity = _to_zero_one_infinity(z1, z2, z3)
    zero = torch.zeros_like(to_zero_one_infinity[..., 0, 0])
    real_line = matrix(zero, zero + 1j, zero - 1j, zero)
    return image(inverse(to_zero_one_infinity), real_line)


def image(m: Tensor, circles: Tensor) -> Tensor:
    """What a map makes of generalised circles, scaled to length 1."""
    back = inverse(m)
    found = back.mH @ circles @ back
    return found / norm(found)[..., None, None]


def residual(circles: Tensor, z: Tensor) -> Tensor:
    """How far points are from lying on generalised circles: 0 for those on it; scaling is out."""
    x, y = homogeneous(z)
    p, q, _, r = entries(circles / norm(circles)[..., None, None])
    size, other = x.abs().square(), y.abs().square()
    value = p.real * size + 2 * (q.conj() * x * y.conj()).real + r.real * other
    return value.abs() / (size + other)


def curvature(circles: Tensor) -> Tensor:
    """1/radius; 0 for lines."""
    p = circles[..., 0, 0].real.abs()
    return p / (-determinant(circles).real).clamp_min(0).sqrt()


def centre(circles: Tensor) -> Tensor:
    """The centres; not finite for lines."""
    p, q, _, _ = entries(circles)
    return -q / p


def cross_ratio(z1: Tensor, z2: Tensor, z3: Tensor, z4: Tensor) -> Tensor:
    """(z1 − z3)(z2 − z4)/((z2 − z3)(z1 − z4)), ∞ being a point as any other."""
    first, second, third, fourth = (homogeneous(z) for z in (z1, z2, z3, z4))
    over = _difference(first, third) * _difference(second, fourth)
    return point(over, _difference(second, third) * _difference(first, fourth))


def _difference(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    return one[0] * other[1] - one[1] * other[0]


def _to_zero_one_infinity(z1: Tensor, z2: Tensor, z3: Tensor) -> Tensor:
    (a, b), (c, d), (e, f) = (homogeneous(z) for z in (z1, z2, z3))
    to_infinity, to_zero = _difference((c, d), (e, f)), _difference((c, d), (a, b))
    return matrix(to_infinity * b, -to_infinity * a, to_zero * f, -to_zero * e)


def touches_infinity(circles: Tensor, tolerance: float = 1e-6) -> Tensor:
    """Whether they are lines: whether ∞ lies on them."""
    infinity = torch.full(circles.shape[:-2], INFINITY, dtype=circles.dtype)
    return residual(circles, infinity.to(circles.device)) <= tolerance
