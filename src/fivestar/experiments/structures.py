"""Two structures side by side, each a path or a loop: the small graphs of the paper's argument.

Nodes h₁ … hₙ form one structure by r₁, nodes t₁ … tₙ the other by r₃, and r₂ links hᵢ to tᵢ.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run
from fivestar.training.train import train

Shape = Literal["path", "loop"]
Ids = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = get_args(Shape)
FIRST, BETWEEN, SECOND = range(3)
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
