"""Ranks and answers among the candidates of each relation, against a search over sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.test_ranking import tied_model
from tests.graph.test_relation_candidates import FACTS, TYPED, brute_force, graph_of
from tests.graphs import people_graph

import fivestar
from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import rank_answers, rank_answers_twice
from fivestar.evaluation.report import evaluate
from fivestar.evaluation.topk import AnswerFilter, top_k
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Queries, both_sides
from fivestar.graph.relation_candidates import candidates_of
from fivestar.graph.triples import Triples

CHOICE = st.sampled_from(["observed", "types"])


@settings(deadline=None)
@given(FACTS, FACTS, TYPED.filter(bool), CHOICE, st.sampled_from([1, 1 << 20]), st.booleans())
def test_ranks_among_candidates_are_those_of_a_brute_force_search(
    facts, asked, typed, choice, score_bytes, small
):
    model, graph = tied_model(), graph_of(facts, typed)
    queries, answers = both_sides(Triples.of(asked), 2)
    both = with_reciprocals(Triples.of(asked), 2)
    every = both + with_reciprocals(Triples.of(facts), 2)
    known = KnownAnswers.of(every)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.ranking.TILE", 2 if small else 1024)
        standard, among = rank_answers_twice(
            model, queries, answers, known, candidates_of(graph, choice), score_bytes
        )
        alone = rank_answers(model, queries, answers, known, score_bytes)
    for name in ("optimistic", "pessimistic", "candidates", "self_candidate"):
        assert getattr(standard, name).tolist() == getattr(alone, name).tolist()
    true = set(map(tuple, every.array.tolist()))
    pools = brute_force(facts, typed, choice)
    for i, (h, r, t) in enumerate(both.array.tolist()):
        scores = model.score_tails(torch.tensor([h]), torch.tensor([r]))[0].tolist()
        rivals = [scores[e] for e in pools[r] if e != t and (h, r, e) not in true]
        better, equal = (sum(f(s) for s in rivals) for f in (scores[t].__lt__, scores[t].__eq__))
        assert among.optimistic[i] == 1 + better
        assert among.pessimistic[i] == 1 + better + equal
        assert among.candidates[i] == 1 + len(rivals)


@settings(deadline=None)
@given(FACTS, TYPED.filter(bool), CHOICE)
def test_the_best_answers_are_candidates(facts, typed, choice):
    model, graph = tied_model(), graph_of(facts, typed)
    # All queries at once: four side relations of each entity.
    entity, relation, side = (column.ravel() for column in np.indices((6, 2, 2)))
    queries = Queries(entity, relation, side.astype(np.int8), 2)
    known = KnownAnswers.of(Triples.of([]))
    answer_filter = AnswerFilter(known, candidates=candidates_of(graph, choice))
    found = top_k(model, queries, 6, answer_filter)
    pools = brute_force(facts, typed, choice)
    for row, side_relation in enumerate(queries.reciprocal_relation.tolist()):
        ids = [i for i in found.ids[row].tolist() if i >= 0]
        assert set(ids) == pools[side_relation]
        scores = model.score_tails(torch.tensor([int(entity[row])]), torch.tensor([side_relation]))[
            0
        ]
        assert scores[ids].tolist() == sorted(scores[ids].tolist(), reverse=True)


def test_metrics_among_candidates_are_reported_beside_the_standard_ones():
    graph = people_graph()
    model = fivestar.train(graph, dim=4, epochs=2)
    plain, both = model.evaluate("test"), model.evaluate("test", candidates="observed")
    among = both.pop("among")
    assert both == plain
    assert among["candidates"] == "observed"
    assert among["mrr"] > plain["mrr"]  # people and countries are never confused
    assert among["count"] == plain["count"] == 2 * len(graph.test)
    # By hand: the candidates of each query without its known answers, and the target itself.
    ranked = evaluate(model.model, graph, graph.test, candidates="observed").among
    assert among["mean_candidates"] == pytest.approx(
        (ranked.tail_ranks.candidates.mean() + ranked.head_ranks.candidates.mean()) / 2
    )
    outside = 0
    for h, r, t in graph.test.array.tolist():
        of_relation = graph.train.relations == r
        outside += t not in graph.train.tails[of_relation]
        outside += h not in graph.train.heads[of_relation]
    assert among["outside"] == outside
    with pytest.raises(SettingsError, match="candidates need the task links"):
        model.evaluate("test", task="relations", candidates="observed")


def test_predictions_among_candidates():
    graph = people_graph()
    model = fivestar.train(graph, dim=4, epochs=1)
    answers = model.predict_tails("p0", "lives_in", top=80, candidates="observed")
    assert sorted(answer.id for answer in answers) == [f"c{i}" for i in range(7)]
    everyone = model.predict_tails("p0", "lives_in", top=80)
    assert len(everyone) > 60
    heads = model.predict_heads("lives_in", "c0", top=80, candidates="observed")
    assert {answer.id[0] for answer in heads} == {"p"}
    with pytest.raises(SettingsError, match="candidates restrict entities"):
        model.predict([("p0", "_", "c0")], candidates="observed")
    with pytest.raises(fivestar.FivestarError, match="has no types"):
        model.predict_tails("p0", "lives_in", candidates="types")
