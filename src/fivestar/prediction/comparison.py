"""Compare two models on facts that both have held out: metrics, and where they disagree most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fivestar.cancellation import check_cancelled
from fivestar.errors import GraphError
from fivestar.evaluation.metrics import Difference, mrr_difference
from fivestar.evaluation.report import Evaluation, evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.runs.run import Run

HeldOutSplit = Literal["test", "valid"]
Side = Literal["tails", "heads"]
HITS = (1, 10)


@dataclass(frozen=True)
class RankedQuery:
    """A query whose answer two models rank differently.

    Attributes:
        row: the triple, as an index into those of the comparison.
        side: the missing side of the triple.
        ranks: realistic filtered ranks of the true answer by both models.
        difference: difference of the reciprocal ranks, first minus second.
    """

    row: int
    side: Side
    ranks: tuple[float, float]
    difference: float


@dataclass(frozen=True)
class Comparison:
    """The ranks of two models on the same held-out facts.

    Attributes:
        split: the split of the first model that the facts are from.
        num_held_out: number of facts of that split that both models have held out.
        triples: the ranked facts, in the ids of the first model; a sample if there are too many.
        evaluations: the ranks by both models, in the order of `triples`.
    """

    split: HeldOutSplit
    num_held_out: int
    triples: Triples
    evaluations: tuple[Evaluation, Evaluation]

    def metrics(self, rows: npt.NDArray[np.bool_] | None = None) -> list[dict[str, float]]:
        """Return MRR and hits@k of both models, of all facts or of the marked ones."""
        metrics = []
        for evaluation in self.evaluations:
            ranks = np.concatenate(
                [
                    each.realistic if rows is None else each.realistic[rows]
                    for each in (evaluation.tail_ranks, evaluation.head_ranks)
                ]
            )
            hits = {f"hits@{k}": float((ranks <= k).mean()) for k in HITS}
            metrics.append({"mrr": float((1 / ranks).mean()), **hits})
        return metrics

    def difference(self) -> Difference:
        """Return the difference of the MRR, by a paired bootstrap over the facts."""
        first, second = (
            (1 / each.tail_ranks.realistic + 1 / each.head_ranks.realistic)[None] / 2
            for each in self.evaluations
        )
        return mrr_difference(first, second)

    def disagreements(self, limit: int) -> list[RankedQuery]:
        """Return the queries with the largest difference of reciprocal ranks, largest first."""
        ranks = np.array(
            [
                np.concatenate([each.tail_ranks.realistic, each.head_ranks.realistic])
                for each in self.evaluations
            ]
        )
        gaps = 1 / ranks[0] - 1 / ranks[1]
        order = np.argsort(-np.abs(gaps), kind="stable")[:limit]
        count = len(self.triples)
        return [
            RankedQuery(
                int(at % count),
                "tails" if at < count else "heads",
                (float(ranks[0, at]), float(ranks[1, at])),
                float(gaps[at]),
            )
            for at in order
            if gaps[at] != 0
        ]


def compare_runs(first: Run, second: Run, max_triples: int) -> Comparison:
    """Rank the same held-out facts by two models.

    The facts are those of the test split of the first model (valid, if there are none) that the
    second one knows the names of and has not been trained on. Each model filters the other answers
    that its own graph knows.

    Args:
        first: a model.
        second: another one, of the same graph or of one with the same names.
        max_triples: number of facts that are ranked; of more, a random sample, always the same.

    Raises:
        GraphError: if no fact is held out by both.
    """
    for split in ("test", "valid"):
        own, other = _held_out_by_both(first, second, split)
        if len(own):
            break
    else:
        raise GraphError(
            "no fact is held out by both runs: compare runs of the same graph, with the same "
            "valid and test splits"
        )
    rows = np.sort(np.random.default_rng(0).permutation(len(own))[:max_triples])
    evaluations = tuple(
        evaluate(run.model, run.graph, triples.take(rows), progress=lambda *_: check_cancelled())
        for run, triples in ((first, own), (second, other))
    )
    return Comparison(split, len(own), own.take(rows), (evaluations[0], evaluations[1]))


def _held_out_by_both(first: Run, second: Run, split: HeldOutSplit) -> tuple[Triples, Triples]:
    """Return the facts of a split that neither model was trained on, in the ids of each."""
    own = first.graph.split(split).distinct()
    own = own.take(~own.are_in(_trained_on(first)))
    translated = _ids_in(first.graph, second.graph, own)
    known = np.all(translated >= 0, axis=1)
    own, other = own.take(known), Triples.of(translated[known])
    kept = ~other.are_in(_trained_on(second))
    return own.take(kept), other.take(kept)


def _ids_in(
    graph: KnowledgeGraph, other: KnowledgeGraph, triples: Triples
) -> npt.NDArray[np.int32]:
    """Return the ids (n, 3) of triples in another graph; −1 for names that it lacks."""
    entities = graph.entities.ids_in(other.entities)
    relations = graph.relations.ids_in(other.relations)
    columns = [entities[triples.heads], relations[triples.relations], entities[triples.tails]]
    return np.stack(columns, axis=1)


def _trained_on(run: Run) -> Triples:
    return run.graph.train + run.graph.valid if run.is_refit else run.graph.train
