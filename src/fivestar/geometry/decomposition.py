"""A Möbius map as a sequence of elementary ones.

With c ≠ 0: translate by d/c, invert and reflect (z ↦ 1/z), scale and rotate by (bc − ad)/c²,
translate by a/c. With c = 0: scale and rotate by a/d, translate by b/d.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.geometry.moebius import (
    apply,
    compose,
    determinant,
    entries,
    identity_like,
    inversion,
    scaling,
    translation,
)


class Decomposition(NamedTuple):
    """z ↦ factor · j(z + before) + after, where j is z ↦ 1/z if `inverts`, else nothing."""

    before: Tensor
    inverts: Tensor
    factor: Tensor
    after: Tensor

    @property
    def homothety(self) -> Tensor:
        """By how much it stretches: |factor|."""
        return self.factor.abs()

    @property
    def rotation(self) -> Tensor:
        """By which angle it turns: arg factor."""
        return self.factor.angle()

    def steps(self) -> list[Tensor]:
        """The matrices, the first one to be applied first."""
        first = translation(self.before)
        turned = inversion(self.before)
        turned = torch.where(self.inverts[..., None, None], turned, identity_like(turned))
        return [first, turned, scaling(self.factor), translation(self.after)]

    def recomposed(self) -> Tensor:
        """The map again."""
        first, second, third, fourth = self.steps()
        return compose(fourth, compose(third, compose(second, first)))

    def __call__(self, z: Tensor) -> Tensor:
        """The images of points, step by step."""
        for step in self.steps():
            z = apply(step, z)
        return z


def decompose(m: Tensor) -> Decomposition:
    """The elementary maps of each map; the pole must not be ∞ by rounding only: c is 0 or not."""
    a, b, c, d = entries(m)
    inverts = c != 0
    under = torch.where(inverts, c, d)
    return Decomposition(
        before=torch.where(inverts, d / under, 0),
        inverts=inverts,
        factor=torch.where(inverts, -determinant(m) / under.square(), a / under),
        after=torch.where(inverts, a, b) / under,
    )
