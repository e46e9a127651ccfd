"""Models that rotate each dimension of the head: in the complex plane, or as a quaternion."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from fivestar.geometry.complex_pairs import Complex, from_row, squared_modulus, times, to_row
from fivestar.models.base import Model
from fivestar.models.distances import (
    EuclideanDistance,
    ModulusDistance,
    SineDistance,
    SquaredSineDistance,
)
from fivestar.models.similarity import InnerProduct, Similarity

# Keeps the direction of a vanishing quaternion finite, in value and gradient.
_TINY = 1e-18

_NORM = Field(description="Norm of the distance; modulus: the sum of complex moduli.")
RotatENorm = Annotated[Literal["modulus", "l2"], _NORM]
PRotatENorm = Annotated[Literal["l1", "l2"], _NORM]


class RotatE(Model):
    """s = −Σ |hᵢ e^{iθᵢ} − tᵢ| over ℂᵈ (Sun et al., ICLR 2019).

    2d reals per entity, d per relation. Rotation; symmetric, antisymmetric, inverse and composed
    relations. With `norm` l2 it is −‖h ∘ e^{iθ} − t‖ instead (PyKEEN's RotatE), a matrix product.
    """

    broadcasts = True

    def __init__(
        self, num_entities: int, num_relations: int, dim: int, *, norm: RotatENorm = "modulus"
    ) -> None:
        similarity: Similarity = ModulusDistance() if norm == "modulus" else EuclideanDistance()
        super().__init__(num_entities, num_relations, 2 * dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize entities uniform in ±14/d (margin 12 plus 2, as published), angles uniform."""
        bound = 14 / self.relations.shape[1]
        with torch.no_grad():
            self.entities.uniform_(-bound, bound, generator=generator)
            self.relations.uniform_(-math.pi, math.pi, generator=generator)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return h ∘ e^{iθ}."""
        return to_row(times(from_row(head), Complex(relation.cos(), relation.sin())))

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return squared moduli."""
        return squared_modulus(from_row(points))


class PRotatE(Model):
    """s = −Σ |sin((h + r − t)/2)|, or with `norm` l2 s = −Σ sin²(·) (Sun et al., ICLR 2019).

    d angles per entity and per relation. Rotation of points on the unit circle; symmetric,
    antisymmetric, inverse and composed relations. The authors train the first form; the second is
    −‖h ∘ r − t‖²/4 at unit moduli, which a 5★E can express.
    """

    broadcasts = True

    def __init__(
        self, num_entities: int, num_relations: int, dim: int, *, norm: PRotatENorm = "l1"
    ) -> None:
        similarity: Similarity = SineDistance() if norm == "l1" else SquaredSineDistance()
        super().__init__(num_entities, num_relations, dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize all angles uniform."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.uniform_(-math.pi, math.pi, generator=generator)

    def positions(self, rows: Tensor) -> Tensor:
        """Return angles as points on circles."""
        return torch.cat([rows.cos(), rows.sin()], dim=1)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the sum of angles."""
        return head + relation


class QuatE(Model):
    """s = ⟨h ⊗ r/|r|, t⟩ over ℍᵈ (Zhang et al., NeurIPS 2019).

    4d reals per entity and per relation, [1 | i | j | k]. Rotation in four dimensions; symmetric,
    antisymmetric and inverse relations.
    """

    broadcasts = True

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, 4 * dim, 4 * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the Hamilton product with the normalized relation."""
        inverse_norm = self.squared_moduli(relation).add(_TINY).rsqrt()
        a, b, c, d = head.chunk(4, dim=-1)
        p, q, r, s = (part * inverse_norm for part in relation.chunk(4, dim=-1))
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
        """Return squared norms of quaternions."""
        a, b, c, d = (part.square() for part in points.chunk(4, dim=-1))
        return a + b + c + d

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Return squared norms of quaternions."""
        return self.squared_moduli(relation)
