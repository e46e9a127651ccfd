"""Rotation in the space of quaternions."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct

# Keeps the direction of a vanishing quaternion finite, in value and gradient.
_TINY = 1e-18


class QuatE(Model):
    """s = ⟨h ⊗ r/|r|, t⟩ over ℍᵈ (Zhang et al., NeurIPS 2019).

    4d reals an entity and a relation, [1 | i | j | k]. Rotation in four dimensions; symmetric,
    antisymmetric and inverse relations.
    """

    broadcasts = True

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, 4 * dim, 4 * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The Hamilton product with the direction of the relation."""
        size = self.squared_moduli(relation).add(_TINY).rsqrt()
        a, b, c, d = head.chunk(4, dim=-1)
        p, q, r, s = (part * size for part in relation.chunk(4, dim=-1))
        return torch.cat(
            [
                a * p - b * q - c * r - d * s,
                a * q + b * p + c * s - d * r,
                a * r - b * s + c * p + d * q,
                a * s + b * r - c * q + d * p,
            ],
            dim=-1,
        )

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Squared norms of quaternions."""
        a, b, c, d = (part.square() for part in points.chunk(4, dim=-1))
        return a + b + c + d

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Squared norms of quaternions."""
        return self.squared_moduli(relation)
