"""What every model is: a map of the head, followed by a comparison with every candidate tail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from fivestar.models.similarity import TILE, Similarity

_SMALL = 1e-3


class Model(nn.Module, ABC):
    """Two tables of numbers and a formula. Widths are in reals."""

    entity_width: ClassVar[int]  # reals an entity and dimension
    relation_width: ClassVar[int]

    def __init__(self, entities: int, relations: int, dim: int, similarity: Similarity) -> None:
        super().__init__()
        self.dim = dim
        self.similarity = similarity
        self.entities = nn.Parameter(torch.empty(entities, dim * self.entity_width))
        self.relations = nn.Parameter(torch.empty(relations, dim * self.relation_width))

    def start(self, generator: torch.Generator) -> None:
        """Fill the tables for training: normal × 1e-3."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.normal_(generator=generator).mul_(_SMALL)

    @abstractmethod
    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The query (B, D) of rows of the two tables."""

    @abstractmethod
    def point_sizes(self, points: Tensor) -> Tensor:
        """The squared moduli of entities or moved heads, one a dimension, for regularisers."""

    @abstractmethod
    def relation_sizes(self, relation: Tensor) -> Tensor:
        """The squared moduli (or norms) of relations, one a dimension, for regularisers."""

    def query(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The query (B, D) of ids."""
        return self.transform(self.entities[heads], self.relations[relations])

    def candidates(self) -> Tensor:
        """The table (N, D) that queries are compared with."""
        return self.entities

    def score(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of each triple."""
        return self.similarity.rows(self.query(heads, relations), self.candidates()[tails])

    def score_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The scores (B, N) of all entities as tails."""
        query = self.query(heads, relations).detach()
        tiles = list(self.score_tiles(query))
        return torch.cat(tiles, dim=1)

    def score_tiles(self, query: Tensor, width: int = TILE) -> Iterator[Tensor]:
        """The scores of all entities, tile by tile of candidates."""
        entities = len(self.candidates())
        for start in range(0, entities, width):
            scores = query.new_empty(len(query), min(width, entities - start))
            self.score_tile(query, start, scores)
            yield scores

    def score_tile(self, query: Tensor, start: int, out: Tensor) -> None:
        """Write the scores of as many entities as `out` has columns, from `start` on."""
        tile = self.candidates().detach()[start : start + out.shape[1]]
        self.similarity.forward(query, tile, out)
