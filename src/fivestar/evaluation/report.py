"""All metrics of a model on one split of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.metrics import HITS, mrr_interval, rank_metrics, self_answer_metrics
from fivestar.evaluation.ranking import Progress, default_score_bytes, rank_answers_twice
from fivestar.evaluation.ranks import Ranks
from fivestar.graph.choices import CandidateChoice
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Side, both_sides
from fivestar.graph.relation_candidates import candidates_of
from fivestar.graph.statistics import relation_profiles
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import has_reciprocals

Grouping = Literal["relation", "side", "category", "seen"]


@dataclass(frozen=True)
class RanksAmong:
    """Ranks among the candidates of each relation only, beside those among all entities.

    `outside` are the true answers of tail and head queries that are no candidates: they are ranked
    among the candidates nevertheless, so no query is easier for missing its answer.
    """

    candidates: CandidateChoice
    head_ranks: Ranks
    tail_ranks: Ranks
    outside: int

    def metrics(self, hits: tuple[int, ...] = HITS) -> dict[str, Any]:
        """Return the metrics of both sides together, and of each side below `heads` and `tails`."""
        both = self.tail_ranks + self.head_ranks
        return {
            "candidates": self.candidates,
            **rank_metrics(both, hits),
            "mean_candidates": float(both.candidates.mean()),
            "outside": self.outside,
            "heads": rank_metrics(self.head_ranks, hits),
            "tails": rank_metrics(self.tail_ranks, hits),
        }


@dataclass(frozen=True)
class Evaluation:
    """The ranks of the heads and tails of a split, and their metrics.

    `self_hidden` marks the triples whose relation does not allow self-answers: there predictions
    omit the query's own entity, while the standard protocol ranks it like any other.
    """

    triples: Triples
    head_ranks: Ranks
    tail_ranks: Ranks
    self_hidden: npt.NDArray[np.bool_]
    heads_by: Literal["reciprocal relations", "exhaustive scoring"] = "reciprocal relations"
    among: RanksAmong | None = None

    def metrics(self, hits: tuple[int, ...] = HITS) -> dict[str, Any]:
        """Return the metrics of both sides together, and of each side below `heads` and `tails`."""
        every = np.ones(len(self.triples), bool)
        return {
            **self._metrics(every, hits),
            "mrr_95": list(mrr_interval(self.tail_ranks + self.head_ranks)),
            **self._sides(hits),
            "heads_by": self.heads_by,
            **({} if self.among is None else {"among": self.among.metrics(hits)}),
        }

    def by_group(
        self, graph: KnowledgeGraph, by: Grouping, hits: tuple[int, ...] = HITS
    ) -> dict[str, dict[str, float]]:
        """Return the metrics of each group of triples, both sides together, or of each side."""
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
        return rank_metrics(ranks, hits) | self_answer_metrics(ranks, hidden, hits)

    def _sides(self, hits: tuple[int, ...]) -> dict[str, dict[str, float]]:
        """Return the metrics of head and tail queries."""
        return {
            side: rank_metrics(ranks, hits) | self_answer_metrics(ranks, self.self_hidden, hits)
            for side, ranks in (("heads", self.head_ranks), ("tails", self.tail_ranks))
        }


def groups_of(
    graph: KnowledgeGraph, triples: Triples, by: Literal["relation", "category", "seen"]
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return a mask of triples per relation, per category of relations, or per seen and unseen."""
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
    in_train = np.zeros(len(graph.entities), bool)
    in_train[graph.train.heads] = in_train[graph.train.tails] = True
    seen = in_train[triples.heads] & in_train[triples.tails]
    return {"seen": seen, "unseen": ~seen}


def evaluate(
    model: Model,
    graph: KnowledgeGraph,
    triples: Triples,
    known: KnownAnswers | None = None,
    score_bytes: int | None = None,
    progress: Progress | None = None,
    candidates: CandidateChoice = "all",
) -> Evaluation:
    """Rank the tail and the head of each triple.

    Args:
        model: the model.
        graph: its graph.
        triples: the triples to rank.
        known: known answers to filter out; by default those of all splits and of `triples`.
        score_bytes: bytes of scores held at once; by default `default_score_bytes`.
        progress: called with (queries done, number of queries).
        candidates: also rank among the "observed" candidates of each relation, or those of the
            same "types", as in `RelationCandidates`.

    Returns:
        The ranks, in the order of the triples.

    Raises:
        NonFiniteScore: if a score is NaN.
    """
    relations = len(graph.relations)
    if known is None:
        known = KnownAnswers.of(with_reciprocals(graph.facts + triples, relations))
    queries, answers = both_sides(triples, relations)
    chosen = candidates_of(graph, candidates)
    score_bytes = score_bytes or default_score_bytes(model)
    ranks, among = rank_answers_twice(model, queries, answers, known, chosen, score_bytes, progress)
    is_head = queries.side == Side.HEAD
    ranks_among = None
    if chosen is not None and among is not None:
        outside = ~chosen.contain(queries.reciprocal_relation, answers)
        ranks_among = RanksAmong(
            candidates, among.take(is_head), among.take(~is_head), int(outside.sum())
        )
    return Evaluation(
        triples,
        head_ranks=ranks.take(is_head),
        tail_ranks=ranks.take(~is_head),
        self_hidden=~graph.allows_self_answers[triples.relations],
        heads_by=(
            "reciprocal relations" if has_reciprocals(model, relations) else "exhaustive scoring"
        ),
        among=ranks_among,
    )
