"""Two models on the same held-out facts: the facts, the ranks, the order, the metrics."""

from __future__ import annotations

import numpy as np
import pytest

import fivestar
from fivestar.errors import GraphError
from fivestar.prediction.comparison import compare_runs

TRAINING = {"epochs": 4, "evaluate-every": 0}


def trained(graph, name, **training):
    model = {"name": name, "dim": 8}
    return fivestar.train(graph, {"model": model, "training": TRAINING | training})


@pytest.fixture(scope="module")
def runs():
    graph = fivestar.read_graph()
    return trained(graph, "fivestar"), trained(graph, "complex")


def names(run, triples):
    return [tuple(row.values()) for row in run.graph.named(triples).to_pylist()]


def test_ranks_are_those_of_predictions(runs):
    """Counted from the list of all answers, without the other known ones."""
    comparison = compare_runs(*runs, max_triples=10_000)
    assert comparison.split == "test"
    assert comparison.num_held_out == len(comparison.triples) == len(runs[0].graph.test)
    rows = names(runs[0], comparison.triples)
    for query in comparison.disagreements(4):
        for run, rank in zip(runs, query.ranks, strict=True):
            queries = {"tails": (*rows[query.row][:2], "_"), "heads": ("_", *rows[query.row][1:])}
            answer = rows[query.row][2 if query.side == "tails" else 0]
            known = {each.id for each in run.predict([queries[query.side]], 500, "known")[0]}
            answers = run.predict([queries[query.side]], top=2149)[0]
            target = next(each.score for each in answers if each.id == answer)
            better = [each for each in answers if each.score > target and each.id not in known]
            # Predictions may omit the entity of the query, which the protocol ranks.
            assert rank - 1 - len(better) in (0, 1)


def test_metrics_are_those_of_an_evaluation(runs):
    comparison = compare_runs(*runs, max_triples=10_000)
    for found, run in zip(comparison.metrics(), runs, strict=True):
        expected = run.evaluate("test", by="relation")
        assert found == pytest.approx({key: expected[key] for key in found})
        number = run.graph.relations.find("capital_of")
        rows = comparison.triples.relations == number
        of_relation = comparison.metrics(rows)[runs.index(run)]
        by_relation = expected["by_relation"]["capital_of"]
        assert of_relation == pytest.approx({key: by_relation[key] for key in of_relation})
    first, second = (each["mrr"] for each in comparison.metrics())
    difference = comparison.difference()
    assert difference.mrr == pytest.approx(first - second)
    assert difference.low <= difference.mrr <= difference.high


def test_largest_disagreements_come_first(runs):
    comparison = compare_runs(*runs, max_triples=10_000)
    queries = comparison.disagreements(50)
    gaps = [abs(1 / one - 1 / two) for one, two in (query.ranks for query in queries)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > gaps[-1] > 0
    first, second = (
        np.concatenate([1 / each.tail_ranks.realistic, 1 / each.head_ranks.realistic])
        for each in comparison.evaluations
    )
    assert gaps[0] == pytest.approx(np.abs(first - second).max())
    assert [query.difference for query in queries] == pytest.approx(
        [1 / one - 1 / two for one, two in (query.ranks for query in queries)]
    )
    # A model agrees with itself.
    assert compare_runs(runs[0], runs[0], 10_000).disagreements(50) == []


def test_a_sample_of_facts(runs):
    few = compare_runs(*runs, max_triples=20)
    again = compare_runs(*runs, max_triples=20)
    assert len(few.triples) == 20
    assert few.num_held_out == len(runs[0].graph.test)
    assert few.triples == again.triples


def test_only_facts_that_neither_was_trained_on(runs):
    """The second graph has other ids, has trained on some facts, and lacks one name."""
    graph = runs[0].graph
    rows = {split: names(runs[0], triples) for split, triples in graph.splits.items()}
    trained_on, unknown, rest = rows["test"][:30], rows["test"][30], rows["test"][31:]
    gone = unknown[0]
    second = {
        "train": [row for row in reversed(rows["train"] + trained_on) if gone not in row],
        "test": [row for row in rest if gone not in row],
    }
    other = trained(fivestar.read_graph(second), "complex")
    comparison = compare_runs(runs[0], other, 10_000)
    found = set(names(runs[0], comparison.triples))
    # Training has held out some facts for validation, which may be among them.
    seen = set(names(other, other.graph.train))
    assert found == {row for row in rows["test"] if gone not in row and row not in seen}
    assert len(seen & set(trained_on)) > 10
    assert comparison.metrics()[1]["mrr"] > 0


def test_nothing_in_common(runs):
    facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    other = trained(fivestar.read_graph(facts), "complex")
    with pytest.raises(GraphError, match="held out by both"):
        compare_runs(runs[0], other, 10)
