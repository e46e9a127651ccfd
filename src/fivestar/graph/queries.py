"""Queries for one side of triples: (h, r, ?) asks for tails, (?, r, t) for heads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Triples

Ids = npt.NDArray[np.int64]


class Side(IntEnum):
    """The side of a triple that a query asks for."""

    TAIL = 0
    HEAD = 1


@dataclass(frozen=True)
class Queries:
    """The given entity and relation of each query, and the side that it asks for.

    Args:
        entity: (B,) the given head of a tail query, the given tail of a head query.
        relation: (B,) ids below `num_relations`.
        side: (B,) a `Side` per query.
        num_relations: number of relations of the graph, without reciprocals.

    >>> queries = Queries.for_heads(np.array([5, 6]), np.array([0, 1]), num_relations=3)
    >>> queries.reciprocal_relation.tolist()
    [3, 4]
    """

    entity: Ids
    relation: Ids
    side: npt.NDArray[np.int8]
    num_relations: int

    @classmethod
    def for_tails(
        cls,
        heads: npt.NDArray[np.integer],
        relations: npt.NDArray[np.integer],
        num_relations: int,
    ) -> Queries:
        """Return the queries (h, r, ?)."""
        return cls._one_side(heads, relations, Side.TAIL, num_relations)

    @classmethod
    def for_heads(
        cls,
        tails: npt.NDArray[np.integer],
        relations: npt.NDArray[np.integer],
        num_relations: int,
    ) -> Queries:
        """Return the queries (?, r, t)."""
        return cls._one_side(tails, relations, Side.HEAD, num_relations)

    @classmethod
    def _one_side(
        cls,
        entities: npt.NDArray[np.integer],
        relations: npt.NDArray[np.integer],
        side: Side,
        num_relations: int,
    ) -> Queries:
        entity, relation = (np.asarray(ids, dtype=np.int64) for ids in (entities, relations))
        return cls(entity, relation, np.full(len(entity), side, np.int8), num_relations)

    def __len__(self) -> int:
        return len(self.entity)

    def __getitem__(self, rows: slice | npt.NDArray[np.integer | np.bool_]) -> Queries:
        return Queries(self.entity[rows], self.relation[rows], self.side[rows], self.num_relations)

    def __add__(self, other: Queries) -> Queries:
        return Queries(
            np.concatenate([self.entity, other.entity]),
            np.concatenate([self.relation, other.relation]),
            np.concatenate([self.side, other.side]),
            self.num_relations,
        )

    @property
    def reciprocal_relation(self) -> Ids:
        """Return the relation id of each query as a tail query, (t, r⁻¹, ?) for (?, r, t).

        The reciprocal of relation r has the id r + `num_relations`, as in `with_reciprocals`.
        """
        return self.relation + self.side.astype(np.int64) * self.num_relations


def both_sides(triples: Triples, num_relations: int) -> tuple[Queries, Ids]:
    """Return the tail queries of triples, then their head queries, and the answer of each.

    >>> queries, answers = both_sides(Triples.of([(0, 1, 2)]), num_relations=4)
    >>> queries.entity.tolist(), queries.side.tolist(), answers.tolist()
    ([0, 2], [0, 1], [2, 0])
    """
    queries = Queries.for_tails(triples.heads, triples.relations, num_relations)
    queries += Queries.for_heads(triples.tails, triples.relations, num_relations)
    return queries, np.concatenate([triples.tails, triples.heads]).astype(np.int64)
