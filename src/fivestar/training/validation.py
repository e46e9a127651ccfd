"""Validation: hold out triples where a graph has none, rank them, calibrate probabilities."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fivestar.errors import SplitImpossible
from fivestar.evaluation.calibration import MAX_TRIPLES, calibrate
from fivestar.evaluation.ranking import Progress
from fivestar.evaluation.report import evaluate
from fivestar.evaluation.sampling import sample_triples
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.splitting import hold_out_validation
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.runs.run import read_begun_run

Stage = Literal["validation", "calibration", "refit"]
# Called with the stage, and how much of it is done: (queries, queries in all) of a validation or a
# calibration, and once with (0, epochs) when a refit begins. It must not raise Paused.
StageCallback = Callable[[Stage, int, int], None]


class Validation:
    """The validation triples of a graph, as a run ranks them.

    Args:
        graph: the graph; the facts of all its splits are filtered out of the rankings.
        queries: number of queries to rank, two per triple; 0: all. A sample is the same for
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
        return ranked.metrics()

    def calibrate(self, model: Model) -> dict[str, Any]:
        """Return the calibration of a model's probabilities, as JSON."""
        most = min(MAX_TRIPLES, len(self.triples))
        progress = self._progress("calibration")
        return calibrate(model, self.graph, most=most, progress=progress).as_json()

    def size(self) -> dict[str, int]:
        """Return the number of validation triples, and of those that are ranked."""
        return {"triples": len(self.graph.valid), "ranked": len(self.triples)}

    def _progress(self, stage: Stage) -> Progress | None:
        on_stage = self.on_stage
        if on_stage is None:
            return None
        return lambda done, total: on_stage(stage, done, total)


_WITHOUT_VALIDATION = (
    "there is no early stopping, the last epoch is kept instead of the best one, and answers have "
    "no calibrated probabilities"
)


class WithValidation(NamedTuple):
    """A graph to train on, the number of facts held out, and a warning or ""."""

    graph: KnowledgeGraph
    held_out: int = 0
    warning: str = ""


def with_validation(
    graph: KnowledgeGraph,
    valid: float | None = None,
    source: str | os.PathLike[str] | None = None,
) -> WithValidation:
    """Hold out validation facts where a graph has none.

    Args:
        graph: the graph to train on.
        valid: a share or a number of facts, 0 for none; by default as `hold_out_validation` does.
        source: folder of the run that training starts from. Its training facts are not held out,
            because the model has seen them.

    Raises:
        SettingsError: if the graph has validation facts of its own and `valid` is given.
        SplitImpossible: if `valid` is given and no fact can be held out.
    """
    if not len(graph.train):
        return WithValidation(graph)  # training raises an error
    trained = None if source is None else _trained_facts(Path(source), graph)
    if len(graph.valid) and valid is None:
        return WithValidation(graph, warning=_leak(graph, trained))
    if valid == 0 and not len(graph.valid):
        return WithValidation(graph, warning=f"training without validation: {_WITHOUT_VALIDATION}")
    try:
        parts = hold_out_validation(graph, valid, trained=trained)
    except SplitImpossible as error:
        if valid is not None:
            raise
        return WithValidation(
            graph, warning=f"{error}. In a training without validation {_WITHOUT_VALIDATION}"
        )
    return WithValidation(parts, len(parts.valid))


def _trained_facts(run: Path, graph: KnowledgeGraph) -> Triples:
    """Return the training facts of a run, with the ids of another graph."""
    known, settings = read_begun_run(run)
    trained = known.train + known.valid if settings.training.refit else known.train
    return known.translated(trained, graph)


def _leak(graph: KnowledgeGraph, trained: Triples | None) -> str:
    """Return a warning if the run to start from was trained on validation facts, else ""."""
    if trained is None:
        return ""
    known = graph.valid.are_in(trained) & ~graph.valid.are_in(graph.train)
    if not known.any():
        return ""
    return (
        f"{known.sum():,} of {len(known):,} validation facts were trained on by the run that this "
        "one starts from, so the validation metrics are too high"
    )
