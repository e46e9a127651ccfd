"""Tucker decomposition of the tensor of facts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fivestar.models.base import Model
from fivestar.models.layers import init_xavier_normal_, normalised
from fivestar.models.similarity import InnerProduct


class TuckER(Model):
    """s = W ×₁ h ×₂ r ×₃ t (Balažević et al., EMNLP 2019).

    d reals an entity, d_r a relation (`relation_dim`, by default d), and a core W of d · d_r · d
    that all share. Every linear map, a mixture of those in the core; all relation patterns but the
    translation. Batch normalisation and dropout as published: of the head, of the relation's matrix
    (`feature_dropout`) and of the moved head.
    """

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int,
        *,
        relation_dim: int | None = None,
        input_dropout: float = 0.3,
        feature_dropout: float = 0.4,
        hidden_dropout: float = 0.5,
    ) -> None:
        width = relation_dim or dim
        super().__init__(entities, relations, dim, width, InnerProduct())
        self.core = nn.Parameter(torch.empty(width, dim, dim))
        self.head_norm = nn.BatchNorm1d(dim)
        self.moved_norm = nn.BatchNorm1d(dim)
        self.head_dropout = nn.Dropout(input_dropout)
        self.matrix_dropout = nn.Dropout(feature_dropout)
        self.moved_dropout = nn.Dropout(hidden_dropout)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Normal tables, a uniform core."""
        for table in (self.entities, self.relations):
            init_xavier_normal_(table, generator)
        with torch.no_grad():
            self.core.uniform_(-1, 1, generator=generator)

    @property
    def scratch_per_query(self) -> int:
        """The matrix of a relation, what dropout makes of it, and their gradients."""
        return super().scratch_per_query + 8 * self.entities.shape[1] ** 2

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product hᵀ (W ×₂ r)."""
        dim = head.shape[-1]
        matrix = (relation @ self.core.flatten(1)).view(-1, dim, dim)
        moved = self.head_dropout(normalised(self.head_norm, head))
        moved = torch.bmm(moved[:, None], self.matrix_dropout(matrix)).squeeze(1)
        found: Tensor = self.moved_dropout(normalised(self.moved_norm, moved))
        return found
