"""Which tails are known to be true for a query (head, relation), heads asked for included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Ids, Triples

Keys = npt.NDArray[np.int64]


def with_reciprocals(triples: Triples, relations: int) -> Triples:
    """Each (h, r, t) and, behind them all, each (t, r + relations, h)."""
    return triples + Triples(triples.tails, triples.relations + np.int32(relations), triples.heads)


@dataclass(frozen=True)
class KnownAnswers:
    """The tails of every query of some facts, in one flat array."""

    keys: Keys  # distinct queries, ordered
    start: npt.NDArray[np.int64]
    tails: Ids
    relations: int

    @classmethod
    def of(cls, facts: Triples) -> KnownAnswers:
        """The answers that these facts give; a fact that stands twice counts once."""
        facts = facts.distinct()
        relations = int(facts.relations.max(initial=0)) + 1
        keys = query_keys(facts.heads, facts.relations, relations)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        start = np.append(first, len(ordered))
        return cls(ordered[first], start, facts.tails[order], relations)

    def of_queries(
        self, heads: npt.NDArray[np.integer], relations: npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.int64], Ids]:
        """The known tails of each query, as (row of the query, tail)."""
        if not len(self.keys):
            return np.zeros(0, np.int64), self.tails[:0]
        wanted = query_keys(heads, relations, self.relations)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        # A relation that no fact has shares its key with another query.
        known = (self.keys[place] == wanted) & (relations < self.relations)
        begin = np.where(known, self.start[place], 0)
        count = np.where(known, self.start[place + 1] - self.start[place], 0)
        return expand(begin, count, self.tails)


def query_keys(
    heads: npt.NDArray[np.integer], relations: npt.NDArray[np.integer], count: int
) -> Keys:
    """One 64-bit key a query."""
    return heads.astype(np.int64) * count + relations


def expand(
    begin: npt.NDArray[np.int64], count: npt.NDArray[np.int64], values: Ids
) -> tuple[npt.NDArray[np.int64], Ids]:
    """The values[begin[i] : begin[i] + count[i]] of all rows i, with their rows.

    >>> rows, values = expand(np.array([1, 0]), np.array([2, 1]), np.array([7, 8, 9], np.int32))
    >>> rows.tolist(), values.tolist()
    ([0, 0, 1], [8, 9, 7])
    """
    shift = np.repeat(begin - (np.cumsum(count) - count), count)
    return np.repeat(np.arange(len(count)), count), values[shift + np.arange(len(shift))]
