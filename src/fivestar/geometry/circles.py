"""Generalized circles (lines and circles) and their images under Möbius maps.

A generalized circle is the set of z with p |z|² + 2 Re(conj(q) z) + r = 0 (p and r real), stored as
the Hermitian matrix H = [[p, q], [conj(q), r]]: v* H v = 0 for v = (z, 1). With p = 0 it is a line,
a circle through ∞.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.mobius import (
    INFINITY,
    determinant,
    entries,
    from_homogeneous,
    inverse,
    matrix,
    norm,
    to_homogeneous,
)


def circle(center: Tensor, radius: Tensor) -> Tensor:
    """Return the circle |z − center| = radius as a Hermitian matrix (…, 2, 2)."""
    one = torch.ones_like(center)
    last = (center.abs().square() - radius.square()).to(center.dtype)
    return matrix(one, -center, -center.conj(), last)


def line(point: Tensor, direction: Tensor) -> Tensor:
    """Return the line through a point along a direction as a Hermitian matrix (…, 2, 2)."""
    normal = direction * 1j / direction.abs()
    last = (-2 * (normal.conj() * point).real).to(point.dtype)
    return matrix(torch.zeros_like(normal), normal, normal.conj(), last)


def circle_through(z1: Tensor, z2: Tensor, z3: Tensor) -> Tensor:
    """Return the generalized circle through three distinct points, one of which may be ∞."""
    # The real line under the map that takes 0, 1, ∞ to the three points.
    to_zero_one_infinity = _to_zero_one_infinity(z1, z2, z3)
    zero = torch.zeros_like(to_zero_one_infinity[..., 0, 0])
    real_line = matrix(zero, zero + 1j, zero - 1j, zero)
    return image(inverse(to_zero_one_infinity), real_line)


def image(m: Tensor, circles: Tensor) -> Tensor:
    """Return the images of generalized circles under maps, scaled to norm 1."""
    back = inverse(m)
    images = back.mH @ circles @ back
    return images / norm(images)[..., None, None]


def residual(circles: Tensor, z: Tensor) -> Tensor:
    """Return how far points are from generalized circles: 0 on the circle; scale-invariant."""
    x, y = to_homogeneous(z)
    p, q, _, r = entries(circles / norm(circles)[..., None, None])
    xx, yy = x.abs().square(), y.abs().square()
    value = p.real * xx + 2 * (q.conj() * x * y.conj()).real + r.real * yy
    return value.abs() / (xx + yy)


def curvature(circles: Tensor) -> Tensor:
    """Return 1/radius; 0 for lines."""
    p = circles[..., 0, 0].real.abs()
    return p / (-determinant(circles).real).clamp_min(0).sqrt()


def center(circles: Tensor) -> Tensor:
    """Return the centers; not finite for lines."""
    p, q, _, _ = entries(circles)
    return -q / p


def is_line(circles: Tensor, tolerance: float = 1e-6) -> Tensor:
    """Return a mask of the lines: the generalized circles through ∞."""
    infinity = torch.full(circles.shape[:-2], INFINITY, dtype=circles.dtype)
    return residual(circles, infinity.to(circles.device)) <= tolerance


def cross_ratio(z1: Tensor, z2: Tensor, z3: Tensor, z4: Tensor) -> Tensor:
    """Return (z1 − z3)(z2 − z4)/((z2 − z3)(z1 − z4)); any point may be ∞."""
    first, second, third, fourth = (to_homogeneous(z) for z in (z1, z2, z3, z4))
    numerator = _difference(first, third) * _difference(second, fourth)
    return from_homogeneous(numerator, _difference(second, third) * _difference(first, fourth))


def _difference(z: tuple[Tensor, Tensor], w: tuple[Tensor, Tensor]) -> Tensor:
    """Return the numerator of z − w in homogeneous coordinates."""
    return z[0] * w[1] - z[1] * w[0]


def _to_zero_one_infinity(z1: Tensor, z2: Tensor, z3: Tensor) -> Tensor:
    (a, b), (c, d), (e, f) = (to_homogeneous(z) for z in (z1, z2, z3))
    to_infinity, to_zero = _difference((c, d), (e, f)), _difference((c, d), (a, b))
    return matrix(to_infinity * b, -to_infinity * a, to_zero * f, -to_zero * e)
