"""All figures of a model on one split of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.metrics import HITS, metrics, mrr_interval, self_answer_metrics
from fivestar.evaluation.ranking import SCORE_BYTES, Progress, Ranks, rank_answers
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Side, both_sides
from fivestar.graph.statistics import relation_profiles
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import has_reciprocals

Grouping = Literal["relation", "side", "category", "seen"]


@dataclass(frozen=True)
class Evaluation:
    """The ranks of the heads and tails of a split, and the figures they give.

    `self_hidden` marks the triples whose relation does not allow self-answers: there predictions
    leave the query's own entity out, while the standard protocol ranks it like any other.
    """

    triples: Triples
    head_ranks: Ranks
    tail_ranks: Ranks
    self_hidden: npt.NDArray[np.bool_]
    heads_by: Literal["reciprocal relations", "moving every entity"] = "reciprocal relations"

    def figures(self, hits: tuple[int, ...] = HITS) -> dict[str, Any]:
        """Both sides together at the top, each side beside them."""
        every = np.ones(len(self.triples), bool)
        return {
            **self._metrics(every, hits),
            "mrr_95": list(mrr_interval(self.tail_ranks + self.head_ranks)),
            **self._sides(hits),
            "heads_by": self.heads_by,
        }

    def apart(
        self, graph: KnowledgeGraph, by: Grouping, hits: tuple[int, ...] = HITS
    ) -> dict[str, dict[str, float]]:
        """The figures of each group of triples, both sides together, or of each side."""
        if by == "side":
            return self._sides(hits)
        return {
            name: self._metrics(rows, hits)
            for name, rows in groups_of(graph, self.triples, by).items()
        }

    def _metrics(self, rows: npt.NDArray[np.bool_], hits: tuple[int, ...]) -> dict[str, float]:
        """Return the metrics of some triples, both sides together."""
        ranks = self.tail_ranks.take(rows) + self.head_ranks.take(rows)
        hidden = np.tile(self.self_hidden[rows], 2)
        return metrics(ranks, hits) | self_answer_metrics(ranks, hidden, hits)

    def _sides(self, hits: tuple[int, ...]) -> dict[str, dict[str, float]]:
        """Return the metrics of head and tail queries."""
        return {
            side: metrics(ranks, hits) | self_answer_metrics(ranks, self.self_hidden, hits)
            for side, ranks in (("heads", self.head_ranks), ("tails", self.tail_ranks))
        }


def groups_of(
    graph: KnowledgeGraph, triples: Triples, by: Literal["relation", "category", "seen"]
) -> dict[str, npt.NDArray[np.bool_]]:
    """The triples by relation, by kind of relation, or by whether train shows all of them."""
    if by == "relation":
        return {
            graph.relations.name_of(int(number)): triples.relations == number
            for number in np.unique(triples.relations)
        }
    if by == "category":
        profiles = relation_profiles(graph)
        category = np.empty(len(graph.relations), object)
        category[graph.relations.ids_of([p.name for p in profiles])] = [
            p.category for p in profiles
        ]
        of_triple = category[triples.relations]
        return {str(mark): of_triple == mark for mark in sorted(set(of_triple))}
    known = np.zeros(len(graph.entities), bool)
    known[graph.train.heads] = known[graph.train.tails] = True
    seen = known[triples.heads] & known[triples.tails]
    return {"seen": seen, "unseen": ~seen}


def evaluate(
    model: Model,
    graph: KnowledgeGraph,
    triples: Triples,
    known: KnownAnswers | None = None,
    score_bytes: int = SCORE_BYTES,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank tails and heads of these triples, line by line.

    Filtered by all splits of the graph and these triples, or by the answers given in `known`.
    """
    relations = len(graph.relations)
    if known is None:
        known = KnownAnswers.of(with_reciprocals(graph.facts + triples, relations))
    queries, answers = both_sides(triples, relations)
    ranks = rank_answers(model, queries, answers, known, score_bytes, progress)
    return Evaluation(
        triples,
        head_ranks=ranks.take(queries.side == Side.HEAD),
        tail_ranks=ranks.take(queries.side == Side.TAIL),
        self_hidden=~graph.allows_self_answers[triples.relations],
        heads_by=(
            "reciprocal relations" if has_reciprocals(model, relations) else "moving every entity"
        ),
    )
