"""Estimates of the work of requests, in multiply-adds, before they run.

They are rough (within a small factor), but do not depend on the load of the machine: a request is
accepted today if it was accepted yesterday.
"""

from __future__ import annotations

from fivestar.models.scoring import has_reciprocals
from fivestar.models.similarity import Biased, InnerProduct
from fivestar.prediction.predictions import QueryIds
from fivestar.prediction.trained_model import TrainedModel

# A distance is computed element by element, several times slower than a matrix product.
_ELEMENTWISE = 8
# Multiply-adds per entry of an embedding to transform it by a relation.
_TRANSFORM = 16
# Finding, naming and writing an answer takes about 5 µs.
_ANSWER = 50_000


class CostModel:
    """Estimates the work of queries to one model."""

    def __init__(self, trained: TrainedModel) -> None:
        model, graph = trained.model, trained.graph
        num_entities, dim = model.candidates().shape
        similarity = model.similarity
        inner = similarity.inner if isinstance(similarity, Biased) else similarity
        factor = 1 if isinstance(inner, InnerProduct) else _ELEMENTWISE
        self._num_relations = len(graph.relations)
        self._num_facts = sum(map(len, graph.splits.values()))
        self._transform = _TRANSFORM * max(dim, model.entities.shape[1])
        self.tail = float(num_entities * dim * factor)
        self.head = self.tail
        if not has_reciprocals(model, self._num_relations):
            self.head += num_entities * self._transform  # exhaustive head scoring

    def of(self, query: QueryIds, top: int) -> float:
        """Return the work of a query, whose missing part is −1, for `top` answers."""
        head, relation, _ = query
        if relation < 0:
            answers = min(top, self._num_relations)
            scores = self._num_relations * self._transform + self._num_facts
            return scores + answers * (self.tail + self.head + _ANSWER)
        return (self.head if head < 0 else self.tail) + top * _ANSWER
