"""The Möbius group: maps z ↦ (a z + b)/(c z + d) of the Riemann sphere.

A map is a complex tensor (…, 2, 2); a point is a complex tensor in which every number that is not
finite is ∞. Scaling a matrix does not change its map, nor any function of the map below.
All functions are batched and broadcast.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

INFINITY = complex("inf")


class Entries(NamedTuple):
    """The entries of matrices [[a, b], [c, d]]."""

    a: Tensor
    b: Tensor
    c: Tensor
    d: Tensor


def matrix(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Return the matrices [[a, b], [c, d]] (…, 2, 2)."""
    a, b, c, d = _broadcast(a, b, c, d)
    return torch.stack([torch.stack([a, b], dim=-1), torch.stack([c, d], dim=-1)], dim=-2)


def entries(m: Tensor) -> Entries:
    """Return a, b, c and d (…) of matrices (…, 2, 2)."""
    return Entries(m[..., 0, 0], m[..., 0, 1], m[..., 1, 0], m[..., 1, 1])


def identity_like(m: Tensor) -> Tensor:
    """Return the identity z ↦ z with the shape of `m`."""
    return torch.eye(2, dtype=m.dtype, device=m.device).expand_as(m)


def is_infinite(z: Tensor) -> Tensor:
    """Return a mask of the points at ∞."""
    return ~(torch.isfinite(z.real) & torch.isfinite(z.imag))


def determinant(m: Tensor) -> Tensor:
    """Return ad − bc."""
    a, b, c, d = entries(m)
    return a * d - b * c


def trace(m: Tensor) -> Tensor:
    """Return a + d."""
    return m[..., 0, 0] + m[..., 1, 1]


def apply(m: Tensor, z: Tensor) -> Tensor:
    """Return the images of points.

    Args:
        m: maps (…, 2, 2).
        z: points (…), broadcast against the maps.

    Returns:
        The images (…). The pole −d/c is mapped to ∞, and ∞ to a/c.

    >>> apply(translation(torch.tensor(2 + 0j)), torch.tensor([1j, 0])).tolist()
    [(2+1j), (2+0j)]
    """
    a, b, c, d = entries(m)
    x, y = to_homogeneous(z)
    return from_homogeneous(a * x + b * y, c * x + d * y)


