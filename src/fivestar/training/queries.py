"""Training facts grouped by query: one row of scores serves all answers of (entity, relation)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.graph.known_answers import expand, query_keys
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Ids, Triples
from fivestar.models.scoring import relation_rows
from fivestar.training.partitions import Partitions

Grouping = Literal["queries", "triples"]


class Batch(NamedTuple):
    """B queries, and their T true answers as (row, answer) pairs, ordered by row.

    An exhaustive batch holds head queries of one relation, to be scored by exhaustive head
    scoring; all queries of any other batch are scored as tail queries.
    """

    entities: Tensor  # (B,), the given head; of an exhaustive batch, the given tail
    relations: Tensor  # (B,), rows of the model's relation table
    side_relations: Tensor  # (B,), r for (h, r, ?), and r + number of relations for (?, r, t)
    counts: Tensor  # (B,), true answers per query
    rows: Tensor  # (T,)
    answers: Tensor  # (T,)
    exhaustive: bool
    weights: Tensor | None = None  # (T,), of the answers; None: 1 each
    # (P,) entities in ascending order to sample candidates from, all answers among them; None: all.
    pool: Tensor | None = None

    @property
    def num_triples(self) -> float:
        """Return the number of triples; with weights, their sum, as if each was w copies."""
        if self.weights is None:
            return len(self.answers)
        # Above 0, so that a batch of facts that do not count has a loss of 0.
        return max(float(self.weights.sum()), torch.finfo(torch.float32).tiny)

    def with_weights_as(self, dtype: torch.dtype) -> Batch:
        """Return the batch with its weights as this type; without weights, itself."""
        return self if self.weights is None else self._replace(weights=self.weights.to(dtype))

    def query_weights(self, dtype: torch.dtype) -> Tensor:
        """Return the number of answers (B,) of each query; with weights, their sum."""
        if self.weights is None:
            return self.counts.to(dtype)
        sums = self.weights.new_zeros(len(self.counts)).index_add_(0, self.rows, self.weights)
        return sums.to(dtype)

    def parts(self, size: int, chosen: slice) -> Iterator[Batch]:
        """Yield the chosen queries in batches of at most `size` queries."""
        start, stop, _ = chosen.indices(len(self.entities))
        if stop - start == len(self.entities) <= size:
            yield self
            return
        ends = self.counts.cumsum(0).tolist()
        for first in range(start, stop, size):
            last = min(first + size, stop)
            queries = slice(first, last)
            pairs = slice(ends[first - 1] if first else 0, ends[last - 1])
            yield Batch(
                self.entities[queries],
                self.relations[queries],
                self.side_relations[queries],
                self.counts[queries],
                self.rows[pairs] - first,
                self.answers[pairs],
                self.exhaustive,
                None if self.weights is None else self.weights[pairs],
            )


@dataclass(frozen=True)
class GroupedQueries:
    """All training queries; `answers[start[i] : start[i + 1]]` answer query i."""

    entities: Ids
    relations: Ids  # rows of the model's relation table
    side_relations: Ids
    exhaustive: npt.NDArray[np.bool_]
    start: npt.NDArray[np.int64]
    answers: Ids
    weights: npt.NDArray[np.float32] | None = None  # of the answers
    partitions: Partitions | None = None
    buckets: Ids | None = None  # of the queries, ascending, if there are partitions

    @classmethod
    def of(
        cls,
        triples: Triples,
        num_relations: int,
        *,
        reciprocals: bool = True,
        grouping: Grouping = "queries",
        partitions: Partitions | None = None,
    ) -> GroupedQueries:
        """Return the tail queries and head queries of triples.

        Args:
            triples: training facts.
            num_relations: number of relations of the graph, without reciprocals.
            reciprocals: whether the model has reciprocal relations for head queries.
            grouping: each distinct query once ("queries"), or one query per triple and side.
            partitions: partitions of the entities: then the answers of a query are one query per
                bucket.
        """
        queries, answers = both_sides(triples, num_relations)
        weights = None
        if triples.weights is not None:
            weights = np.tile(triples.weights.astype(np.float32), 2)
        scored = relation_rows(queries, num_relations * (2 if reciprocals else 1))
        side_relations = queries.reciprocal_relation
        start = np.arange(len(queries) + 1, dtype=np.int64)
        order = first = np.arange(len(queries))
        buckets = None if partitions is None else partitions.buckets(queries.entity, answers)
        if grouping == "queries":
            keys = query_keys(queries.entity, side_relations, 2 * num_relations)
            order = _sorted(keys, buckets)
            is_new = np.diff(keys[order], prepend=-1, append=-1) != 0
            if buckets is not None:
                is_new |= np.diff(buckets[order], prepend=-1, append=-1) != 0
            start = np.flatnonzero(is_new)
            first = order[start[:-1]]
        elif buckets is not None:
            order = first = np.argsort(buckets, kind="stable")
        answers = answers[order]
        weights = None if weights is None else weights[order]
        return cls(
            queries.entity[first].astype(np.int32),
            scored.row[first].astype(np.int32),
            side_relations[first].astype(np.int32),
            scored.exhaustive[first],
            start,
            answers.astype(np.int32),
            weights,
            partitions,
            None if buckets is None else buckets[first],
        )

    def __len__(self) -> int:
        return len(self.entities)

    def batches(
        self, size: int, generator: torch.Generator, device: torch.device, skip: int = 0
    ) -> Iterator[Batch]:
        """Yield every query once, in random order, without the first `skip` batches.

        With partitions, buckets are in random order, and queries within each bucket.
        """
        if self.partitions is not None:
            yield from self._batches_by_bucket(self.partitions, size, generator, device, skip)
            return
        order = torch.randperm(len(self), generator=generator).numpy()
        if not self.exhaustive.any():
            chosen = _cut(order, size)
        else:
            group = self._groups()[order]
            by_group = np.argsort(group, kind="stable")
            group_start = np.flatnonzero(np.diff(group[by_group], prepend=-2))
            chosen = [
                order[part]
                for queries in np.split(by_group, group_start[1:])
                for part in _cut(queries, size)
            ]
            shuffled = torch.randperm(len(chosen), generator=generator).tolist()
            chosen = [chosen[number] for number in shuffled]
        for queries in chosen[skip:]:
            yield self.batch(queries, device)

    def _batches_by_bucket(
        self,
        partitions: Partitions,
        size: int,
        generator: torch.Generator,
        device: torch.device,
        skip: int,
    ) -> Iterator[Batch]:
        assert self.buckets is not None  # noqa: S101  (made with the partitions)
        for bucket in partitions.order(generator):
            first, last = np.searchsorted(self.buckets, [bucket, bucket + 1]).tolist()
            order = first + torch.randperm(last - first, generator=generator).numpy()
            chosen = _cut(order, size)
            skip, chosen = max(0, skip - len(chosen)), chosen[skip:]
            if not chosen:
                continue
            pool = partitions.entities(bucket).to(device)
            for queries in chosen:
                yield self.batch(queries, device)._replace(pool=pool)

    def num_batches(self, size: int) -> int:
        """Return the number of batches per epoch."""
        return int((-(-np.unique(self._groups(), return_counts=True)[1] // size)).sum())

    def max_answers(self, size: int) -> int:
        """Return an upper bound of the answers of a batch of this many queries."""
        counts = np.diff(self.start)
        if size < len(counts):
            counts = np.partition(counts, -size)[-size:]
        return int(counts.sum())

    def _groups(self) -> Ids:
        """Return which queries may share a batch: equal numbers may."""
        if self.buckets is not None:
            return self.buckets
        return np.where(self.exhaustive, self.relations, np.int32(-1))

    def batch(self, chosen: npt.NDArray[np.integer], device: torch.device) -> Batch:
        """Return these queries; all of one group."""
        begin = self.start[chosen]
        counts = self.start[chosen + 1] - begin
        rows, answers = expand(begin, counts, self.answers)

        def tensor(ids: npt.NDArray[np.integer]) -> Tensor:
            return torch.as_tensor(ids.astype(np.int64), device=device)

        return Batch(
            tensor(self.entities[chosen]),
            tensor(self.relations[chosen]),
            tensor(self.side_relations[chosen]),
            tensor(counts),
            tensor(rows),
            tensor(answers),
            exhaustive=bool(self.exhaustive[chosen].any()),
            weights=None
            if self.weights is None
            else torch.as_tensor(expand(begin, counts, self.weights)[1], device=device),
        )


def _sorted(keys: npt.NDArray[np.int64], buckets: Ids | None) -> npt.NDArray[np.intp]:
    """Return the order of queries by bucket, if there are any, then by key."""
    if buckets is None:
        return np.argsort(keys, kind="stable")
    return np.lexsort((keys, buckets))


def _cut(queries: npt.NDArray[np.integer], size: int) -> list[npt.NDArray[np.integer]]:
    """Cut queries into batches."""
    return [queries[first : first + size] for first in range(0, len(queries), size)]
