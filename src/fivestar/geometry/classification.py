"""The kinds of Möbius maps, told by σ = tr²/det, which neither scaling nor conjugation changes.

parabolic   σ = 4, not the identity: one fixed point; conjugate to z ↦ z + 1
circular    σ = 0: the half-turn, an involution (the elliptic map with k = −1)
elliptic    σ real in (0, 4): |k| = 1, a rotation
hyperbolic  σ real and > 4: k real and positive, a homothety
loxodromic  all others: a homothety together with a rotation (σ real and < 0 among them: k < 0)
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from fivestar.geometry.moebius import determinant, distance, identity_like, steadiness, trace


class Kind(IntEnum):
    """What a Möbius map does; `DEGENERATE` (determinant 0) is no map: all goes to one point."""

    DEGENERATE = 0
    IDENTITY = 1
    PARABOLIC = 2
    CIRCULAR = 3
    ELLIPTIC = 4
    HYPERBOLIC = 5
    LOXODROMIC = 6


def invariant(m: Tensor) -> Tensor:
    """σ = tr²/det."""
    return trace(m).square() / determinant(m)


def classify(m: Tensor, tolerance: float = 1e-3) -> Tensor:
    """The `Kind` of each map, as whole numbers.

    Almost every matrix is loxodromic in the strict sense, so σ may be as far as `tolerance` from
    where a kind has it; the identity may be as far from the map (in the distance of maps).
    """
    sigma = invariant(m)
    near_real = sigma.imag.abs() <= tolerance
    found = torch.full(sigma.shape, int(Kind.LOXODROMIC), device=m.device)
    for kind, where in (
        (Kind.HYPERBOLIC, near_real & (sigma.real > 4)),
        (Kind.ELLIPTIC, near_real & (sigma.real > 0) & (sigma.real < 4)),
        (Kind.CIRCULAR, sigma.abs() <= tolerance),
        (Kind.PARABOLIC, (sigma - 4).abs() <= tolerance),
        (Kind.IDENTITY, distance(m, identity_like(m)) <= tolerance),
        (Kind.DEGENERATE, steadiness(m) <= torch.finfo(m.real.dtype).eps),
    ):
        found[where] = int(kind)
    return found


def distance_to_boundary(m: Tensor) -> Tensor:
    """How far σ is from that of the nearest map of another kind (of the strict kinds).

    A loxodromic map is as far away as the real half-line σ ≥ 0; an elliptic or hyperbolic one as
    far as σ = 0 or 4, though a step off the real line makes it loxodromic at once; the others, 0.
    """
    sigma = invariant(m)
    from_ends = torch.minimum(sigma.abs(), (sigma - 4).abs())
    from_ends = torch.where(sigma.real > 4, (sigma - 4).abs(), from_ends)
    from_line = torch.where(sigma.real >= 0, sigma.imag.abs(), sigma.abs())
    return torch.where(from_line > 0, from_line, from_ends)
