"""Classification of triples and ranking of relations, against what they are by definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.evaluation.test_ranking import tied_model
from tests.graphs import people_graph

import fivestar
from fivestar.errors import SettingsError
from fivestar.evaluation.classification import (
    area_under_precision_recall,
    area_under_roc,
    best_threshold,
    classify,
    sample_negatives,
)
from fivestar.evaluation.relation_ranking import rank_relations
from fivestar.graph.triples import Triples
from fivestar.models.scoring import triple_scores

JUDGED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=12).filter(
    lambda rows: len({truth for _, truth in rows}) == 2
)


def arrays(rows):
    return np.array([s for s, _ in rows], np.float32), np.array([t for _, t in rows])


@given(JUDGED)
@example([(1, True)] * 3 + [(1, False)] * 4)  # no threshold lies between equal scores
def test_the_best_threshold_is_optimal(rows):
    scores, truth = arrays(rows)
    right = ((scores >= best_threshold(scores, truth)) == truth).sum()
    others = [((scores >= cut) == truth).sum() for cut in np.arange(-3.5, 4.5, 0.5)]
    assert right == max(others)


@given(JUDGED)
def test_auc_roc_is_the_share_of_pairs_in_order(rows):
    scores, truth = arrays(rows)
    pairs = itertools.product(scores[truth], scores[~truth])
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs]
    assert area_under_roc(scores, truth) == pytest.approx(np.mean(wins))


@given(JUDGED)
def test_average_precision_by_definition(rows):
    scores, truth = arrays(rows)
    total, before = 0.0, 0
    for cut in sorted(set(scores.tolist()), reverse=True):
        called = scores >= cut
        hits = (called & truth).sum()
        total += (hits - before) / truth.sum() * hits / called.sum()
        before = hits
    assert area_under_precision_recall(scores, truth) == pytest.approx(total)


@pytest.fixture(scope="module")
def graph():
    return people_graph(valid=0.15, test=0.15)


def test_negatives_are_not_facts_and_differ_in_one_slot(graph):
    made = sample_negatives(graph, graph.test, np.random.default_rng(0))
    assert not made.are_in(graph.facts).any()
    changed = (made.heads != graph.test.heads).astype(int) + (made.tails != graph.test.tails)
    assert set(changed.tolist()) == {1}
    everything = fivestar.read_graph([(a, "r", b) for a in "ab" for b in "ab"])
    with pytest.raises(SettingsError, match="there are no negatives"):
        sample_negatives(everything, everything.train, np.random.default_rng(0))


def test_a_trained_model_classifies_triples_and_predicts_relations(graph):
    settings = {
        "model": {"dim": 16},
        "training": {"epochs": 60, "reg_weight": 0.01, "batch_size": 40},
    }
    run = fivestar.train(graph, settings)
    metrics = classify(run.model, graph)
    assert metrics["count"] == 2 * len(graph.test)
    assert 0.5 < metrics["accuracy"] <= 1
    assert metrics["auc_roc"] > 0.5
    ranks = rank_relations(run.model, graph, graph.train)  # what it has seen
    assert (ranks.realistic == 1).mean() > 0.9
    with pytest.raises(SettingsError, match="needs valid triples"):
        classify(run.model, fivestar.read_graph([("a", "r", "b")]))
    for split in ("valid", "test"):
        other = fivestar.read_graph({"train": [("a", "r", "b")], split: [("b", "r", "a")]})
        with pytest.raises(SettingsError, match="needs valid"):
            classify(run.model, other)


@given(st.integers(0, 10**6))
def test_classification_has_a_threshold_per_relation_of_valid(seed):
    rng = np.random.default_rng(seed)
    # The last relation is in test only.
    train, valid, test = (
        np.stack([rng.integers(0, n, 8) for n in (6, relations, 6)], axis=1)
        for relations in (4, 3, 4)
    )
    graph = fivestar.KnowledgeGraph(
        name="facts",
        entities=fivestar.Vocabulary("entity", list("abcdef")),
        relations=fivestar.Vocabulary("relation", list("rstu")),
        **{
            name: Triples.of(rows)
            for name, rows in (("train", train), ("valid", valid), ("test", test))
        },
    )
    model = tied_model(entities=6, relations=8)
    found = classify(model, graph, seed)
    same = np.random.default_rng(seed)
    judged = {}
    for name in ("valid", "test"):
        true = graph.split(name)
        both = true + sample_negatives(graph, true, same)
        truth = [True] * len(true) + [False] * len(true)
        rows = zip(both.relations.tolist(), triple_scores(model, both, 4), truth, strict=True)
        judged[name] = list(rows)

    def threshold(rows):
        return best_threshold(*(np.array(column) for column in zip(*rows, strict=True)))

    right = 0
    for relation, score, truth in judged["test"]:
        own = [row[1:] for row in judged["valid"] if row[0] == relation]
        cut = threshold(own or [row[1:] for row in judged["valid"]])
        right += (score >= cut) == truth
    assert found["accuracy"] == pytest.approx(right / len(judged["test"]))
    assert found["count"] == len(judged["test"])
    seen = {relation for relation, _, _ in judged["valid"]}
    without = sum(relation not in seen for relation, _, _ in judged["test"])
    assert found["count_without_own_threshold"] == without
    scores, truth = arrays([row[1:] for row in judged["test"]])
    assert found["auc_roc"] == area_under_roc(scores, truth)
    assert found["auc_pr"] == area_under_precision_recall(scores, truth)


def test_thresholds_are_midway_between_scores_and_beyond_the_ends():
    scores = np.array([3, 1, -2], np.float32)
    assert best_threshold(scores, np.array([True, True, False])) == -0.5
    assert best_threshold(scores, np.array([True, False, False])) == 2
    assert best_threshold(scores, np.array([False, False, False])) > 3
    assert best_threshold(scores, np.array([True, True, True])) <= -2


def test_heads_and_tails_are_replaced_equally_often(graph):
    many = Triples.of(np.tile(graph.train.array, (20, 1)))
    made = sample_negatives(graph, many, np.random.default_rng(0))
    assert (made.heads != many.heads).mean() == pytest.approx(0.5, abs=0.05)


FACTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=12
)


@given(FACTS)
def test_ranks_of_relations_are_those_of_a_brute_force_search(facts):
    numbers = Triples.of(facts)
    graph = fivestar.KnowledgeGraph(
        name="facts",
        entities=fivestar.Vocabulary("entity", list("abcdef")),
        relations=fivestar.Vocabulary("relation", list("rstu")),
        train=numbers,
    )
    model = tied_model(entities=6, relations=8)
    ranks = rank_relations(model, graph, numbers)
    true = set(map(tuple, numbers.array.tolist()))
    for i, (h, r, t) in enumerate(numbers.array.tolist()):
        every = Triples.of([(h, other, t) for other in range(4)])
        scores = triple_scores(model, every, 4).tolist()
        rivals = [scores[o] for o in range(4) if o != r and (h, o, t) not in true]
        assert ranks.optimistic[i] == 1 + sum(s > scores[r] for s in rivals)
        assert ranks.pessimistic[i] == 1 + sum(s >= scores[r] for s in rivals)
        assert ranks.candidates[i] == 1 + len(rivals)
