"""Can a model close a loop and leave the path beside it open?

Of a path beside a loop, (t₁₀, r₃, t₁) closes the loop: it should rank first, left and right, and
(h₁₀, r₃, h₁) and (h₁₀, r₁, h₁), which would close the path, far behind. Whether the paper trained
its models on the closing fact it does not say, so both are done:

held out: What is left are two paths that differ in nothing. With h ↔ t, r₁ ↔ r₃ and r₂ turned
round, the facts and their reciprocals are the same again. So over seeds the ranks of
(t₁₀, r₃, t₁) and of (h₁₀, r₁, h₁) have one distribution, for every model.

trained: The loop is closed; the question is what becomes of the path. A bijective model that fits
all facts exactly closes it too: M₁ = M₂⁻¹M₃M₂.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.ranking import rank_answers
from fivestar.experiments.structures import FIRST, SECOND, Numbers, side_by_side
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.runs.run import Run
from fivestar.training.loop import train

Closing = Literal["held out", "trained"]
CLOSINGS: tuple[Closing, ...] = get_args(Closing)
NODES = 10
CLOSES_LOOP = (2 * NODES - 1, SECOND, NODES)
# (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁).
CLOSE_PATH = ((NODES - 1, SECOND, 0), (NODES - 1, FIRST, 0))

# The five models of the paper; 5★E with both of its scores.
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {
    "TransE": {"name": "transe", "norm": "l2"},
    "RotatE": {"name": "rotate"},
    "ComplEx": {"name": "complex"},
    "QuatE": {"name": "quate"},
    "5★E inner": {"name": "fivestar"},
    "5★E distance": {"name": "fivestar", "score": "distance"},
}
# One way of training for all of them; there is nothing to choose it by.
TRAINING: Mapping[str, Any] = {
    "objective": "softmax",
    "optimizer": "adagrad",
    "lr": 0.1,
    "regularizer": "none",
    "batch_size": 64,
}
# (left, right) of (t₁₀, r₃, t₁) and of (h₁₀, r₃, h₁), where the paper gives figures.
PUBLISHED: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "RotatE": ((1, 1), (1, 1)),
    "5★E inner": ((2, 2), (19, 18)),
}

Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What one way of closing gave: ranks (seeds, triples, left and right) by contestant.

    The last three triples are the marked ones, in the order of `PUBLISHED`, then (h₁₀, r₁, h₁).
    """

    closing: Closing
    triples: list[str]
    ranks: dict[str, Ranks]

    def median(self, contestant: str) -> Ranks:
        """Over seeds: (triples, left and right)."""
        found: Ranks = np.median(self.ranks[contestant], axis=0)
        return found

    def fit(self, contestant: str) -> float:
        """The mean reciprocal rank of the trained facts: 1 if all are learned."""
        trained = -2 if self.closing == "trained" else -3
        return float((1 / self.ranks[contestant][:, :trained]).mean())

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        names = list(self.ranks)
        return {
            "closing": self.closing,
            "triples": self.triples,
            "fit": {name: self.fit(name) for name in names},
            "median": {name: self.median(name).tolist() for name in names},
            "ranks": {name: self.ranks[name].tolist() for name in names},
        }


def path_beside_loop(
    closing: Closing,
    seeds: Sequence[int] = range(5),
    dim: int = 20,
    epochs: int = 300,
    on_trained: Callable[[], None] | None = None,
) -> Outcome:
    """Train all contestants from each of these seeds, and rank all facts and the marked triples."""
    graph = graph_with(closing)
    facts = [fact for fact in _rows(graph.train) if fact != CLOSES_LOOP]
    facts += [CLOSES_LOOP, *CLOSE_PATH]
    found = {}
    for contestant, model in CONTESTANTS.items():
        by_seed = []
        for seed in seeds:
            training = {**TRAINING, "epochs": epochs, "seed": seed}
            run = train(
                graph, {"defaults": 1, "model": {**model, "dim": dim}, "training": training}
            )
            by_seed.append(ranks(run, facts))
            if on_trained is not None:
                on_trained()
        found[contestant] = np.array(by_seed)
    return Outcome(closing, [_spoken(graph, fact) for fact in facts], found)


def graph_with(closing: Closing) -> KnowledgeGraph:
    """A path beside a loop; what closes the loop is trained, or left for the test."""
    whole = side_by_side("path", "loop", NODES)
    if closing == "trained":
        return whole
    rest = Triples.of([fact for fact in _rows(whole.train) if fact != CLOSES_LOOP])
    closes = Triples.of([CLOSES_LOOP])
    return KnowledgeGraph(whole.name, whole.entities, whole.relations, rest, test=closes)


def ranks(run: Run, facts: Sequence[Numbers]) -> Ranks:
    """The (left, right) ranks of triples among all entities but other answers known from train."""
    count = len(run.graph.relations)

    def rank(fact: Numbers) -> tuple[float, float]:
        # Each triple by itself, so that it is not filtered out of the ranking of another one.
        triple = Triples.of([fact])
        known = KnownAnswers.of(with_reciprocals(run.graph.train + triple, count))
        tail, head = rank_answers(run.model, *both_sides(triple, count), known).realistic
        return float(head), float(tail)

    return np.array([rank(fact) for fact in facts])


def _rows(triples: Triples) -> list[Numbers]:
    return [(h, r, t) for h, r, t in triples.array.tolist()]


def _spoken(graph: KnowledgeGraph, fact: Numbers) -> str:
    head, relation, tail = fact
    names = graph.entities.name_of(head), graph.relations.name_of(relation)
    return f"{names[0]} {names[1]} {graph.entities.name_of(tail)}"
