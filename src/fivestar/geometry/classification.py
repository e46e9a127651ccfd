"""Classes of Möbius maps, examples of each, and decompositions into elementary maps.

The class follows from the multiplier k, or from its logarithm λ = log k = ℓ + iθ (ℓ ≥ 0 expansion,
−π < θ ≤ π rotation), which is invariant under scaling and conjugation (σ = tr²/det = k + 1/k + 2):

parabolic   λ = 0 (σ = 4), not the identity: one fixed point; conjugate to z ↦ z + 1
circular    λ = ±iπ (σ = 0): the half-turn, an involution (the elliptic map with k = −1)
elliptic    ℓ = 0 (σ real in (0, 4)): a rotation
hyperbolic  θ = 0 (σ real and > 4): a homothety
loxodromic  all others: a homothety with a rotation (including real σ < 0, where θ = π)

All classes but the last have measure 0, so learned maps are classified with a tolerance. σ − 4 = λ²
+ O(λ⁴) is of second order near the identity, where a tolerance on σ calls nearly all maps
parabolic. Instead the map is written as exp(X), X traceless, and judged by what all maps exp(sX) of
its flow share, s > 0 (as long as |sθ| < π):

- the direction of λ, the difference of the eigenvalues of X: elliptic if |ℓ| ≤ tolerance · |λ|,
  hyperbolic if |θ| ≤ tolerance · |λ|;
- the fixed points: parabolic if they are closer than the tolerance on the sphere of diameter 1.
  With N = m − (tr m/2) I, the direction of X, their distance is s, s² = 4|det N|/(‖N‖² + 2|det N|).
  By Schur N is unitarily similar to [μ β; 0 −μ]; [0 β; 0 0] is nilpotent, and N is as far from it,
  relative to its own norm, as √2|μ|/‖N‖ = √(2|det N|)/‖N‖, which is s/√2 to first order. So s
  compares the distance to the nearest parabolic map with the distance to the identity.

The rest is absolute: circular if |λ ∓ iπ| ≤ tolerance, the identity up to rounding. Invariant under
scaling, inversion, and conjugation by rotations of the sphere: every class. Under conjugation by
all maps: every class but parabolic, as any map but the identity is conjugate to maps arbitrarily
close to parabolic ones (or, half-turns, to maps arbitrarily close to constant ones): the criterion
must depend on a metric, and it is that of the sphere. Under powers that rotate by less than π:
every class but circular and the identity.
"""

from __future__ import annotations

import cmath
import math
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.geometry.fixed_points import fixed_point_distance, log_multiplier
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

# Maps closer than this are the same up to rounding: parameters of models have single precision.
_SAME = 1e-6


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
        tolerance: the maximum angle (as a sine) between λ and that of an elliptic or hyperbolic
            map, distance of the fixed points of a parabolic map, and distance of λ from ±iπ of a
            circular map. Without a tolerance almost every matrix is loxodromic.

    Returns:
        The values of `MobiusClass` (…), as integers.

    >>> MobiusClass(int(classify(example_map(MobiusClass.ELLIPTIC)))).name
    'ELLIPTIC'
    """
    distances = _distances(m)
    classes = torch.full(m.shape[:-2], int(MobiusClass.LOXODROMIC), device=m.device)
    for mobius_class, each in distances.items():
        classes[each <= tolerance] = int(mobius_class)
    classes[distance(m, identity_like(m)) <= _SAME] = int(MobiusClass.IDENTITY)
    is_degenerate = relative_determinant(m) <= torch.finfo(m.real.dtype).eps
    classes[is_degenerate] = int(MobiusClass.DEGENERATE)
    return classes


def distance_to_boundary(m: Tensor) -> Tensor:
    """Return the largest tolerance (…) below which maps count as loxodromic.

    It is 0 for maps of every other class.
    """
    return torch.stack(list(_distances(m).values())).amin(dim=0)


def _distances(m: Tensor) -> dict[MobiusClass, Tensor]:
    """Return how far maps are from each class; where several apply, the last one does."""
    exponent = log_multiplier(m)
    # Of a parabolic map and the identity, whose λ has no direction.
    modulus = exponent.abs().clamp_min(torch.finfo(m.real.dtype).tiny)
    half_turn = torch.complex(exponent.real, exponent.imag.abs() - math.pi)
    return {
        MobiusClass.HYPERBOLIC: exponent.imag.abs() / modulus,
        MobiusClass.ELLIPTIC: exponent.real.abs() / modulus,
        MobiusClass.PARABOLIC: fixed_point_distance(m),
        MobiusClass.CIRCULAR: half_turn.abs(),
    }


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
