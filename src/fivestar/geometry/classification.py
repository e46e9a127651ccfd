"""Classes of Möbius maps, examples of each, and decompositions into elementary maps.

The class follows from σ = tr²/det, which is invariant under scaling and conjugation:

parabolic   σ = 4, not the identity: one fixed point; conjugate to z ↦ z + 1
circular    σ = 0: the half-turn, an involution (the elliptic map with k = −1)
elliptic    σ real in (0, 4): |k| = 1, a rotation
hyperbolic  σ real and > 4: k real and positive, a homothety
loxodromic  all others: a homothety with a rotation (including real σ < 0, where k < 0)
"""

from __future__ import annotations

import cmath
import math
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.geometry.mobius import (
    apply,
    compose,
    determinant,
    distance,
    entries,
    identity_like,
    inverse,
    inversion,
    matrix,
    relative_determinant,
    scaling,
    trace,
    translation,
)


class MobiusClass(IntEnum):
    """The class of a Möbius map; `DEGENERATE` (determinant 0) maps everything to one point."""

    DEGENERATE = 0
    IDENTITY = 1
    PARABOLIC = 2
    CIRCULAR = 3
    ELLIPTIC = 4
    HYPERBOLIC = 5
    LOXODROMIC = 6


def invariant(m: Tensor) -> Tensor:
    """Return σ = tr²/det."""
    return trace(m).square() / determinant(m)


def classify(m: Tensor, tolerance: float = 1e-3) -> Tensor:
    """Classify maps.

    Args:
        m: maps (…, 2, 2).
        tolerance: the maximum distance of σ from the values of a class, and of a map from the
            identity. Without a tolerance almost every matrix is loxodromic.

    Returns:
        The values of `MobiusClass` (…), as integers.

    >>> MobiusClass(int(classify(example_map(MobiusClass.ELLIPTIC)))).name
    'ELLIPTIC'
    """
    sigma = invariant(m)
    near_real = sigma.imag.abs() <= tolerance
    classes = torch.full(sigma.shape, int(MobiusClass.LOXODROMIC), device=m.device)
    for mobius_class, mask in (
        (MobiusClass.HYPERBOLIC, near_real & (sigma.real > 4)),
        (MobiusClass.ELLIPTIC, near_real & (sigma.real > 0) & (sigma.real < 4)),
        (MobiusClass.CIRCULAR, sigma.abs() <= tolerance),
        (MobiusClass.PARABOLIC, (sigma - 4).abs() <= tolerance),
        (MobiusClass.IDENTITY, distance(m, identity_like(m)) <= tolerance),
        (MobiusClass.DEGENERATE, relative_determinant(m) <= torch.finfo(m.real.dtype).eps),
    ):
        classes[mask] = int(mobius_class)
    return classes


def distance_to_boundary(m: Tensor) -> Tensor:
    """Return the distance of σ to that of the nearest map of another class, without a tolerance.

    For a loxodromic map it is the distance to the real half-line σ ≥ 0. For an elliptic or
    hyperbolic map it is the distance to σ = 0 or 4, although any step off the real line makes it
    loxodromic. For all others it is 0.
    """
    sigma = invariant(m)
    from_ends = torch.minimum(sigma.abs(), (sigma - 4).abs())
    from_ends = torch.where(sigma.real > 4, (sigma - 4).abs(), from_ends)
    from_line = torch.where(sigma.real >= 0, sigma.imag.abs(), sigma.abs())
    return torch.where(from_line > 0, from_line, from_ends)


# The multiplier of the example of each class; 1 is that of every parabolic map.
EXAMPLE_MULTIPLIERS = {
    MobiusClass.CIRCULAR: complex(-1),
    MobiusClass.ELLIPTIC: cmath.exp(1j * math.pi / 3),
    MobiusClass.HYPERBOLIC: complex(math.e),
    MobiusClass.LOXODROMIC: cmath.exp(0.6 + 1.2j),
    MobiusClass.PARABOLIC: complex(1),
}


def example_map(mobius_class: MobiusClass) -> Tensor:
    """Return a map (2, 2) of a class, in double precision.

    The repelling fixed point is −1 and the attracting one 1; the parabolic example fixes 0.
    """
    one, zero = torch.tensor([1, 0], dtype=torch.complex128)
    if mobius_class is MobiusClass.PARABOLIC:
        return matrix(one, zero, one, one)
    # Maps 0 to −1 and ∞ to 1.
    conjugator = matrix(one, -one, one, one)
    form = scaling(one * EXAMPLE_MULTIPLIERS[mobius_class])
    return compose(conjugator, compose(form, inverse(conjugator)))


class Decomposition(NamedTuple):
    """z ↦ factor · j(z + before) + after, where j is z ↦ 1/z if `inverts`, else the identity.

    With c ≠ 0: translate by d/c, invert and reflect (z ↦ 1/z), scale and rotate by (bc − ad)/c²,
    translate by a/c. With c = 0: scale and rotate by a/d, translate by b/d.
    """

    before: Tensor
    inverts: Tensor
    factor: Tensor
    after: Tensor

    @property
    def homothety(self) -> Tensor:
        """The scale |factor|."""
        return self.factor.abs()

    @property
    def rotation(self) -> Tensor:
        """The angle arg factor."""
        return self.factor.angle()

    def steps(self) -> list[Tensor]:
        """Return the four elementary maps in the order in which they are applied."""
        inverted = inversion(self.before)
        inverted = torch.where(self.inverts[..., None, None], inverted, identity_like(inverted))
        return [translation(self.before), inverted, scaling(self.factor), translation(self.after)]

    def recompose(self) -> Tensor:
        """Return the composition of the steps."""
        first, second, third, fourth = self.steps()
        return compose(fourth, compose(third, compose(second, first)))

    def __call__(self, z: Tensor) -> Tensor:
        """Apply the steps to points one after the other."""
        for step in self.steps():
            z = apply(step, z)
        return z


def decompose(m: Tensor) -> Decomposition:
    """Decompose maps (…, 2, 2) into elementary maps; c counts as 0 only if it is exactly 0."""
    a, b, c, d = entries(m)
    inverts = c != 0
    denominator = torch.where(inverts, c, d)
    return Decomposition(
        before=torch.where(inverts, d / denominator, 0),
        inverts=inverts,
        factor=torch.where(inverts, -determinant(m) / denominator.square(), a / denominator),
        after=torch.where(inverts, a, b) / denominator,
    )
