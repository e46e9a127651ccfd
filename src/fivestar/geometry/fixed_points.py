"""What a Möbius map leaves where it is, what it does there, and its canonical form."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.geometry.moebius import (
    determinant,
    entries,
    identity_like,
    matrix,
    norm,
    normalised,
    point,
    trace,
)

# Eigenvalues whose lengths differ by less than this part are as large as each other.
_TIE = 1e-12


class FixedPoints(NamedTuple):
    """The two fixed points (the same twice for a parabolic map)."""

    attracting: Tensor
    repelling: Tensor


class Canonical(NamedTuple):
    """m ∝ conjugator · form · conjugator⁻¹."""

    form: Tensor
    conjugator: Tensor


def discriminant(m: Tensor) -> Tensor:
    """Δ = tr² − 4 det, as (a − d)² + 4bc, which loses no digits where it is near 0."""
    a, b, c, d = entries(m)
    return (a - d).square() + 4 * b * c


def eigenvalues(m: Tensor) -> tuple[Tensor, Tensor]:
    """(tr ± √Δ)/2, the larger one first; of two as large, the one that is further round."""
    half, root = trace(m) / 2, discriminant(m).sqrt() / 2
    # Added where they point the same way, so that nothing cancels; the other follows from both.
    angle = half.conj() * root
    is_tie = angle.real.abs() <= _TIE * angle.abs()
    same_way = torch.where(is_tie, angle.imag >= 0, angle.real >= 0)
    large = torch.where(same_way, half + root, half - root)
    small = determinant(m) / torch.where(large == 0, 1, large)
    # Where the two are alike in size, the determinant knows the smaller one no better.
    alike = torch.where(same_way, half - root, half + root)
    return large, torch.where(alike.abs() > large.abs() / 2, alike, small)


def fixed_points(m: Tensor) -> FixedPoints:
    """Where z = m(z). The identity fixes everything: ∞ and 0 are given for it."""
    attracting, repelling = _eigenvectors(m / norm(m)[..., None, None])
    return FixedPoints(point(*attracting), point(*repelling))


def _eigenvectors(m: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(x, y) of the larger eigenvalue and of the smaller one; (1, 0) and (0, 1) of the identity."""
    large, small = eigenvalues(m)
    (x, y), (u, v) = _column(m, small), _column(m, large)
    return (torch.where((x == 0) & (y == 0), 1, x), y), (u, torch.where((u == 0) & (v == 0), 1, v))


def _column(m: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """An eigenvector: a column of m − (the other eigenvalue), the longer one."""
    a, b, c, d = entries(m)
    first, second = (a - other, c), (b, d - other)
    longer = first[0].abs() + first[1].abs() >= second[0].abs() + second[1].abs()
    return torch.where(longer, first[0], second[0]), torch.where(longer, first[1], second[1])


def multiplier(m: Tensor) -> Tensor:
    """The k of the conjugate map z ↦ k z, |k| ≥ 1: log|k| is the expansion, arg k the rotation.

    It is the derivative at the repelling fixed point; 1 for parabolic maps and the identity. Of an
    elliptic map, which has |k| = 1 and attracts nothing, it is the one with an angle in [0, π].
    """
    large, small = eigenvalues(m / norm(m)[..., None, None])
    return large / small


def power(m: Tensor, exponent: Tensor | float) -> Tensor:
    """m^s, the flow of the map at time s: m⁰ is the identity, m¹ the map, m^s m^t = m^{s+t}.

    With eigenvalues e^{±θ} of the matrix of determinant 1: (sinh sθ · m − sinh (s − 1)θ)/sinh θ;
    where θ is 0 (parabolic) the limit s m − (s − 1) is taken, without a seam.
    """
    m = normalised(m)
    large, _ = eigenvalues(m)
    theta = large.log()
    s = torch.as_tensor(exponent, dtype=m.real.dtype, device=m.device)
    weight, rest = _sinh_ratio(s, theta), _sinh_ratio(s - 1, theta)
    return weight[..., None, None] * m - rest[..., None, None] * identity_like(m)


def generator(m: Tensor) -> Tensor:
    """What the flow does at each moment: the derivative of m^s at s = 0.

    A point z moves at the speed A z + B − z (C z + D), with A, B, C and D the entries of this.
    """
    m = normalised(m)
    large, _ = eigenvalues(m)
    theta = large.log()
    near = theta.abs() < 1e-4
    safe = torch.where(near, 1, theta)
    # θ/sinh θ (m − cosh θ).
    weight = torch.where(near, 1 - theta.square() / 6, safe / safe.sinh())
    return weight[..., None, None] * (m - theta.cosh()[..., None, None] * identity_like(m))


def velocity(m: Tensor, z: Tensor) -> Tensor:
    """How fast, and where to, the flow of a map moves points of the plane."""
    a, b, c, d = entries(generator(m))
    return a * z + b - z * (c * z + d)


def _sinh_ratio(s: Tensor, theta: Tensor) -> Tensor:
    """sinh(s θ)/sinh θ, and s (1 + (s² − 1) θ²/6) where θ is near 0."""
    near = theta.abs() < 1e-4
    safe = torch.where(near, 1, theta)
    series = s * (1 + (s.square() - 1) * theta.square() / 6)
    return torch.where(near, series, (s * safe).sinh() / safe.sinh())


def canonical(m: Tensor, tolerance: float = 1e-6) -> Canonical:
    """The map as z ↦ k z, or z ↦ z + 1 where it is parabolic, and what takes it there.

    The conjugator sends ∞ to the attracting fixed point, and 0 to the repelling one.
    """
    m = m / norm(m)[..., None, None]
    large, small = eigenvalues(m)
    attracting, repelling = _eigenvectors(m)
    form = torch.diag_embed(torch.stack([large / small, torch.ones_like(small)], dim=-1))
    conjugator = matrix(attracting[0], repelling[0], attracting[1], repelling[1])
    mean = (large + small) / 2
    apart = m - mean[..., None, None] * identity_like(m)
    is_parabolic = (discriminant(m).abs().sqrt() <= tolerance) & (norm(apart) > tolerance)
    # (m − λ) w = λ v with m v = λ v: in the basis (v, w) the matrix is λ [[1, 1], [0, 1]].
    longer = apart[..., :, 0].abs().sum(-1) >= apart[..., :, 1].abs().sum(-1)
    w = torch.where(longer[..., None], m.new_tensor([1, 0]), m.new_tensor([0, 1]))
    v = torch.where(longer[..., None], apart[..., :, 0], apart[..., :, 1]) / mean[..., None]
    shift = matrix(*(m.new_tensor(entry).expand(m.shape[:-2]) for entry in (1, 1, 0, 1)))
    chosen = is_parabolic[..., None, None]
    is_identity = (norm(apart) <= tolerance)[..., None, None]
    conjugator = torch.where(chosen, torch.stack([v, w], dim=-1), conjugator)
    one = identity_like(m)
    return Canonical(
        torch.where(is_identity, one, torch.where(chosen, shift, form)),
        torch.where(is_identity, one, conjugator),
    )
