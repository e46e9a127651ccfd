"""Fixed points, multipliers, flows and canonical forms of Möbius maps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.geometry.mobius import (
    determinant,
    entries,
    from_homogeneous,
    identity_like,
    matrix,
    norm,
    normalize,
    trace,
)

# Eigenvalues whose moduli differ by less than this relative amount count as equal in modulus.
_TIE = 1e-12


class FixedPoints(NamedTuple):
    """The two fixed points (the same twice for a parabolic map)."""

    attracting: Tensor
    repelling: Tensor


class CanonicalForm(NamedTuple):
    """m ∝ conjugator · form · conjugator⁻¹."""

    form: Tensor
    conjugator: Tensor


def discriminant(m: Tensor) -> Tensor:
    """Return Δ = tr² − 4 det as (a − d)² + 4bc, which is accurate near 0."""
    a, b, c, d = entries(m)
    return (a - d).square() + 4 * b * c


def eigenvalues(m: Tensor) -> tuple[Tensor, Tensor]:
    """Return (tr ± √Δ)/2, the larger modulus first; if equal, the larger angle first."""
    half, root = trace(m) / 2, discriminant(m).sqrt() / 2
    # Add where both have the same direction, so that nothing cancels; det/large is the other one.
    angle = half.conj() * root
    is_tie = angle.real.abs() <= _TIE * angle.abs()
    same_direction = torch.where(is_tie, angle.imag >= 0, angle.real >= 0)
    large = torch.where(same_direction, half + root, half - root)
    small = determinant(m) / torch.where(large == 0, 1, large)
    # If both have about the same modulus, the difference is just as accurate.
    difference = torch.where(same_direction, half - root, half + root)
    return large, torch.where(difference.abs() > large.abs() / 2, difference, small)


def fixed_points(m: Tensor) -> FixedPoints:
    """Return the solutions of z = m(z); for the identity, which fixes all points, ∞ and 0."""
    attracting, repelling = _eigenvectors(m / norm(m)[..., None, None])
    return FixedPoints(from_homogeneous(*attracting), from_homogeneous(*repelling))


def _eigenvectors(m: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return (x, y) of the larger and the smaller eigenvalue; (1, 0) and (0, 1) if identity."""
    large, small = eigenvalues(m)
    (x, y), (u, v) = _column(m, small), _column(m, large)
    return (torch.where((x == 0) & (y == 0), 1, x), y), (u, torch.where((u == 0) & (v == 0), 1, v))


def _column(m: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return an eigenvector: the longer column of m − (the other eigenvalue)."""
    a, b, c, d = entries(m)
    first, second = (a - other, c), (b, d - other)
    longer = first[0].abs() + first[1].abs() >= second[0].abs() + second[1].abs()
    return torch.where(longer, first[0], second[0]), torch.where(longer, first[1], second[1])


def multiplier(m: Tensor) -> Tensor:
    """Return k of the conjugate map z ↦ k z, |k| ≥ 1: log|k| is the expansion, arg k the rotation.

    It is the derivative at the repelling fixed point, and 1 for parabolic maps and the identity.
    Elliptic maps have |k| = 1 and attract nothing: for these arg k is in [0, π].
    """
    large, small = eigenvalues(m / norm(m)[..., None, None])
    return large / small


def log_multiplier(m: Tensor) -> Tensor:
    """Return λ = log k, Re λ ≥ 0 and |Im λ| ≤ π, accurate near the identity.

    The sign of Im λ is that of arg k, and arbitrary for elliptic maps. It is 0 for parabolic maps
    and the identity.
    """
    # tr²/det = k + 1/k + 2, so Δ/det = k + 1/k − 2 = 4 sinh²(λ/2).
    return 2 * torch.asinh((discriminant(m) / determinant(m)).sqrt() / 2)


def fixed_point_distance(m: Tensor) -> Tensor:
    """Return the distance of the fixed points on the sphere of diameter 1, from 0 to 1.

    It is the same for all powers of a map, and 0 for the identity.
    """
    a, b, c, d = entries(m)
    # ‖N‖² and 2|det N| of the traceless part N = m − (tr m/2) I.
    squared_norm = (a - d).abs().square() / 2 + b.abs().square() + c.abs().square()
    twice_det = discriminant(m).abs() / 2
    total = squared_norm + twice_det
    return (2 * twice_det / torch.where(total > 0, total, 1)).sqrt()


def power(m: Tensor, exponent: Tensor | float) -> Tensor:
    """Return m^s, the flow of the map at time s: m⁰ is the identity, m^s m^t = m^{s+t}.

    With eigenvalues e^{±θ} of the matrix of determinant 1: (sinh sθ · m − sinh (s − 1)θ)/sinh θ;
    near θ = 0 (parabolic) a series is used, with the limit s m − (s − 1).
    """
    m = normalize(m)
    large, _ = eigenvalues(m)
    theta = large.log()
    s = torch.as_tensor(exponent, dtype=m.real.dtype, device=m.device)
    weight, rest = _sinh_ratio(s, theta), _sinh_ratio(s - 1, theta)
    return weight[..., None, None] * m - rest[..., None, None] * identity_like(m)


def generator(m: Tensor) -> Tensor:
    """Return the generator of the flow: the derivative of m^s at s = 0.

    With entries A, B, C and D, a point z moves with the velocity A z + B − z (C z + D).
    """
    m = normalize(m)
    large, _ = eigenvalues(m)
    theta = large.log()
    near = theta.abs() < 1e-4
    safe = torch.where(near, 1, theta)
    # θ/sinh θ (m − cosh θ).
    weight = torch.where(near, 1 - theta.square() / 6, safe / safe.sinh())
    return weight[..., None, None] * (m - theta.cosh()[..., None, None] * identity_like(m))


def velocity(m: Tensor, z: Tensor) -> Tensor:
    """Return the velocities with which the flow of a map moves points of the plane."""
    a, b, c, d = entries(generator(m))
    return a * z + b - z * (c * z + d)


def _sinh_ratio(s: Tensor, theta: Tensor) -> Tensor:
    """Return sinh(s θ)/sinh θ; near θ = 0 its series s (1 + (s² − 1) θ²/6)."""
    near = theta.abs() < 1e-4
    safe = torch.where(near, 1, theta)
    series = s * (1 + (s.square() - 1) * theta.square() / 6)
    return torch.where(near, series, (s * safe).sinh() / safe.sinh())


def canonical_form(m: Tensor, tolerance: float = 1e-6) -> CanonicalForm:
    """Return the map as z ↦ k z (z ↦ z + 1 if parabolic) and the conjugating matrix.

    Args:
        m: maps (…, 2, 2).
        tolerance: the maximum distance from a parabolic map or the identity to count as one.

    Returns:
        The form and the conjugator (…, 2, 2), which maps ∞ to the attracting fixed point and 0 to
        the repelling one.
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
    return CanonicalForm(
        torch.where(is_identity, one, torch.where(chosen, shift, form)),
        torch.where(is_identity, one, conjugator),
    )
