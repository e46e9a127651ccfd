"""Rank and calibrate on the validation triples, or on a fixed sample of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from fivestar.evaluation.calibration import MOST_FACTS, calibrate
from fivestar.evaluation.ranking import Progress
from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.models.base import Model

Stage = Literal["validation", "calibration", "refit"]
# Called with the stage, and how much of it is done: (queries, queries in all) of a validation or a
# calibration, and once with (0, epochs) when a refit begins. It must not raise Paused.
StageCallback = Callable[[Stage, int, int], None]


class Validation:
    """The validation triples of a graph, as a run ranks them.

    Args:
        graph: the graph; the facts of all its splits are filtered out of the rankings.
        queries: how many queries to rank, two per triple; 0 for all. A sample is the same for
            every run on the graph, so their metrics compare.
        score_bytes: bytes of scores held at once.
    """

    def __init__(self, graph: KnowledgeGraph, queries: int, score_bytes: int) -> None:
        self.graph = graph
        self.triples = sample_triples(graph.valid, queries)
        self.score_bytes = score_bytes
        self.on_stage: StageCallback | None = None
        self._known: KnownAnswers | None = None

    def __bool__(self) -> bool:
        return len(self.triples) > 0

    def rank(self, model: Model) -> dict[str, Any]:
        """Return the metrics of a model."""
        if self._known is None:
            facts = with_reciprocals(self.graph.facts, len(self.graph.relations))
            self._known = KnownAnswers.of(facts)
        progress = self._progress("validation")
        ranked = evaluate(model, self.graph, self.triples, self._known, self.score_bytes, progress)
        return ranked.figures()

    def calibrate(self, model: Model) -> dict[str, Any]:
        """Return the calibration of a model's probabilities, as JSON."""
        most = min(MOST_FACTS, len(self.triples))
        progress = self._progress("calibration")
        return calibrate(model, self.graph, most=most, progress=progress).as_json()

    def size(self) -> dict[str, int]:
        """Return how many validation triples there are, and how many are ranked."""
        return {"triples": len(self.graph.valid), "ranked": len(self.triples)}

    def _progress(self, stage: Stage) -> Progress | None:
        on_stage = self.on_stage
        if on_stage is None:
            return None
        return lambda done, total: on_stage(stage, done, total)


def sample_triples(triples: Triples, queries: int) -> Triples:
    """Return a fixed sample of triples that gives this many queries, two per triple; 0: all.

    >>> sample_triples(Triples.of([(0, 0, 1), (1, 0, 2), (2, 0, 3)]), queries=4)
    Triples(2)
    """
    size = -(-queries // 2) if queries else len(triples)
    if size >= len(triples):
        return triples
    rows = np.random.default_rng(0).permutation(len(triples))[:size]
    return triples.take(np.sort(rows))
