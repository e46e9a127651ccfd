"""What every model is: a map of the head, followed by a comparison with every candidate tail."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from fivestar.errors import SettingsError
from fivestar.models.similarity import TILE, Biased, Similarity

SMALL = 1e-3


class Model(nn.Module, ABC):
    """A row of numbers for each entity and each relation, and a formula.

    Some models have parameters besides; they belong to the map of the head.
    """

    # Whether `transform` takes tensors of more dimensions that broadcast: a third of the time then.
    broadcasts: ClassVar[bool] = False
    # Learning rate of the columns that `off_diagonal` returns, relative to that of all others.
    off_diagonal_lr: float = 1.0

    def __init__(
        self,
        entities: int,
        relations: int,
        entity_width: int,
        relation_width: int,
        similarity: Similarity,
    ) -> None:
        super().__init__()
        self.similarity = similarity
        self.entities = nn.Parameter(torch.empty(entities, entity_width))
        self.relations = nn.Parameter(torch.empty(relations, relation_width))

    @classmethod
    def options(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of this model by name, those not given at their defaults."""
        parameters = inspect.signature(cls).parameters.values()
        own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        kinds = get_type_hints(cls.__init__)
        for name in own.keys() & given.keys():
            choices = get_args(kinds[name]) if get_origin(kinds[name]) is Literal else None
            if choices and given[name] not in choices:
                raise SettingsError(
                    f"{name} of {cls.__name__} is {' or '.join(choices)}, not {given[name]!r}"
                )
        return {name: given.get(name, default) for name, default in own.items()}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Fill the tables for training: normal × 1e-3."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.normal_(generator=generator).mul_(SMALL)

    @property
    def scratch_per_query(self) -> int:
        """About how many numbers a query takes in training besides its row of scores (measured)."""
        return 64 * max(self.entities.shape[1], self.relations.shape[1] // 4)

    @property
    def query_dim(self) -> int:
        """How many numbers a query has."""
        return self.candidates().shape[1]

    @property
    def uses_batch_norm(self) -> bool:
        """Whether in training a query depends on the others of its batch."""
        return any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in self.modules())

    @property
    def is_stochastic(self) -> bool:
        """Whether training draws random numbers."""
        return any(isinstance(m, nn.Dropout | nn.Dropout2d) and m.p > 0 for m in self.modules())

    @abstractmethod
    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The query (B, D) of rows of the two tables."""

    def transform_pairwise(self, head: Tensor, relation: Tensor) -> Tensor:
        """The queries (B, K, D) of B heads, each by K relations."""
        if self.broadcasts:
            return self.transform(head[:, None], relation)
        heads, relations = head.repeat_interleave(len(relation), 0), relation.repeat(len(head), 1)
        return self.transform(heads, relations).view(len(head), len(relation), -1)

    def candidate_columns(self, table: Tensor) -> Tensor:
        """The columns of the entity table (or of its gradient) that queries are compared with."""
        return table

    def candidates(self) -> Tensor:
        """The table (N, D) that queries are compared with."""
        return self.candidate_columns(self.entities)

    def positions(self, rows: Tensor) -> Tensor:
        """Rows of the entity table as points of space: biases, if any, stand behind and go."""
        if isinstance(self.similarity, Biased):
            return rows[:, : self.candidates().shape[1] - 1]
        return rows

    def manifold_parameters(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, ...]:
        """The columns of the tables (or of their gradients) that are points of a Poincaré ball."""
        return ()

    def off_diagonal(self, relations: Tensor) -> Tensor | None:
        """Return the columns of the relation table that learn at a rate of their own, if any."""
        return None

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """The squared moduli of heads, one a dimension, for regularisers."""
        return self.squared_moduli(head)

    def squared_moduli(self, points: Tensor) -> Tensor:
        """The squared moduli of moved heads or candidates, one a dimension, for regularisers."""
        return points.square()

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """The squared moduli (or norms) of relations, one a dimension, for regularisers."""
        return relation.square()

    def query(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The query (B, D) of ids."""
        return self.transform(self.entities[heads], self.relations[relations])

    def score(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of each triple."""
        return self.similarity.score_pairs(self.query(heads, relations), self.candidates()[tails])

    def score_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The scores (B, N) of all entities as tails."""
        query = self.query(heads, relations).detach()
        tiles = list(self.score_tiles(query))
        return torch.cat(tiles, dim=1)

    def score_heads(self, relation: int, tails: Tensor) -> Tensor:
        """The scores (B, N) of all entities as heads, without a reciprocal relation."""
        scores = self.entities.new_empty(len(tails), len(self.entities))
        for start in range(0, len(self.entities), TILE):
            self.score_head_tile(relation, tails, start, scores[:, start : start + TILE])
        return scores

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

    @torch.no_grad()
    def score_head_tile(self, relation: int, tails: Tensor, start: int, out: Tensor) -> None:
        """The same with entities as heads of a relation and some tails: each is moved itself."""
        heads = self.entities[start : start + out.shape[1]]
        moved = self.transform(heads, self.relations[relation].expand(len(heads), -1))
        scores = out.new_empty(len(heads), len(tails))
        self.similarity.forward(moved, self.candidates()[tails], scores)
        out.copy_(scores.T)
