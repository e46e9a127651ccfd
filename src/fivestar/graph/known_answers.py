"""Known true tails of queries (head, relation), including reciprocal relations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Ids, Triples

Keys = npt.NDArray[np.int64]
_Value = TypeVar("_Value", np.int32, np.float32)


def with_reciprocals(triples: Triples, relations: int) -> Triples:
    """Return all (h, r, t), followed by all (t, r + relations, h)."""
    return triples + Triples(
        triples.tails,
        triples.relations + np.int32(relations),
        triples.heads,
        weights=triples.weights,
    )


@dataclass(frozen=True)
class KnownAnswers:
    """The tails of all queries of facts in CSR form."""

    keys: Keys  # distinct queries, sorted
    start: npt.NDArray[np.int64]
    tails: Ids
    relations: int

    @classmethod
    def of(cls, facts: Triples) -> KnownAnswers:
        """Return the answers of facts; duplicates count once."""
        import torch  # noqa: PLC0415  (slow to import; its radix sort takes a quarter of NumPy's)

        relations = int(facts.relations.max(initial=0)) + 1
        keys = torch.from_numpy(query_keys(facts.heads, facts.relations, relations))
        tails, order = torch.from_numpy(facts.tails.copy()).sort(stable=True)
        keys, order = keys[order].sort(stable=True)
        tails = tails[order]
        is_new = torch.ones(len(keys), dtype=torch.bool)
        is_new[1:] = (keys[1:] != keys[:-1]) | (tails[1:] != tails[:-1])
        queries, counts = torch.unique_consecutive(keys[is_new], return_counts=True)
        start = np.append(0, counts.cumsum(0).numpy())
        return cls(queries.numpy(), start, tails[is_new].numpy(), relations)

    def of_queries(
        self, heads: npt.NDArray[np.integer], relations: npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.int64], Ids]:
        """Return the known tails of queries as (row of the query, tail)."""
        if not len(self.keys):
            return np.zeros(0, np.int64), self.tails[:0]
        keys = query_keys(heads, relations, self.relations)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        # A relation without facts has the key of another query.
        is_known = (self.keys[index] == keys) & (relations < self.relations)
        begin = np.where(is_known, self.start[index], 0)
        count = np.where(is_known, self.start[index + 1] - self.start[index], 0)
        return expand(begin, count, self.tails)


def query_keys(
    heads: npt.NDArray[np.integer], relations: npt.NDArray[np.integer], count: int
) -> Keys:
    """Return one 64-bit key (B,) per query.

    Args:
        heads: entity ids (B,).
        relations: relation ids (B,).
        count: the number of relations.
    """
    return heads.astype(np.int64) * count + relations


def expand(
    begin: npt.NDArray[np.int64], count: npt.NDArray[np.int64], values: npt.NDArray[_Value]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[_Value]]:
    """Expand ranges of values.

    Args:
        begin: the first index (n,) of each range.
        count: the length (n,) of each range.
        values: the values.

    Returns:
        The row of each element, and values[begin[i] : begin[i] + count[i]] of all rows i.

    >>> rows, values = expand(np.array([1, 0]), np.array([2, 1]), np.array([7, 8, 9], np.int32))
    >>> rows.tolist(), values.tolist()
    ([0, 0, 1], [8, 9, 7])
    """
    shift = np.repeat(begin - (np.cumsum(count) - count), count)
    return np.repeat(np.arange(len(count)), count), values[shift + np.arange(len(shift))]
