"""Groups of triples, and metrics per group and side, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.test_ranking import tied_model

import fivestar
from fivestar.evaluation.metrics import rank_metrics, self_answer_metrics
from fivestar.evaluation.report import evaluate, groups_of
from fivestar.graph.statistics import relation_profiles
from fivestar.graph.triples import Triples

FACTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=12
)


def graph_of(train, test):
    return fivestar.KnowledgeGraph(
        name="facts",
        entities=fivestar.Vocabulary("entity", list("abcdef")),
        relations=fivestar.Vocabulary("relation", ["r", "s"]),
        train=Triples.of(train).distinct(),
        test=Triples.of(test),
    )


@given(FACTS, FACTS)
def test_groups_by_definition(train, test):
    graph = graph_of(train, test)
    triples = graph.test
    by_relation = groups_of(graph, triples, "relation")
    assert set(by_relation) == {"rs"[r] for _, r, _ in test}
    for name, rows in by_relation.items():
        assert rows.tolist() == ["rs"[r] == name for r in triples.relations]
    in_train = {e for h, _, t in train for e in (h, t)}
    seen = groups_of(graph, triples, "seen")
    assert list(seen) == ["seen", "unseen"]
    wanted = [h in in_train and t in in_train for h, _, t in triples.array.tolist()]
    assert seen["seen"].tolist() == wanted
    assert (~seen["unseen"]).tolist() == wanted
    category = {p.name: str(p.category) for p in relation_profiles(graph)}
    if len(category) == 2:
        by_category = groups_of(graph, triples, "category")
        assert list(by_category) == sorted({category["rs"[r]] for r in triples.relations})
        for name, rows in by_category.items():
            assert rows.tolist() == [category["rs"[r]] == name for r in triples.relations]


@pytest.mark.parametrize("relations", [4, 2])
def test_metrics_are_those_of_the_ranks_of_a_group(relations):
    rng = np.random.default_rng(0)
    train, test = (
        np.stack([rng.integers(0, n, 10) for n in (6, 2, 6)], axis=1).tolist() for _ in range(2)
    )
    graph = graph_of(train, test)
    found = evaluate(tied_model(relations=relations), graph, graph.test)
    assert found.heads_by == ("reciprocal relations" if relations == 4 else "exhaustive scoring")
    hidden = ~graph.allows_self_answers[graph.test.relations]
    for by in ("relation", "seen"):
        parts = found.by_group(graph, by, hits=(2,))
        for name, rows in groups_of(graph, graph.test, by).items():
            ranks = found.tail_ranks.take(rows) + found.head_ranks.take(rows)
            own = np.concatenate([hidden[rows], hidden[rows]])
            wanted = rank_metrics(ranks, (2,)) | self_answer_metrics(ranks, own, (2,))
            assert parts[name] == pytest.approx(wanted)
    sides = found.by_group(graph, "side", hits=(2,))
    for side, ranks in (("heads", found.head_ranks), ("tails", found.tail_ranks)):
        wanted = rank_metrics(ranks, (2,)) | self_answer_metrics(ranks, hidden, (2,))
        assert sides[side] == pytest.approx(wanted)
    every = found.metrics(hits=(2,))
    assert (every["heads"], every["tails"]) == (sides["heads"], sides["tails"])
    assert every["count"] == 20
    assert every["heads_by"] == found.heads_by
    low, high = every["mrr_95"]
    assert low <= every["mrr"] <= high
    assert every["mrr"] == pytest.approx((sides["heads"]["mrr"] + sides["tails"]["mrr"]) / 2)
