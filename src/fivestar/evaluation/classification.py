"""Triple classification: thresholds chosen on validation, evaluated on test.

For each true triple there is one negative: its head or tail is replaced by a random entity, such
that the result is not a known fact.
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
_RETRIES = 100


def classify(model: Model, graph: KnowledgeGraph, seed: int = 0) -> dict[str, Any]:
    """Classify the test triples and as many negatives.

    Args:
        model: the model.
        graph: a graph with valid and test triples.
        seed: of the negatives.

    Returns:
        Accuracy with one threshold per relation, AUC-ROC and AUC-PR.

    Raises:
        SettingsError: if valid or test is empty.
    """
    if not len(graph.valid) or not len(graph.test):
        raise SettingsError("classification needs valid triples for thresholds, and test triples")
    rng = np.random.default_rng(seed)
    relations = len(graph.relations)
    scores, truth, relation_of = {}, {}, {}
    for name in ("valid", "test"):
        true = graph.split(name)
        both = true + sample_negatives(graph, true, rng)
        scores[name] = triple_scores(model, both, relations)
        truth[name] = np.arange(len(both)) < len(true)
        relation_of[name] = both.relations
    shared = best_threshold(scores["valid"], truth["valid"])
    thresholds = np.full(relations, shared)
    for relation in np.unique(relation_of["valid"]):
        here = relation_of["valid"] == relation
        thresholds[relation] = best_threshold(scores["valid"][here], truth["valid"][here])
    predicted = scores["test"] >= thresholds[relation_of["test"]]
    without = np.isin(relation_of["test"], relation_of["valid"], invert=True)
    return {
        "accuracy": float((predicted == truth["test"]).mean()),
        "auc_roc": area_under_roc(scores["test"], truth["test"]),
        "auc_pr": area_under_precision_recall(scores["test"], truth["test"]),
        "count": len(predicted),
        "count_without_own_threshold": int(without.sum()),
    }


def sample_negatives(graph: KnowledgeGraph, true: Triples, rng: np.random.Generator) -> Triples:
    """Return one negative per triple: another head or tail, and not a fact of the graph."""
    facts, entities = graph.facts, len(graph.entities)
    heads, tails = true.heads.copy(), true.tails.copy()
    is_fact = np.ones(len(true), bool)
    for _ in range(_RETRIES):
        at_head = rng.random(len(true)) < 0.5
        other = rng.integers(0, entities, len(true), dtype=np.int32)
        heads = np.where(is_fact, np.where(at_head, other, true.heads), heads)
        tails = np.where(is_fact, np.where(at_head, true.tails, other), tails)
        negatives = Triples(heads, true.relations, tails)
        is_fact = negatives.are_in(facts)
        if not is_fact.any():
            return negatives
    raise SettingsError("almost every triple of this graph is a fact, so there are no negatives")


def best_threshold(scores: Scores, truth: Truth) -> float:
    """Return the threshold of the highest accuracy, midway between two scores."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    # Correct if the first k are predicted true, up to a constant.
    correct = np.concatenate([[0], np.cumsum(np.where(truth[order], 1, -1))])
    cuts = np.concatenate([[True], ordered[1:] < ordered[:-1], [True]])
    best = int(np.argmax(np.where(cuts, correct, correct.min() - 1)))
    if best == 0:
        return float(ordered[0]) + 1.0
    if best == len(ordered):
        return float(ordered[-1])
    return float(ordered[best - 1] / 2 + ordered[best] / 2)


def area_under_roc(scores: Scores, truth: Truth) -> float:
    """Return the share of (true, false) pairs with the true one higher; ties count half."""
    _, position, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[position]
    true, false = int(truth.sum()), int((~truth).sum())
    return float((rank[truth].sum() - true * (true + 1) / 2) / (true * false))


def area_under_precision_recall(scores: Scores, truth: Truth) -> float:
    """Return the average precision, Σ (recall gained) · precision, with tied scores together."""
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], np.cumsum(truth[order])
    ends = np.flatnonzero(np.append(ordered[1:] < ordered[:-1], True))
    precision = hits[ends] / (ends + 1)
    gained = np.diff(hits[ends], prepend=0) / hits[-1]
    return float((precision * gained).sum())
