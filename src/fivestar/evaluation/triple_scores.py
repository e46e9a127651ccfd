"""Scores of triples, averaged over both sides where a model has reciprocal relations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fivestar.graph.queries import Queries
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import has_reciprocals, score_answers

_BATCH_SIZE = 4096


def triple_scores(model: Model, triples: Triples, num_relations: int) -> npt.NDArray[np.float32]:
    """Return the score (T,) of each triple.

    Args:
        model: the model.
        triples: T triples.
        num_relations: number of relations of the graph, without reciprocals.

    Returns:
        The score of (h, r, t); if the model has reciprocal relations, its mean with the score of
        (t, r⁻¹, h).
    """
    scores = [np.zeros(0, np.float32)]
    for first in range(0, len(triples), _BATCH_SIZE):
        batch = triples.take(np.arange(first, min(first + _BATCH_SIZE, len(triples))))
        queries = Queries.for_tails(batch.heads, batch.relations, num_relations)
        score = score_answers(model, queries, batch.tails)
        if has_reciprocals(model, num_relations):
            queries = Queries.for_heads(batch.tails, batch.relations, num_relations)
            score = (score + score_answers(model, queries, batch.heads)) / 2
        scores.append(score.cpu().numpy())
    return np.concatenate(scores)
