"""Relation prediction: the rank of the true relation of (h, ?, t) among all relations."""

from __future__ import annotations

import numpy as np

from fivestar.evaluation.ranking import check_no_nan
from fivestar.evaluation.ranks import Ranks, SelfCandidate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import triple_scores

_MAX_SCORES = 1 << 20


def rank_relations(model: Model, graph: KnowledgeGraph, triples: Triples) -> Ranks:
    """Return the filtered rank of the relation of each triple.

    Args:
        model: the model.
        graph: its graph; all its facts are filtered out.
        triples: T triples.

    Raises:
        NonFiniteScore: if a score is NaN.
    """
    relations = len(graph.relations)
    # A fact (h, r, t) answers the query (h, t) with r.
    known = KnownAnswers.of(_relations_as_tails(graph.facts + triples))
    ranks = np.empty((3, len(triples)), np.int64)
    size = max(1, _MAX_SCORES // relations)
    for first in range(0, len(triples), size):
        batch = triples.take(np.arange(first, min(first + size, len(triples))))
        scores = _scores(model, batch, relations)
        check_no_nan(scores)
        rows = np.arange(len(batch))
        target = scores[rows, batch.relations][:, None]
        row, answer = known.of_queries(batch.heads, batch.tails)
        scores[row, answer] = np.nan
        above, tied = (scores > target).sum(axis=1), (scores == target).sum(axis=1)
        others = relations - np.bincount(row, minlength=len(batch))
        ranks[:, first : first + len(batch)] = above + 1, above + tied + 1, others + 1
    # The candidates are relations, so the query's entities are not among them.
    excluded = np.full(len(triples), SelfCandidate.EXCLUDED, np.int8)
    return Ranks(ranks[0], ranks[1], ranks[2], excluded)


def _relations_as_tails(triples: Triples) -> Triples:
    return Triples(triples.heads, triples.tails, triples.relations)


def _scores(
    model: Model, triples: Triples, relations: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the scores (T, R) of all relations between the two entities of each triple."""
    every = Triples(
        np.repeat(triples.heads, relations),
        np.tile(np.arange(relations, dtype=np.int32), len(triples)),
        np.repeat(triples.tails, relations),
    )
    return triple_scores(model, every, relations).reshape(len(triples), relations)
