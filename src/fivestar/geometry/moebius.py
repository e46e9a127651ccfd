"""The Möbius group: maps z ↦ (a z + b)/(c z + d) of the Riemann sphere, exactly.

A map is a complex tensor (…, 2, 2), a point a complex tensor in which every number that is not
finite is ∞. A map is unchanged when its matrix is scaled, and so is every function here that is
said to be of the map. All functions are batched and broadcast.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

INFINITY = complex("inf")


class Entries(NamedTuple):
    """The four numbers of matrices [[a, b], [c, d]]."""

    a: Tensor
    b: Tensor
    c: Tensor
    d: Tensor


def matrix(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """The matrices [[a, b], [c, d]]."""
    a, b, c, d = _alike(a, b, c, d)
    return torch.stack([torch.stack([a, b], dim=-1), torch.stack([c, d], dim=-1)], dim=-2)


def entries(m: Tensor) -> Entries:
    """a, b, c and d."""
    return Entries(m[..., 0, 0], m[..., 0, 1], m[..., 1, 0], m[..., 1, 1])


def identity_like(m: Tensor) -> Tensor:
    """The map z ↦ z, for each of these."""
    return torch.eye(2, dtype=m.dtype, device=m.device).expand_as(m)


def is_infinite(z: Tensor) -> Tensor:
    """Whether points are ∞."""
    return ~(torch.isfinite(z.real) & torch.isfinite(z.imag))


def determinant(m: Tensor) -> Tensor:
    """The number ad − bc."""
    a, b, c, d = entries(m)
    return a * d - b * c


def trace(m: Tensor) -> Tensor:
    """The number a + d."""
    return m[..., 0, 0] + m[..., 1, 1]


def apply(m: Tensor, z: Tensor) -> Tensor:
    """The images of points; the pole goes to ∞, and ∞ to a/c."""
    a, b, c, d = entries(m)
    x, y = homogeneous(z)
    return point(a * x + b * y, c * x + d * y)


def homogeneous(z: Tensor) -> tuple[Tensor, Tensor]:
    """(x, y) with z = x/y, neither of them large: what makes ∞ a point as any other."""
    infinite = is_infinite(z)
    finite = torch.where(infinite, 0, z)
    far = finite.abs() > 1
    x = torch.where(far | infinite, 1, finite)
    y = torch.where(far, 1 / torch.where(far, finite, 1), 1)
    return x, torch.where(infinite, 0, y)


def point(x: Tensor, y: Tensor) -> Tensor:
    """The point x/y; ∞ where y is 0."""
    x, y = _alike(x, y)
    at_infinity = (y == 0) & (x != 0)
    quotient = x / torch.where(at_infinity, 1, y)
    infinity = torch.full_like(quotient, INFINITY)
    return torch.where(at_infinity | (is_infinite(quotient) & ~x.isnan()), infinity, quotient)


def compose(second: Tensor, first: Tensor) -> Tensor:
    """The map that does `first` and then `second`."""
    return second @ first


def inverse(m: Tensor) -> Tensor:
    """The map that undoes it; nothing is divided, so it may be scaled."""
    a, b, c, d = entries(m)
    return matrix(d, -b, -c, a)


def normalised(m: Tensor) -> Tensor:
    """The same map with determinant 1, and of ±m the one whose trace has a real part ≥ 0."""
    scaled = m / norm(m)[..., None, None]
    scaled = scaled / determinant(scaled).sqrt()[..., None, None]
    turn = torch.where(trace(scaled).real < 0, -1, 1)
    return scaled * turn[..., None, None]


def norm(m: Tensor) -> Tensor:
    """√(|a|² + |b|² + |c|² + |d|²)."""
    found: Tensor = torch.linalg.vector_norm(m, dim=(-2, -1))
    return found


def steadiness(m: Tensor) -> Tensor:
    """2|det|/‖m‖², of the map: 1 for rotations of the sphere, 0 for what maps all to one point."""
    return 2 * determinant(m).abs() / norm(m).square()


def distance(m: Tensor, n: Tensor) -> Tensor:
    """How far two maps are apart, in [0, √2]: between the nearest of their unit matrices."""
    m, n = (x / norm(x)[..., None, None] for x in _alike(m, n))
    common = (m.conj() * n).sum(dim=(-2, -1))
    size = common.abs()
    turn = torch.where(size > 0, common / torch.where(size > 0, size, 1), 1)
    return norm(n - turn[..., None, None] * m)


def translation(b: Tensor) -> Tensor:
    """The map z ↦ z + b."""
    return matrix(torch.ones_like(b), b, torch.zeros_like(b), torch.ones_like(b))


def scaling(factor: Tensor) -> Tensor:
    """The map z ↦ k z: a rotation by arg k and a homothety by |k|."""
    zero = torch.zeros_like(factor)
    return matrix(factor, zero, zero, torch.ones_like(factor))


def inversion(like: Tensor) -> Tensor:
    """The map z ↦ 1/z: inversion in the unit circle together with reflection in the real axis."""
    zero, one = torch.zeros_like(like), torch.ones_like(like)
    return matrix(zero, one, one, zero)


def half_turn(p: Tensor, q: Tensor) -> Tensor:
    """The turn by 180° about the axis through two points: the only involution that fixes both."""
    (p0, p1), (q0, q1) = homogeneous(p), homogeneous(q)
    a = p0 * q1 + p1 * q0
    return matrix(a, -2 * p0 * q0, 2 * p1 * q1, -a)


def reflected(z: Tensor) -> Tensor:
    """The mirror image in the real axis, conj(z): no Möbius map, for it turns angles round."""
    infinite = is_infinite(z)
    return torch.where(infinite, torch.full_like(z, INFINITY), torch.where(infinite, 0, z).conj())


def _alike(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]
