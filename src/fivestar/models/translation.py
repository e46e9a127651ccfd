"""Models that shift the head and measure how far from the tail it comes to lie."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from fivestar.models.base import SMALL, Model
from fivestar.models.distances import EuclideanDistance, L1Distance, SquaredDistance
from fivestar.models.similarity import Biased, Similarity


class TransE(Model):
    """s = −‖h + r − t‖ in the 1- or 2-norm (Bordes et al., NeurIPS 2013).

    d reals an entity and a relation. Translation; antisymmetric, inverse and composed relations,
    but no symmetric one and no 1-N.
    """

    broadcasts = True

    def __init__(
        self, entities: int, relations: int, dim: int, *, norm: Literal["l1", "l2"] = "l1"
    ) -> None:
        similarity = L1Distance() if norm == "l1" else EuclideanDistance()
        super().__init__(entities, relations, dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Uniform in ±6/√d, relations of length 1, as published."""
        bound = 6 / self.entities.shape[1] ** 0.5
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.uniform_(-bound, bound, generator=generator)
            self.relations.div_(self.relations.norm(dim=1, keepdim=True))

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The sum h + r."""
        return head + relation


class MuRE(Model):
    """s = −‖R ∘ h − t − r‖² + b_h + b_t (Balažević et al., NeurIPS 2019).

    d + 2 reals an entity ([t | b_t | b_h]) and 2d a relation ([R | r]). Translation, homothety, and
    reflection where Rᵢ < 0.
    """

    comparison: ClassVar[type[Similarity]] = SquaredDistance

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, dim + 2, 2 * dim, Biased(self.comparison()))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Normal × 1e-3, R uniform in ±1, no biases, as published."""
        with torch.no_grad():
            self.entities.normal_(generator=generator).mul_(SMALL)
            self.entities[:, -2:] = 0
            stretch, shift = self.relations.chunk(2, dim=1)
            stretch.uniform_(-1, 1, generator=generator)
            shift.normal_(generator=generator).mul_(SMALL)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """[R ∘ h − r | b_h]."""
        stretch, shift = relation.chunk(2, dim=-1)
        return torch.cat([stretch * head[..., :-2] - shift, head[..., -1:]], dim=-1)

    def candidate_columns(self, table: Tensor) -> Tensor:
        """[t | b_t]."""
        return table[:, :-1]

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Squares, without the biases."""
        return head[..., :-2].square()

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Squares, without the bias."""
        return points[..., :-1].square()
