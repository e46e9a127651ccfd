"""Evaluate a trained model on a split: link prediction, triple classification, relations."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from fivestar.errors import GraphWarning, SettingsError
from fivestar.evaluation import report
from fivestar.evaluation.classification import classify
from fivestar.evaluation.metrics import HITS, rank_metrics
from fivestar.evaluation.ranking import Progress, default_score_bytes, score_bytes_within
from fivestar.evaluation.relation_ranking import rank_relations
from fivestar.evaluation.report import Grouping
from fivestar.evaluation.sampling import MIN_QUERIES, sample_triples, sampled_intervals
from fivestar.graph.choices import CandidateChoice
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.reading import read_graph
from fivestar.graph.triples import Triples
from fivestar.notebook import html_table
from fivestar.prediction.predictions import (
    Split,
)
from fivestar.runs.run import Run

Task = Literal["links", "classification", "relations"]
_REFIT = (
    "this model was refit on its validation triples, so its metrics on them are too high; "
    "metrics.json has those measured before the refit"
)


# Metrics that are not printed, only in the dictionary.
_DETAILS = ("_without_self", "_optimistic", "_pessimistic", "_rate", "_threshold")


class Metrics(dict[str, Any]):
    """Metrics by name; groups of triples are nested dictionaries. A table in notebooks."""

    def __repr__(self) -> str:
        return ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.4f}"
            for name, value in self._numbers(self).items()
            if not name.endswith(_DETAILS)
        )

    def _repr_html_(self) -> str:
        groups = {"all": self, **{k: v for k, v in self.items() if k in ("heads", "tails")}}
        for name, value in self.items():
            if name.startswith("by_"):
                groups |= value
        columns = list(self._numbers(self))
        rows = [
            [name, *(f"{values[key]:.4f}" if key in values else "" for key in columns)]
            for name, values in groups.items()
        ]
        return html_table(["", *columns], rows)

    @staticmethod
    def _numbers(values: dict[str, Any]) -> dict[str, float]:
        return {k: v for k, v in values.items() if isinstance(v, int | float)}


def evaluate(  # noqa: PLR0913
    run: Run,
    split: Split = "test",
    *,
    by: Grouping | None = None,
    task: Task = "links",
    hits: tuple[int, ...] = HITS,
    graph: Any = None,
    memory: str | None = None,
    sampled: int = 0,
    candidates: CandidateChoice = "all",
    progress: Progress | None = None,
) -> Metrics:
    """Rank the triples of a split among all entities; see `TrainedModel.evaluate`."""
    score_bytes = default_score_bytes(run.model)
    if memory is not None:
        score_bytes = score_bytes_within(memory, run.model, 2 * len(run.graph.facts))
    triples, known = run.graph.split(split), None
    if graph is not None:
        triples, known = _of_other_graph(run.graph, graph, split)
    if not len(triples):
        raise SettingsError(f"there are no {split} triples to rank; choose another split")
    if run.is_refit and (split == "valid" or task == "classification"):
        warnings.warn(_REFIT, GraphWarning, stacklevel=3)
    if task == "links":
        sample = _sample(triples, sampled)
        ranked = report.evaluate(
            run.model, run.graph, sample, known, score_bytes, progress, candidates
        )
        result = Metrics(ranked.metrics(hits))
        if sampled:
            result["sampled"] = sampled_intervals(ranked, len(triples), hits)
        if by is not None:
            result[f"by_{by}"] = ranked.by_group(run.graph, by, hits)
        return result
    if graph is not None or by is not None or sampled or candidates != "all":
        raise SettingsError(f"graph, by, sampled and candidates need the task links, not {task}")
    if task == "classification":
        return Metrics(classify(run.model, run.graph))
    return Metrics(rank_metrics(rank_relations(run.model, run.graph, triples), hits))


def _sample(triples: Triples, queries: int) -> Triples:
    """Return the triples of a sample of queries; 0: all."""
    if queries and queries < MIN_QUERIES:
        raise SettingsError(
            f"sampled is {queries}, but the interval of an estimate needs at least {MIN_QUERIES} "
            "queries"
        )
    return sample_triples(triples, queries)


def _of_other_graph(
    graph: KnowledgeGraph, source: Any, split: Split
) -> tuple[Triples, KnownAnswers]:
    """Return the triples of another graph in the ids of this one, and the known answers of both."""
    other = source if isinstance(source, KnowledgeGraph) else read_graph(source)
    theirs = other.split(split)
    triples = other.translated(theirs, graph)
    if len(triples) < len(theirs):
        warnings.warn(
            f"{len(theirs) - len(triples):,} of {len(theirs):,} {split} triples of {other.name} "
            "have names that are not in the model; skipping them",
            GraphWarning,
            stacklevel=4,
        )
    every = graph.facts + other.translated(other.facts, graph)
    return triples, KnownAnswers.of(with_reciprocals(every, len(graph.relations)))
