"""Plausible answers of a relation: those seen on that side of it, or entities of the same types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from fivestar.errors import SettingsError
from fivestar.graph.choices import CandidateChoice
from fivestar.graph.knowledge_graph import EntityTypes, KnowledgeGraph
from fivestar.graph.queries import Queries
from fivestar.graph.triples import Ids, Triples

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RelationCandidates:
    """The candidates of tail queries, then of head queries, of each relation.

    `ids[start[r] : start[r + 1]]` are those of the side relation r, in ascending order: r for
    (h, r, ?), r + number of relations for (?, r, t).
    """

    start: npt.NDArray[np.int64]
    ids: Ids
    num_entities: int

    @classmethod
    def of(
        cls,
        choice: Literal["observed", "types"],
        facts: Triples,
        graph: KnowledgeGraph,
    ) -> RelationCandidates:
        """Return the candidates of all relations of a graph.

        Args:
            choice: "observed" for the entities that facts have on that side of the relation,
                "types" for these and all entities that share a type with one of them.
            facts: training facts.
            graph: the graph, which has the types.

        Raises:
            GraphError: if types are needed and the graph has none.
        """
        num_entities, num_relations = len(graph.entities), len(graph.relations)
        sides = np.concatenate([facts.relations, facts.relations + np.int32(num_relations)])
        keys = sides.astype(np.int64) * num_entities + np.concatenate([facts.tails, facts.heads])
        keys = np.unique(keys)
        if choice == "types":
            keys = _with_same_types(keys, graph.required_types(), num_entities)
        side, ids = np.divmod(keys, num_entities)
        start = np.searchsorted(side, np.arange(2 * num_relations + 1))
        return cls(start, ids.astype(np.int32), num_entities)

    def mask(self, side_relation: int) -> Mask:
        """Return a mask (num_entities,) of the candidates of a side relation."""
        mask = np.zeros(self.num_entities, bool)
        mask[self.ids[self.start[side_relation] : self.start[side_relation + 1]]] = True
        return mask

    def contain(
        self, side_relations: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]
    ) -> Mask:
        """Return which entities (n) are candidates of the side relations (n)."""
        keys = side_relations.astype(np.int64) * self.num_entities + entities
        sides = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        return np.isin(keys, sides * self.num_entities + self.ids)

    def by_relation(self, queries: Queries) -> list[tuple[npt.NDArray[np.int64], Mask]]:
        """Return the rows of the queries of each side relation, with the mask of its candidates."""
        sides = queries.reciprocal_relation
        return [(np.flatnonzero(sides == side), self.mask(int(side))) for side in np.unique(sides)]


def candidates_of(graph: KnowledgeGraph, choice: CandidateChoice) -> RelationCandidates | None:
    """Return the candidates by the training facts of a graph; None for all entities.

    Raises:
        SettingsError: if there is no such choice.
        GraphError: if types are needed and the graph has none.
    """
    if choice not in get_args(CandidateChoice):
        raise SettingsError(f"candidates must be all, observed or types, not {choice!r}")
    return None if choice == "all" else RelationCandidates.of(choice, graph.train, graph)


def _with_same_types(
    keys: npt.NDArray[np.int64], types: EntityTypes, num_entities: int
) -> npt.NDArray[np.int64]:
    """Return the keys (side relation, entity) with all entities that share a type with one."""
    start = np.searchsorted(types.entities, np.arange(num_entities + 1))
    by_type = np.argsort(types.types, kind="stable")
    type_start = np.searchsorted(types.types[by_type], np.arange(len(types.vocabulary) + 1))
    side, entity = np.divmod(keys, num_entities)
    found = [keys]
    for number in np.unique(side):
        mine = entity[side == number]
        kinds = np.unique(np.concatenate([types.types[start[e] : start[e + 1]] for e in mine]))
        members = [types.entities[by_type[type_start[t] : type_start[t + 1]]] for t in kinds]
        same = np.unique(np.concatenate([*members, types.entities[:0]]))
        found.append(number * num_entities + same)
    return np.unique(np.concatenate(found))
