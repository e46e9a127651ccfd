"""Self-answers: queries that rank their own entity above the target, and ranking without it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fivestar
from fivestar.evaluation.relation_ranking import rank_relations
from fivestar.evaluation.report import evaluate
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.registry import make_model
from fivestar.training.train import train

ENTITIES, RELATIONS = 6, 2
ENTITY, RELATION = st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1)
FACTS = st.lists(st.tuples(ENTITY, RELATION, ENTITY), max_size=15)


def graph_of(train_facts, test_facts=(), entities=ENTITIES, relations=RELATIONS):
    return fivestar.KnowledgeGraph(
        "small",
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{i}" for i in range(relations)]),
        Triples.of(train_facts).distinct(),
        test=Triples.of(list(test_facts)),
    )


def tied_model(seed, *, reciprocals):
    """Return a model with few distinct integer scores, so that many are tied exactly."""
    model = make_model("distmult", ENTITIES, RELATIONS * (2 if reciprocals else 1), 2)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randint(-1, 2, table.shape, generator=generator))
    return model


def scores_of(model, entity, relation):
    """Return the scores of all candidates of one query, r + R asking for heads."""
    if relation < len(model.relations):
        return model.score_tails(torch.tensor([entity]), torch.tensor([relation]))[0].tolist()
    every = torch.arange(ENTITIES)
    columns = every, torch.full_like(every, relation - RELATIONS), torch.full_like(every, entity)
    return model.score(*columns).tolist()


def brute_force(model, graph, triples):
    """Return per query whether its own entity is a self-answer, and its ranks without it."""
    loops = [(r, h == t) for h, r, t in graph.train.array.tolist()]
    num_facts, num_loops = (
        [sum(counts(each) for q, each in loops if q == r) for r in range(RELATIONS)]
        for counts in (lambda _: 1, int)
    )
    true = set(map(tuple, with_reciprocals(graph.facts + triples, RELATIONS).array.tolist()))
    answered, ranks = [], []
    for h, r, t in with_reciprocals(triples, RELATIONS).array.tolist():
        scores = scores_of(model, h, r)
        rivals = {e for e in range(ENTITIES) if e != t and (h, r, e) not in true}
        answered.append(h in rivals and scores[h] > scores[t])
        relation = r % RELATIONS
        if not num_loops[relation] or num_loops[relation] / num_facts[relation] < 0.03:
            rivals -= {h}
        above = sum(scores[e] > scores[t] for e in rivals)
        tied = sum(scores[e] == scores[t] for e in rivals)
        ranks.append((above + 1, above + tied + 1, len(rivals) + 1))
    return np.array(answered), np.array(ranks)


@pytest.mark.parametrize("reciprocals", [True, False])
@given(
    facts=FACTS,
    asked=FACTS.filter(bool),
    seed=st.integers(0, 999),
    score_bytes=st.sampled_from([1, 1 << 20]),
    tile=st.sampled_from([2, 1024]),
)
def test_against_a_brute_force_search(reciprocals, facts, asked, seed, score_bytes, tile):
    graph, model = graph_of(facts, asked), tied_model(seed, reciprocals=reciprocals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.ranking.TILE", tile)
        found = evaluate(model, graph, graph.test, score_bytes=score_bytes)
    answered, ranks = brute_force(model, graph, graph.test)
    tails = np.arange(len(ranks)) < len(asked)
    for side, rows in (("tails", tails), ("heads", ~tails)):
        without = getattr(found, f"{side[:-1]}_ranks").without_self(found.self_hidden)
        assert without.optimistic.tolist() == ranks[rows, 0].tolist()
        assert without.pessimistic.tolist() == ranks[rows, 1].tolist()
        assert without.candidates.tolist() == ranks[rows, 2].tolist()
    metrics = found.metrics(hits=(1, 2))
    for shown, rows in (
        (metrics, np.ones_like(tails)),
        (metrics["tails"], tails),
        (metrics["heads"], ~tails),
    ):
        realistic = ranks[rows, :2].mean(axis=1)
        assert shown["self_answer_rate"] == pytest.approx(answered[rows].mean())
        assert shown["mrr_without_self"] == pytest.approx((1 / realistic).mean())
        assert shown["hits@2_without_self"] == pytest.approx((realistic <= 2).mean())
    relation = found.by_group(graph, "relation")
    weighted = sum(each["self_answer_rate"] * each["count"] for each in relation.values())
    assert weighted == pytest.approx(answered.sum())


@given(facts=FACTS, asked=FACTS.filter(bool), seed=st.integers(0, 999))
def test_ranks_without_the_entity_are_those_with_it_masked(facts, asked, seed):
    """Leaving an entity out gives the ranks of a search in which it counts as a known answer."""
    graph, model = graph_of(facts, asked), tied_model(seed, reciprocals=True)
    found = evaluate(model, graph, graph.test)
    everywhere = np.ones(len(graph.test), bool)
    loops = [(e, r, e) for e in range(ENTITIES) for r in range(RELATIONS)]
    known = with_reciprocals(graph.facts + Triples.of(loops), RELATIONS)
    masked = evaluate(model, graph, graph.test, KnownAnswers.of(known))
    for side in ("head_ranks", "tail_ranks"):
        ours, theirs = getattr(found, side).without_self(everywhere), getattr(masked, side)
        for column in ("optimistic", "pessimistic", "candidates", "self_candidate"):
            assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()


def test_ranked_relations_have_no_self_candidate():
    graph = graph_of([(0, 0, 1), (1, 1, 1)])
    ranks = rank_relations(tied_model(0, reciprocals=True), graph, graph.train)
    assert not ranks.self_answers.any()
    assert ranks.without_self(np.ones(2, bool)).candidates.tolist() == ranks.candidates.tolist()


@pytest.mark.parametrize(
    ("loops", "others", "allowed"),
    [(0, 0, False), (0, 100, False), (1, 0, True), (1, 30, True), (1, 40, False), (3, 97, True)],
)
def test_self_answers_are_allowed_from_a_share_of_self_loops_on(loops, others, allowed):
    size = 200
    rows = [(i, 0, i) for i in range(loops)] + [(i, 0, i + 1) for i in range(others)]
    rows += [(i, 1, i) for i in range(3)]  # another relation decides nothing
    graph = graph_of(rows, entities=size)
    assert graph.allows_self_answers.tolist() == [allowed, True]


def test_a_few_self_loops_do_not_allow_them_for_a_large_relation():
    size = 20_000
    rows = [(i, 0, i) for i in range(3)] + [(i, 0, (i + 1) % size) for i in range(size)]
    assert graph_of(rows, entities=size).allows_self_answers.tolist() == [False, False]


@pytest.fixture(scope="module")
def with_two_loops():
    """Return a model of a ring with 2 self-loops among 102 facts: too few for self-answers."""
    rows = [(i, 0, (i + 1) % 100) for i in range(100)] + [(0, 0, 0), (1, 0, 1)]
    graph = graph_of(rows, entities=100)
    settings = {"model": {"dim": 8, "init": "identity"}, "training": {"epochs": 2}}
    return fivestar.train(graph, settings)


def test_predictions_show_only_the_self_loops_that_the_graph_holds(with_two_loops):
    held = with_two_loops.predict_tails("e0", "r0", top=200)
    assert {answer.id for answer in held if answer.split} == {"e0", "e1"}
    assert len(held) == 100
    hidden = with_two_loops.predict_heads("r0", "e7", top=200)
    assert {answer.id for answer in hidden} == set(with_two_loops.graph.entities) - {"e7"}


def test_explained_ranks_are_those_of_new_answers(with_two_loops):
    new = with_two_loops.predict_tails("e7", "r0", top=200, which="new")
    found = {answer.id: with_two_loops.explain("e7", "r0", answer.id) for answer in new[:5]}
    assert [each.tail_rank.rank for each in found.values()] == [1, 2, 3, 4, 5]
    assert {each.tail_rank.candidates for each in found.values()} == {98}
    own = with_two_loops.explain("e7", "r0", "e7").tail_rank
    assert (own.rank, own.candidates) == (1, 99)  # as the target it is ranked


def test_rotations_keep_the_query_entity_below_the_target():
    """The cause of self-answers is the identity init: score(h, r, h) is close to |h|² there.

    `neighbour_of` stays an exception for any init: countries that share neighbors are alike, so
    that each looks like a neighbor of itself.
    """
    graph = fivestar.read_graph("demo")
    rates = {}
    for init in (None, "identity"):
        model = {"dim": 100, "off_diagonal_lr": 1.0} | ({} if init is None else {"init": init})
        training = {"epochs": 10, "evaluate-every": 0, "threads": 1}
        run = train(graph, fivestar.make_settings({"model": model, "training": training}))
        found = evaluate(run.model, graph, graph.test)
        rest = found.by_group(graph, "relation")
        rest.pop("neighbour_of")
        count = sum(each["count"] for each in rest.values())
        rate = sum(each["self_answer_rate"] * each["count"] for each in rest.values()) / count
        rates[init] = found.metrics()["self_answer_rate"], rate
    assert rates[None][1] < 0.05
    assert rates[None][0] < 0.15
    assert rates["identity"][1] > 0.1
    assert rates["identity"][0] > 0.2
