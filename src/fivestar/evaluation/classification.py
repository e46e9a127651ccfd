"""Is a triple true? Thresholds chosen on validation, judged on test.

For each true triple one false one is made by putting a random entity in the place of its head or
tail, so that what results is no known fact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import triple_scores

Scores = npt.NDArray[np.float32]
Truth = npt.NDArray[np.bool_]
_TRIES = 100


def classify(model: Model, graph: KnowledgeGraph, seed: int = 0) -> dict[str, Any]:
    """Accuracy with a threshold a relation, AUC-ROC and AUC-PR of the test triples."""
    if not len(graph.valid) or not len(graph.test):
        raise SettingsError("classification needs valid triples for thresholds, and test triples")
    rng = np.random.default_rng(seed)
    relations = len(graph.relations)
    scores, truth, of = {}, {}, {}
    for name in ("valid", "test"):
        true = graph.split(name)
        both = true + false_triples(graph, true, rng)
        scores[name] = triple_scores(model, both, relations)
        truth[name] = np.arange(len(both)) < len(true)
        of[name] = both.relations
    shared = best_threshold(scores["valid"], truth["valid"])
    thresholds = np.full(relations, shared)
    for relation in np.unique(of["valid"]):
        here = of["valid"] == relation
        thresholds[relation] = best_threshold(scores["valid"][here], truth["valid"][here])
    judged = scores["test"] >= thresholds[of["test"]]
    without = np.isin(of["test"], of["valid"], invert=True)
    return {
        "accuracy": float((judged == truth["test"]).mean()),
        "auc_roc": area_under_roc(scores["test"], truth["test"]),
        "auc_pr": area_under_precision_recall(scores["test"], truth["test"]),
        "count": len(judged),
        "count_without_own_threshold": int(without.sum()),
    }


def false_triples(graph: KnowledgeGraph, true: Triples, rng: np.random.Generator) -> Triples:
    """A triple for each that differs in head or tail and is no fact of the graph."""
    facts, entities = graph.facts, len(graph.entities)
    heads, tails = true.heads.copy(), true.tails.copy()
    wrong = np.ones(len(true), bool)
    for _ in range(_TRIES):
        at_head = rng.random(len(true)) < 0.5
        other = rng.integers(0, entities, len(true), dtype=np.int32)
        heads = np.where(wrong, np.where(at_head, other, true.heads), heads)
        tails = np.where(wrong, np.where(at_head, true.tails, other), tails)
        made = Triples(heads, true.relations, tails)
        wrong = made.are_in(facts)
        if not wrong.any():
            return made
    raise SettingsError("almost every triple of this graph is a fact: none can be called false")


def best_threshold(scores: Scores, truth: Truth) -> float:
    """From which score on to say "true", so that most is right; between two scores, not on one."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    # Right if the first k are called true: the true among them and the false among the rest.
    right = np.concatenate([[0], np.cumsum(np.where(truth[order], 1, -1))])
    cuts = np.concatenate([[True], ordered[1:] < ordered[:-1], [True]])
    best = int(np.argmax(np.where(cuts, right, right.min() - 1)))
    if best == 0:
        return float(ordered[0]) + 1.0
    if best == len(ordered):
        return float(ordered[-1])
    return float(ordered[best - 1] / 2 + ordered[best] / 2)


def area_under_roc(scores: Scores, truth: Truth) -> float:
    """How often a true triple scores higher than a false one, ties counting half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    true, false = int(truth.sum()), int((~truth).sum())
    return float((rank[truth].sum() - true * (true + 1) / 2) / (true * false))


def area_under_precision_recall(scores: Scores, truth: Truth) -> float:
    """The average precision: Σ (recall gained) · precision, tied scores taken together."""
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], np.cumsum(truth[order])
    ends = np.flatnonzero(np.append(ordered[1:] < ordered[:-1], True))
    precision = hits[ends] / (ends + 1)
    gained = np.diff(hits[ends], prepend=0) / hits[-1]
    return float((precision * gained).sum())
