"""Training facts grouped by query: one row of scores serves all tails of (head, relation)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.graph.known_answers import expand, query_keys
from fivestar.graph.triples import Ids, Triples

Grouping = Literal["queries", "triples"]


class Batch(NamedTuple):
    """Some queries: (head, relation) a row, and the true tails of all rows as (row, tail) pairs."""

    heads: Tensor  # (B,)
    relations: Tensor  # (B,)
    counts: Tensor  # (B,), true tails a row
    rows: Tensor  # (T,)
    tails: Tensor  # (T,)

    def parts(self, rows: int) -> Iterator[Batch]:
        """The same queries in parts of at most so many rows; pairs stand in order of their rows."""
        if len(self.heads) <= rows:
            yield self
            return
        ends = self.counts.cumsum(0).tolist()
        for first in range(0, len(self.heads), rows):
            last = min(first + rows, len(self.heads))
            some, pairs = slice(first, last), slice(ends[first - 1] if first else 0, ends[last - 1])
            yield Batch(
                self.heads[some],
                self.relations[some],
                self.counts[some],
                self.rows[pairs] - first,
                self.tails[pairs],
            )


@dataclass(frozen=True)
class Queries:
    """All queries of training; `tails[start[i] : start[i + 1]]` answer query i."""

    heads: Ids
    relations: Ids
    start: npt.NDArray[np.int64]
    tails: Ids
    # Relations from here on ask for heads and have no row of their own in the model.
    apart_from: int | None = None

    @classmethod
    def of(
        cls, triples: Triples, grouping: Grouping = "queries", apart_from: int | None = None
    ) -> Queries:
        """Equal queries once, or ("triples") each triple as a query of its own."""
        if grouping == "triples":
            start = np.arange(len(triples) + 1, dtype=np.int64)
            return cls(triples.heads, triples.relations, start, triples.tails, apart_from)
        keys = query_keys(
            triples.heads, triples.relations, int(triples.relations.max(initial=0)) + 1
        )
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.diff(keys[order], prepend=-1))
        return cls(
            triples.heads[order][first],
            triples.relations[order][first],
            np.append(first, len(order)).astype(np.int64),
            triples.tails[order],
            apart_from,
        )

    def __len__(self) -> int:
        return len(self.heads)

    def batches(
        self, size: int, generator: torch.Generator, device: torch.device, skip: int = 0
    ) -> Iterator[Batch]:
        """Every query once, in random order; `skip` leaves out that many batches."""
        order = torch.randperm(len(self), generator=generator).numpy()
        if self.apart_from is None:
            chosen = [order[first : first + size] for first in range(0, len(order), size)]
        else:
            # One batch holds queries for tails, or for heads of one relation.
            group = np.where(self.relations < self.apart_from, -1, self.relations)[order]
            together = np.argsort(group, kind="stable")
            first_of = np.flatnonzero(np.diff(group[together], prepend=-2))
            chosen = [
                order[part[first : first + size]]
                for part in np.split(together, first_of[1:])
                for first in range(0, len(part), size)
            ]
            mixed = torch.randperm(len(chosen), generator=generator).tolist()
            chosen = [chosen[number] for number in mixed]
        for some in chosen[skip:]:
            yield self.batch(some, device)

    def batch_count(self, size: int) -> int:
        """How many batches there are."""
        if self.apart_from is None:
            return -(-len(self) // size)
        group = np.where(self.relations < self.apart_from, -1, self.relations)
        return int((-(-np.unique(group, return_counts=True)[1] // size)).sum())

    def batch(self, chosen: npt.NDArray[np.integer], device: torch.device) -> Batch:
        """These queries."""
        begin = self.start[chosen]
        count = self.start[chosen + 1] - begin
        rows, tails = expand(begin, count, self.tails)
        arrays = (self.heads[chosen], self.relations[chosen], count, rows, tails)
        return Batch(*(torch.as_tensor(a.astype(np.int64), device=device) for a in arrays))
