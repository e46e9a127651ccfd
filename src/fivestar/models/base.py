"""The base class of all models: transform the head, then compare it with every candidate tail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fivestar.cancellation import check_cancelled
from fivestar.models.options import validate_options
from fivestar.models.packed import PackedCandidates
from fivestar.models.sharding import Shard
from fivestar.models.similarity import TILE, Biased, Similarity

# Standard deviation of the default initialization.
INIT_STD = 1e-3
# Numbers that are initialized at once: a multiple of 16, because torch generates 16 together.
_INIT_NUMBERS = 1 << 20


class Model(nn.Module, ABC):
    """A row of parameters per entity and per relation, and a formula.

    A subclass defines `transform`, which maps heads by relations to queries, and chooses the
    similarity that compares queries with candidates. Parameters besides the two tables belong to
    `transform`. Keyword-only arguments of the constructor are the options of the model. Several
    processes can share the entity table; `shard` says which of its rows this process has.

    Args:
        num_entities: Rows of the entity table.
        num_relations: Rows of the relation table, reciprocal relations included.
        entity_dim: Real numbers per entity.
        relation_dim: Real numbers per relation.
        similarity: How queries are compared with candidates.
    """

    # Whether `transform` accepts inputs of more dimensions and broadcasts them (three times faster
    # where each head meets several relations).
    broadcasts: ClassVar[bool] = False
    # Learning rate of the columns that `off_diagonal` returns, relative to that of all others.
    off_diagonal_lr: float = 1.0
    # A copy of the candidates for faster products; see `pack_candidates`.
    packed: PackedCandidates | None = None

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        entity_dim: int,
        relation_dim: int,
        similarity: Similarity,
    ) -> None:
        super().__init__()
        self.similarity = similarity
        self.shard = Shard(num_entities)
        self.entities = nn.Parameter(torch.empty(num_entities, entity_dim))
        self.relations = nn.Parameter(torch.empty(num_relations, relation_dim))

    @abstractmethod
    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the queries of heads and relations.

        Args:
            head: (B, entity_dim) rows of the entity table.
            relation: (B, relation_dim) rows of the relation table.

        Returns:
            The transformed heads, as queries (B, D).
        """

    @classmethod
    def resolve_options(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of this model, validated, those not given at their defaults.

        Override this for defaults that depend on other options, and for options that exclude one
        another.

        Raises:
            SettingsError: An option is unknown or has a wrong value.
        """
        return validate_options(cls, given)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the tables: normal × 1e-3."""
        initialize_normal(self.entities, generator, self.shard)
        initialize_normal(self.relations, generator)

    @property
    def resets_shards(self) -> bool:
        """Whether `reset_parameters` gives a shard the rows that it would have in the whole table.

        If not, each process initializes a whole table in a file and keeps its rows.
        """
        return type(self).reset_parameters is Model.reset_parameters

    def transform_pairwise(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the queries (B, K, D) of B heads, each by each of K relations."""
        if self.broadcasts:
            return self.transform(head[:, None], relation)
        heads, relations = head.repeat_interleave(len(relation), 0), relation.repeat(len(head), 1)
        return self.transform(heads, relations).view(len(head), len(relation), -1)

    def candidate_columns(self, table: Tensor) -> Tensor:
        """Return the columns of the entity table (or of its gradient) that are candidates."""
        return table

    def candidates(self) -> Tensor:
        """Return the table (N, D) that queries are compared with."""
        return self.candidate_columns(self.entities)

    def positions(self, rows: Tensor) -> Tensor:
        """Return rows of the entity table as points of a vector space, without biases."""
        if isinstance(self.similarity, Biased):
            return rows[:, : self.candidates().shape[1] - 1]
        return rows

    def entity_vectors(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the vectors of rows of the entity table: one, or one per role, without biases."""
        if isinstance(self.similarity, Biased):
            return (rows[:, : self.candidates().shape[1] - 1],)
        return (rows,)

    def manifold_parameters(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, ...]:
        """Return the columns of the tables (or of their gradients) on a Poincaré ball."""
        return ()

    def off_diagonal(self, relations: Tensor) -> Tensor | None:
        """Return the columns of the relation table with a learning rate of their own, if any."""
        return None

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Return the squared moduli of heads, one per dimension, for regularizers."""
        return self.squared_moduli(head)

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return the squared moduli of transformed heads or candidates, one per dimension."""
        return points.square()

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Return the squared moduli (or norms) of relations, one per dimension."""
        return relation.square()

    @property
    def num_entities(self) -> int:
        """Number of entities of the graph, of which this process may hold a part."""
        return self.shard.num_entities

    @property
    def scratch_per_query(self) -> int:
        """Numbers that a query takes in training besides its row of scores (measured)."""
        return 64 * max(self.entities.shape[1], self.relations.shape[1] // 4)

    @property
    def query_dim(self) -> int:
        """Numbers per query."""
        was_training = self.training
        rows = (table.new_zeros(1, table.shape[1]) for table in (self.entities, self.relations))
        with torch.no_grad():
            query = self.eval().transform(*rows)
        self.train(was_training)
        return query.shape[1]

    @property
    def uses_batch_norm(self) -> bool:
        """Whether a query depends on the other queries of its batch in training."""
        return any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in self.modules())

    @property
    def is_stochastic(self) -> bool:
        """Return whether the forward pass is random in training."""
        return any(isinstance(m, nn.Dropout | nn.Dropout2d) and m.p > 0 for m in self.modules())

    def query(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return the queries (B, D) of ids."""
        head = self.shard.rows(self.entities, heads)
        return self.transform(head, self.relations[relations])

    def score(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Return the scores (B,) of triples of ids."""
        tail = self.shard.rows(self.candidates(), tails)
        return self.similarity.score_pairs(self.query(heads, relations), tail)

    def score_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return the scores (B, N) of all entities as tails."""
        query = self.query(heads, relations).detach()
        tiles = list(self.score_tiles(query))
        return torch.cat(tiles, dim=1)

    def score_heads(self, relation: int, tails: Tensor) -> Tensor:
        """Return the scores (B, N) of all entities as heads, without a reciprocal relation."""
        scores = self.entities.new_empty(len(tails), len(self.entities))
        tail = self.candidates()[tails]
        for start in range(0, len(self.entities), TILE):
            self.score_head_tile(relation, tail, start, scores[:, start : start + TILE])
        return scores

    def score_tiles(self, query: Tensor, width: int = TILE) -> Iterator[Tensor]:
        """Yield the scores (B, width) of all entities, tile by tile of candidates."""
        entities = len(self.candidates())
        for start in range(0, entities, width):
            check_cancelled()
            scores = query.new_empty(len(query), min(width, entities - start))
            self.score_tile(query, start, scores)
            yield scores

    def score_tile(self, query: Tensor, start: int, out: Tensor) -> None:
        """Write the scores of the entities from `start` on to `out` (B, n)."""
        if self.packed is not None and self.packed.write_scores(query, start, out):
            return
        tile = self.candidates().detach()[start : start + out.shape[1]]
        self.similarity.forward(query, tile, out)

    @torch.no_grad()
    def score_head_tile(self, relation: int, tail: Tensor, start: int, out: Tensor) -> None:
        """Write the scores of the entities from `start` on as heads: each is transformed itself.

        Args:
            relation: Row of the relation table.
            tail: (B, D) rows of the candidates: the given tails.
            start: First row of the entity table.
            out: (B, n) for the scores.
        """
        heads = self.entities[start : start + out.shape[1]]
        query = self.transform(heads, self.relations[relation].expand(len(heads), -1))
        scores = out.new_empty(len(heads), len(tail))
        self.similarity.forward(query, tail, scores)
        out.copy_(scores.T)


@torch.no_grad()
def initialize_normal(
    table: Tensor, generator: torch.Generator, shard: Shard | None = None
) -> None:
    """Initialize a table, or the rows of a shard, normal × 1e-3.

    On a CPU part by part, because torch passes over all of a table three times, and each pass over
    one in a mapped file reads and writes it. The numbers are those of one part.

    >>> parts, whole = torch.empty(1 << 16, 17), torch.empty(1 << 16, 17)
    >>> initialize_normal(parts, torch.Generator().manual_seed(0))
    >>> _ = whole.normal_(generator=torch.Generator().manual_seed(0)).mul_(INIT_STD)
    >>> torch.equal(parts, whole)
    True
    >>> shard = Shard(1 << 16, rank=1, size=3)
    >>> rows = torch.empty(len(shard), 17)
    >>> initialize_normal(rows, torch.Generator().manual_seed(0), shard)
    >>> torch.equal(rows, whole[shard.start : shard.stop])
    True
    """
    numbers, offset, total = table.view(-1), 0, table.numel()
    is_shard = shard is not None and not shard.is_whole
    if shard is not None and is_shard:
        offset, total = shard.start * table.shape[1], shard.num_entities * table.shape[1]
    # The rest belongs to the last part: torch generates less than 16 numbers in another way.
    count = max(1, total // _INIT_NUMBERS) if generator.device.type == "cpu" else 1
    for part in range(count):
        start = part * _INIT_NUMBERS
        end = total if part == count - 1 else start + _INIT_NUMBERS
        if not is_shard:
            numbers[start:end].normal_(generator=generator).mul_(INIT_STD)
            continue
        normal = torch.empty(end - start, device=generator.device).normal_(generator=generator)
        low, high = max(start, offset), min(end, offset + len(numbers))
        if low < high:
            numbers[low - offset : high - offset] = normal[low - start : high - start] * INIT_STD
