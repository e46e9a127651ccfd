"""Two structures side by side, each a path or a loop: the small graphs of the paper's argument.

Nodes h₁ … hₙ form the one by r₁, nodes t₁ … tₙ the other by r₃, and r₂ goes from hᵢ to tᵢ.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run
from fivestar.training.loop import train

Shape = Literal["path", "loop"]
Numbers = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = get_args(Shape)
FIRST, BETWEEN, SECOND = range(3)


def side_by_side(heads: Shape, tails: Shape, nodes: int = 10) -> KnowledgeGraph:
    """The graph, all of it to train on; `nodes` on each side.

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


def _chain(shape: Shape, relation: int, first: int, nodes: int) -> list[Numbers]:
    steps = nodes if shape == "loop" else nodes - 1
    return [(first + i, relation, first + (i + 1) % nodes) for i in range(steps)]


# One complex number an entity: its embedding is a point of the plane.
_SETTINGS: dict[str, Any] = {
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


def embedded(heads: Shape, tails: Shape, nodes: int = 6, seed: int = 0) -> Run:
    """Two structures side by side, learned by a 5★E of dimension 1 with the distance score."""
    training = {**_SETTINGS["training"], "seed": seed}
    return train(side_by_side(heads, tails, nodes), {**_SETTINGS, "training": training})


def fit(run: Run) -> float:
    """The mean reciprocal rank of all facts: 1 if the structures are learned."""
    return float(evaluate(run.model, run.graph, run.graph.train).figures()["mrr"])
