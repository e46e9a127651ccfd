"""Two structures side by side, each a path or a loop: the small graphs of the paper's argument.

Nodes h₁ … hₙ form one structure by r₁, nodes t₁ … tₙ the other by r₃, and r₂ links hᵢ to tᵢ.

Can a model close a loop and leave the path beside it open? In a path beside a loop, (t₁₀, r₃, t₁)
closes the loop: it should rank first on both sides, and (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁), which
would close the path, far behind. The paper does not say whether its models were trained on the
closing fact, so both cases are measured:

held out: What is left are two equal paths. Exchanging h ↔ t and r₁ ↔ r₃ and reversing r₂ maps the
facts and their reciprocals onto themselves. So over seeds, the ranks of (t₁₀, r₃, t₁) and of
(h₁₀, r₁, h₁) have the same distribution, for every model.

trained: The loop is closed; it is measured what happens to the path. A bijective model that
fits all facts exactly closes it too: M₁ = M₂⁻¹M₃M₂.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.ranking import rank_answers
from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run
from fivestar.training.train import train

Shape = Literal["path", "loop"]
Closing = Literal["held out", "trained"]
Ids = tuple[int, int, int]
Ranks = npt.NDArray[np.float64]
SHAPES: tuple[Shape, ...] = get_args(Shape)
CLOSINGS: tuple[Closing, ...] = get_args(Closing)
FIRST, BETWEEN, SECOND = range(3)
NODES = 10
CLOSES_LOOP = (2 * NODES - 1, SECOND, NODES)
# (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁).
CLOSE_PATH = ((NODES - 1, SECOND, 0), (NODES - 1, FIRST, 0))

# The five models of the paper; 5★E with both of its scores.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "TransE": {"name": "transe", "norm": "l2"},
    "RotatE": {"name": "rotate"},
    "ComplEx": {"name": "complex"},
    "QuatE": {"name": "quate"},
    "5★E inner": {"name": "fivestar"},
    "5★E distance": {"name": "fivestar", "score": "distance"},
}
# The same for all models: there is no validation split to choose by.
_TRAINING: Mapping[str, Any] = {
    "objective": "softmax",
    "optimizer": "adagrad",
    "lr": 0.1,
    "regularizer": "none",
    "batch_size": 64,
}
# (left, right) ranks of (t₁₀, r₃, t₁) and of (h₁₀, r₃, h₁), where the paper gives them.
PUBLISHED_RANKS: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "RotatE": ((1, 1), (1, 1)),
    "5★E inner": ((2, 2), (19, 18)),
}
# One complex number per entity: its embedding is a point of the plane.
_PLANE_SETTINGS: dict[str, Any] = {
    "defaults": 1,
    "model": {"name": "fivestar", "dim": 1, "score": "distance"},
    "training": {
        "objective": "softmax",
        "optimizer": "adam",
        "lr": 0.02,
        "regularizer": "none",
        "batch_size": 64,
        "epochs": 600,
    },
}


def side_by_side(heads: Shape, tails: Shape, nodes: int = 10) -> KnowledgeGraph:
    """Return the graph of two structures, all of it to train on.

    Args:
        heads: The structure of h₁ … hₙ.
        tails: The structure of t₁ … tₙ.
        nodes: Number of nodes of each.

    >>> side_by_side("path", "loop", 3)
    KnowledgeGraph('path beside loop': 6 entities, 3 relations, 8 / 0 / 0 triples)
    """
    between = [(i, BETWEEN, nodes + i) for i in range(nodes)]
    facts = _chain(heads, FIRST, 0, nodes) + between + _chain(tails, SECOND, nodes, nodes)
    names = [f"{side}{i + 1}" for side in "ht" for i in range(nodes)]
    return KnowledgeGraph(
        f"{heads} beside {tails}",
        Vocabulary("entity", names),
        Vocabulary("relation", ["r1", "r2", "r3"]),
        Triples.of(facts),
    )


def _chain(shape: Shape, relation: int, first: int, nodes: int) -> list[Ids]:
    steps = nodes if shape == "loop" else nodes - 1
    return [(first + i, relation, first + (i + 1) % nodes) for i in range(steps)]


def embed_in_plane(heads: Shape, tails: Shape, nodes: int = 6, seed: int = 0) -> Run:
    """Train a 5★E of dimension 1 with the distance score on two structures side by side."""
    training = {**_PLANE_SETTINGS["training"], "seed": seed}
    return train(side_by_side(heads, tails, nodes), {**_PLANE_SETTINGS, "training": training})


def training_mrr(run: Run) -> float:
    """Return the MRR of all facts: 1 if the structures are learned."""
    return float(evaluate(run.model, run.graph, run.graph.train).metrics()["mrr"])


@dataclass(frozen=True)
class PathLoopResult:
    """Ranks (seeds, triples, 2) by model: left and right ranks of all facts.

    The last three triples are (t₁₀, r₃, t₁), (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁).
    """

    closing: Closing
    triples: list[str]
    ranks: dict[str, Ranks]

    def median(self, model: str) -> Ranks:
        """Return the median over seeds (triples, 2)."""
        median: Ranks = np.median(self.ranks[model], axis=0)
        return median

    def fit(self, model: str) -> float:
        """Return the MRR of the trained facts: 1 if all are learned."""
        trained = -2 if self.closing == "trained" else -3
        return float((1 / self.ranks[model][:, :trained]).mean())

    def as_json(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "closing": self.closing,
            "triples": self.triples,
            "fit": {name: self.fit(name) for name in self.ranks},
            "median": {name: self.median(name).tolist() for name in self.ranks},
            "ranks": {name: ranks.tolist() for name, ranks in self.ranks.items()},
        }


def path_beside_loop(
    closing: Closing,
    seeds: Sequence[int] = range(5),
    dim: int = 20,
    epochs: int = 300,
    on_trained: Callable[[], None] | None = None,
) -> PathLoopResult:
    """Train all models on a path beside a loop, and rank all facts and those that would close them.

    Args:
        closing: Whether the fact that closes the loop is held out or trained.
        seeds: Random seeds; each model is trained once per seed.
        dim: Embedding dimension.
        epochs: Epochs per training.
        on_trained: Called after each training.
    """
    graph = path_loop_graph(closing)
    facts = [fact for fact in _rows(graph.train) if fact != CLOSES_LOOP]
    facts += [CLOSES_LOOP, *CLOSE_PATH]
    ranks = {}
    for label, model in MODELS.items():
        by_seed = []
        for seed in seeds:
            training = {**_TRAINING, "epochs": epochs, "seed": seed}
            run = train(
                graph, {"defaults": 1, "model": {**model, "dim": dim}, "training": training}
            )
            by_seed.append(rank_triples(run, facts))
            if on_trained is not None:
                on_trained()
        ranks[label] = np.array(by_seed)
    return PathLoopResult(closing, [_text(graph, fact) for fact in facts], ranks)


def path_loop_graph(closing: Closing) -> KnowledgeGraph:
    """Return a path beside a loop, with the fact that closes the loop in train or in test."""
    whole = side_by_side("path", "loop", NODES)
    if closing == "trained":
        return whole
    rest = Triples.of([fact for fact in _rows(whole.train) if fact != CLOSES_LOOP])
    closes = Triples.of([CLOSES_LOOP])
    return KnowledgeGraph(whole.name, whole.entities, whole.relations, rest, test=closes)


def rank_triples(run: Run, triples: Sequence[Ids]) -> Ranks:
    """Return the filtered (left, right) ranks of triples; only facts of train are filtered."""
    count = len(run.graph.relations)

    def rank(ids: Ids) -> tuple[float, float]:
        # One triple at a time, so that none is filtered out of the ranking of another.
        triple = Triples.of([ids])
        known = KnownAnswers.of(with_reciprocals(run.graph.train + triple, count))
        tail, head = rank_answers(run.model, *both_sides(triple, count), known).realistic
        return float(head), float(tail)

    return np.array([rank(ids) for ids in triples])


def _rows(triples: Triples) -> list[Ids]:
    return [(h, r, t) for h, r, t in triples.array.tolist()]


def _text(graph: KnowledgeGraph, triple: Ids) -> str:
    head, relation, tail = triple
    names = graph.entities.name_of(head), graph.relations.name_of(relation)
    return f"{names[0]} {names[1]} {graph.entities.name_of(tail)}"
