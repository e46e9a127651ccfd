"""Models that turn each dimension of the head."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from fivestar.geometry.complex_pairs import Complex, from_row, squared_modulus, times, to_row
from fivestar.models.base import Model
from fivestar.models.distances import (
    EuclideanDistance,
    ModulusDistance,
    SineDistance,
    SquaredSineDistance,
)
from fivestar.models.similarity import Similarity


class RotatE(Model):
    """s = −Σ |hᵢ e^{iθᵢ} − tᵢ| over ℂᵈ (Sun et al., ICLR 2019).

    2d reals an entity, d a relation. Rotation; symmetric, antisymmetric, inverse and composed
    relations. With `norm` l2 it is −‖h ∘ e^{iθ} − t‖ instead (PyKEEN's RotatE), a matrix product.
    """

    broadcasts = True

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int,
        *,
        norm: Literal["modulus", "l2"] = "modulus",
    ) -> None:
        similarity: Similarity = ModulusDistance() if norm == "modulus" else EuclideanDistance()
        super().__init__(entities, relations, 2 * dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Entities uniform in ±14/d (margin 12 plus 2, as published), all angles alike likely."""
        bound = 14 / self.relations.shape[1]
        with torch.no_grad():
            self.entities.uniform_(-bound, bound, generator=generator)
            self.relations.uniform_(-math.pi, math.pi, generator=generator)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ e^{iθ}."""
        return to_row(times(from_row(head), Complex(relation.cos(), relation.sin())))

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Squared moduli."""
        return squared_modulus(from_row(points))


class PRotatE(Model):
    """s = −Σ |sin((h + r − t)/2)|, or with `norm` l2 s = −Σ sin²(·) (Sun et al., ICLR 2019).

    d angles an entity and a relation. Rotation of points on the unit circle; symmetric,
    antisymmetric, inverse and composed relations. The authors train the first form; the second is
    −‖h ∘ r − t‖²/4 at unit moduli, which a 5★E can express.
    """

    broadcasts = True

    def __init__(
        self, entities: int, relations: int, dim: int, *, norm: Literal["l1", "l2"] = "l1"
    ) -> None:
        similarity: Similarity = SineDistance() if norm == "l1" else SquaredSineDistance()
        super().__init__(entities, relations, dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """All angles alike likely."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.uniform_(-math.pi, math.pi, generator=generator)

    def positions(self, rows: Tensor) -> Tensor:
        """Angles as points of circles."""
        return torch.cat([rows.cos(), rows.sin()], dim=1)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The sum of angles."""
        return head + relation