def to_homogeneous(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return (x, y) with z = x/y and |x|, |y| ≤ 1; ∞ is (1, 0)."""
    infinite = is_infinite(z)
    finite = torch.where(infinite, 0, z)
    is_large = finite.abs() > 1
    x = torch.where(is_large | infinite, 1, finite)
    y = torch.where(is_large, 1 / torch.where(is_large, finite, 1), 1)
    return x, torch.where(infinite, 0, y)


def from_homogeneous(x: Tensor, y: Tensor) -> Tensor:
    """Return the points x/y; ∞ where y is 0."""
    x, y = _broadcast(x, y)
    at_infinity = (y == 0) & (x != 0)
    quotient = x / torch.where(at_infinity, 1, y)
    infinity = torch.full_like(quotient, INFINITY)
    return torch.where(at_infinity | (is_infinite(quotient) & ~x.isnan()), infinity, quotient)


def compose(second: Tensor, first: Tensor) -> Tensor:
    """Return the map that applies `first` and then `second`."""
    return second @ first


def inverse(m: Tensor) -> Tensor:
    """Return the inverse map, as the adjugate matrix (without a division)."""
    a, b, c, d = entries(m)
    return matrix(d, -b, -c, a)


def normalize(m: Tensor) -> Tensor:
    """Return the same map with determinant 1 and a trace whose real part is not negative."""
    scaled = m / norm(m)[..., None, None]
    scaled = scaled / determinant(scaled).sqrt()[..., None, None]
    sign = torch.where(trace(scaled).real < 0, -1, 1)
    return scaled * sign[..., None, None]


def norm(m: Tensor) -> Tensor:
    """Return the Frobenius norm √(|a|² + |b|² + |c|² + |d|²)."""
    norms: Tensor = torch.linalg.vector_norm(m, dim=(-2, -1))
    return norms


def relative_determinant(m: Tensor) -> Tensor:
    """Return 2|det|/‖m‖²: 1 for rotations of the sphere, 0 for constant (degenerate) maps."""
    return 2 * determinant(m).abs() / norm(m).square()


def distance(m: Tensor, n: Tensor) -> Tensor:
    """Return the distance of maps in PGL(2, ℂ).

    Args:
        m: maps (…, 2, 2).
        n: maps (…, 2, 2), broadcast against `m`.

    Returns:
        The distances (…) in [0, √2]: between unit matrices of both maps, minimized over the phase.
    """
    m, n = (x / norm(x)[..., None, None] for x in _broadcast(m, n))
    inner = (m.conj() * n).sum(dim=(-2, -1))
    modulus = inner.abs()
    phase = torch.where(modulus > 0, inner / torch.where(modulus > 0, modulus, 1), 1)
    return norm(n - phase[..., None, None] * m)


def translation(b: Tensor) -> Tensor:
    """Return the map z ↦ z + b."""
    return matrix(torch.ones_like(b), b, torch.zeros_like(b), torch.ones_like(b))


def scaling(factor: Tensor) -> Tensor:
    """Return the map z ↦ k z: a rotation by arg k and a homothety by |k|."""
    zero = torch.zeros_like(factor)
    return matrix(factor, zero, zero, torch.ones_like(factor))


def inversion(like: Tensor) -> Tensor:
    """Return the map z ↦ 1/z, for each element of `like`: inversion with reflection."""
    zero, one = torch.zeros_like(like), torch.ones_like(like)
    return matrix(zero, one, one, zero)


def half_turn(p: Tensor, q: Tensor) -> Tensor:
    """Return the rotation by 180° that fixes p and q: the only involution that fixes both."""
    (p0, p1), (q0, q1) = to_homogeneous(p), to_homogeneous(q)
    a = p0 * q1 + p1 * q0
    return matrix(a, -2 * p0 * q0, 2 * p1 * q1, -a)


def reflect(z: Tensor) -> Tensor:
    """Return conj(z), the reflection in the real axis. It is anti-Möbius: it reverses angles."""
    infinite = is_infinite(z)
    return torch.where(infinite, torch.full_like(z, INFINITY), torch.where(infinite, 0, z).conj())


def to_sphere(z: Tensor) -> Tensor:
    """Project points (…) of the plane to the unit sphere (…, 3).

    The stereographic projection from the north pole: ∞ is the north pole, 0 the south pole, and
    the unit circle the equator.
    """
    x, y = to_homogeneous(z)
    horizontal = 2 * x * y.conj()
    xx, yy = x.abs().square(), y.abs().square()
    total = xx + yy
    coordinates = [horizontal.real / total, horizontal.imag / total, (xx - yy) / total]
    return torch.stack(coordinates, dim=-1)


def from_sphere(position: Tensor) -> Tensor:
    """Project points (…, 3) of the unit sphere to the plane (…): the inverse of `to_sphere`."""
    x, y, height = position.unbind(dim=-1)
    horizontal = torch.complex(x, y)
    is_north = height > 0
    # (x + iy)/(1 − h) = (1 + h)/(x − iy): use the form without cancellation.
    zero = torch.zeros_like(height)
    numerator = torch.where(is_north, torch.complex(1 + height, zero), horizontal)
    denominator = torch.where(is_north, horizontal.conj(), torch.complex(1 - height, zero))
    return from_homogeneous(numerator, denominator)


def chordal_distance(z: Tensor, w: Tensor) -> Tensor:
    """Return the Euclidean distance (at most 2) of points on the unit sphere."""
    (x, y), (u, v) = to_homogeneous(z), to_homogeneous(w)
    norms = (x.abs().square() + y.abs().square()) * (u.abs().square() + v.abs().square())
    return 2 * (x * v - y * u).abs() / norms.sqrt()


def _broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]
