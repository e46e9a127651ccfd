"""The most probable new facts agree with `complete`, and a bounded search says what it did."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

import fivestar
from fivestar.cancellation import cancel_when
from fivestar.errors import Cancelled
from fivestar.prediction.completion import Completer, Goal, _shares
from fivestar.prediction.evidence import are_second_answers, count_evidence
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.probable_facts import ProbableFacts, find_probable_facts


@pytest.fixture(scope="module")
def trained():
    settings = {"model": {"dim": 12}, "training": {"epochs": 6, "evaluate-every": 0}}
    return fivestar.train(fivestar.read_graph(), settings)


@pytest.fixture(scope="module")
def everything(trained):
    return find_probable_facts(trained, per_relation=20, max_queries=10**6)


def rows(new):
    return [tuple(row) for row in new.triples.array.tolist()]


def test_unbounded_search_agrees_with_complete(trained, everything):
    assert everything.searched.is_complete
    assert everything.searched.relations == everything.searched.num_relations == 9
    for number in range(9):
        name = trained.graph.relations.name_of(number)
        own = everything.of_relation(number)
        best = trained.complete(top=20, relations=[name], second_answers=False).new
        best = best.take(slice(len(own)))  # `complete` also finds less probable ones
        assert rows(own) == rows(best)
        np.testing.assert_allclose(own.probabilities, best.probabilities, rtol=1e-5)
    assert len(everything.new) > 20
    assert everything.searched.num_second_answers > 0


def test_second_answers_are_those_that_evidence_speaks_against(trained):
    """Compared with the evidence of each triple alone."""
    graph = trained.graph
    new = trained.complete(top=150).new.triples
    cosines = torch.zeros(2, len(graph.entities))
    wanted = []
    for triple in new.array.tolist():
        evidence = count_evidence(graph, TripleIds(*triple), cosines)
        wanted.append(evidence.other_tails.is_against or evidence.other_heads.is_against)
    assert 0 < sum(wanted) < len(wanted)
    found = np.zeros(len(new), bool)
    for number in range(len(graph.relations)):
        rows = new.relations == number
        facts = graph.train.take(graph.train.relations == number)
        found[rows] = are_second_answers(facts, new.heads[rows], new.tails[rows])
    assert found.tolist() == wanted


def test_facts_are_new(trained, everything):
    assert not everything.new.triples.are_in(trained.graph.facts).any()
    assert (np.diff(everything.new.probabilities) <= 0).all()


def test_bounded_search(trained, everything):
    calls = []
    found = find_probable_facts(trained, 20, 2000, lambda done, total: calls.append((done, total)))
    searched = found.searched
    assert searched.queries <= 2000 < searched.num_queries
    assert not searched.is_complete
    assert calls[-1] == (searched.queries, searched.queries)
    assert 0 < searched.num_candidates < everything.searched.num_candidates
    # What is found has the same probability; entities with few facts are not searched.
    known = dict(zip(rows(everything.new), everything.new.probabilities, strict=True))
    shared = [row for row in rows(found.new) if row in known]
    assert shared
    again = dict(zip(rows(found.new), found.new.probabilities, strict=True))
    for row in shared:
        assert again[row] == pytest.approx(known[row], rel=1e-5)


def test_the_entities_with_the_most_facts_are_searched(trained):
    completer = Completer(trained, Goal(top=5, max_queries=60))
    number = trained.graph.relations.find("in_country")
    domain, range_, _ = completer.slots(number)
    answered, needed = completer.limit_queries([number])
    assert (answered, needed) == (60, len(domain) + len(range_))
    few_heads, few_tails, _ = completer.slots(number)
    assert len(few_heads) + len(few_tails) == completer.num_queries(number) == 60
    train = trained.graph.train
    counts = np.bincount(np.concatenate([train.heads, train.tails]), minlength=2149)
    skipped = np.setdiff1d(domain, few_heads)
    assert counts[few_heads].min() >= counts[skipped].max()
    assert set(few_tails) <= set(range_)


@pytest.mark.parametrize(
    ("needed", "frequency", "queries", "expected"),
    [
        ([10, 20, 30], [1, 2, 3], 100, [10, 20, 30]),
        ([10, 200, 300], [5, 6, 7], 110, [10, 50, 50]),
        # Too little for three relations: the two most frequent ones.
        ([100, 200, 300], [5, 6, 7], 40, [0, 20, 20]),
        ([5, 5, 0], [1, 1, 0], 60, [5, 5, 0]),
    ],
)
def test_shares(needed, frequency, queries, expected):
    found = _shares(np.array(needed), np.array(frequency), queries)
    assert found.tolist() == expected


def test_saved_and_read(trained, everything):
    table = everything.as_arrow()
    again = ProbableFacts.from_arrow(table, 2149, 9)
    assert rows(again.new) == rows(everything.new)
    assert again.searched == everything.searched
    with pytest.raises(ValueError, match="not in the graph"):
        ProbableFacts.from_arrow(table, 3, 9)
    with pytest.raises(KeyError):
        ProbableFacts.from_arrow(table.replace_schema_metadata({"x": "y"}), 2149, 9)
    assert isinstance(table, pa.Table)


def test_cancelled(trained):
    with cancel_when(lambda: True), pytest.raises(Cancelled):
        find_probable_facts(trained, 20, 1000)


def test_probabilities_agree_with_predictions_and_explanations(trained, everything):
    graph = trained.graph
    head, relation, tail = graph.named(everything.new.triples).slice(0, 1).to_pylist()[0].values()
    explained = trained.explain(head, relation, tail)
    assert explained.probability == pytest.approx(everything.new.probabilities[0], rel=1e-5)
    scored = trained.score(head, relation, tail)
    assert explained.probability == pytest.approx(scored.probability, rel=1e-5)
    answers = trained.predict_tails(head, relation, top=100)
    (own,) = [answer for answer in answers if answer.id == tail]
    assert explained.tail_rank.probability == pytest.approx(own.probability, rel=1e-5)
    known = trained.explain("Lyon", "in_country", "France")
    assert known.probability is known.tail_rank.probability is None  # in train
