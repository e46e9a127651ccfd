"""Which relation holds between two entities: the rank of the true one among all relations."""

from __future__ import annotations

import numpy as np

from fivestar.evaluation.ranking import Ranks, SelfCandidate, check_no_nan
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import triple_scores

_SCORES_AT_ONCE = 1 << 20


def rank_relations(model: Model, graph: KnowledgeGraph, triples: Triples) -> Ranks:
    """Filtered ranks of the relations of these triples, line by line."""
    relations = len(graph.relations)
    # A fact (h, r, t) answers the query (h, t) with r.
    turned = _turned(graph.facts + triples)
    known = KnownAnswers.of(turned)
    found = np.empty((3, len(triples)), np.int64)
    size = max(1, _SCORES_AT_ONCE // relations)
    for first in range(0, len(triples), size):
        some = triples.take(np.arange(first, min(first + size, len(triples))))
        scores = _scores(model, some, relations)
        check_no_nan(scores)
        rows = np.arange(len(some))
        goal = scores[rows, some.relations][:, None]
        row, answer = known.of_queries(some.heads, some.tails)
        scores[row, answer] = np.nan
        above, level = (scores > goal).sum(axis=1), (scores == goal).sum(axis=1)
        rivals = relations - np.bincount(row, minlength=len(some))
        found[:, first : first + len(some)] = above + 1, above + level + 1, rivals + 1
    # The candidates are relations, so the query has no entity of its own among them.
    excluded = np.full(len(triples), SelfCandidate.EXCLUDED, np.int8)
    return Ranks(found[0], found[1], found[2], excluded)


def _turned(triples: Triples) -> Triples:
    return Triples(triples.heads, triples.tails, triples.relations)


def _scores(
    model: Model, triples: Triples, relations: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The scores (T, R) of all relations between the two entities of each triple."""
    every = Triples(
        np.repeat(triples.heads, relations),
        np.tile(np.arange(relations, dtype=np.int32), len(triples)),
        np.repeat(triples.tails, relations),
    )
    return triple_scores(model, every, relations).reshape(len(triples), relations)
