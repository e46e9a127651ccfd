"""Models that translate the head and measure its distance to the tail."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fivestar.models.base import INIT_STD, Model, initialize_normal
from fivestar.models.distances import EuclideanDistance, L1Distance, SquaredDistance
from fivestar.models.similarity import Biased, Similarity

Norm = Annotated[Literal["l1", "l2"], Field(description="Norm of the distance.")]


class TransE(Model):
    """s = −‖h + r − t‖ in the 1- or 2-norm (Bordes et al., NeurIPS 2013).

    d reals per entity and per relation. Translation; antisymmetric, inverse and composed relations,
    but no symmetric one and no 1-N.
    """

    broadcasts = True

    def __init__(
        self, num_entities: int, num_relations: int, dim: int, *, norm: Norm = "l1"
    ) -> None:
        similarity = L1Distance() if norm == "l1" else EuclideanDistance()
        super().__init__(num_entities, num_relations, dim, dim, similarity)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize uniform in ±6/√d, relations of length 1, as published."""
        bound = 6 / self.entities.shape[1] ** 0.5
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.uniform_(-bound, bound, generator=generator)
            self.relations.div_(self.relations.norm(dim=1, keepdim=True))

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return h + r."""
        return head + relation


class MuRE(Model):
    """s = −‖R ∘ h − t − r‖² + b_h + b_t (Balažević et al., NeurIPS 2019).

    d + 2 reals per entity ([t | b_t | b_h]) and 2d per relation ([R | r]). Translation, homothety,
    and reflection where Rᵢ < 0.
    """

    distance: ClassVar[type[Similarity]] = SquaredDistance

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, dim + 2, 2 * dim, Biased(self.distance()))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize normal × 1e-3, R uniform in ±1, biases 0, as published."""
        with torch.no_grad():
            initialize_normal(self.entities, generator)
            self.entities[:, -2:] = 0
            scale, shift = self.relations.chunk(2, dim=1)
            scale.uniform_(-1, 1, generator=generator)
            shift.normal_(generator=generator).mul_(INIT_STD)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return [R ∘ h − r | b_h]."""
        scale, shift = relation.chunk(2, dim=-1)
        return torch.cat([scale * head[..., :-2] - shift, head[..., -1:]], dim=-1)

    def candidate_columns(self, table: Tensor) -> Tensor:
        """Return [t | b_t]."""
        return table[:, :-1]

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Return squares, without the biases."""
        return head[..., :-2].square()

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return squares, without the bias."""
        return points[..., :-1].square()
