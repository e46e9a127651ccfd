"""Ranks against a search over sets, on small graphs full of ties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fivestar.errors import NonFiniteScore
from fivestar.evaluation.metrics import mrr_interval, rank_metrics
from fivestar.evaluation.ranking import rank_answers
from fivestar.evaluation.ranks import Ranks
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Queries, both_sides
from fivestar.graph.triples import Triples
from fivestar.models.registry import make_model

ENTITY, RELATION = st.integers(0, 5), st.integers(0, 1)
FACTS = st.lists(st.tuples(ENTITY, RELATION, ENTITY), max_size=15)


def tied_model(entities=6, relations=4):
    """Few distinct whole numbers, so that many scores are equal, exactly."""
    model = make_model("distmult", entities, relations, 2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randint(-1, 2, table.shape, generator=generator))
    return model


@given(
    FACTS, FACTS.filter(bool), st.sampled_from([1, 60, 1000, 1 << 20]), st.sampled_from([2, 1024])
)
@example([], [(e, 0, (e + 1) % 6) for e in range(6)], 1000, 1024)
def test_ranks_are_those_of_a_brute_force_search(others, asked, score_bytes, tile):
    model = tied_model()
    ranked = with_reciprocals(Triples.of(asked), 2)
    facts = ranked + with_reciprocals(Triples.of(others), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.ranking.TILE", tile)
        queries, answers = both_sides(Triples.of(asked), 2)
        ranks = rank_answers(model, queries, answers, KnownAnswers.of(facts), score_bytes)
    true = set(map(tuple, facts.array.tolist()))
    for i, (h, r, t) in enumerate(ranked.array.tolist()):
        scores = model.score_tails(torch.tensor([h]), torch.tensor([r]))[0].tolist()
        rivals = [scores[e] for e in range(6) if e != t and (h, r, e) not in true]
        better, equal = (sum(f(s) for s in rivals) for f in (scores[t].__lt__, scores[t].__eq__))
        assert ranks.optimistic[i] == 1 + better
        assert ranks.pessimistic[i] == 1 + better + equal
        assert ranks.candidates[i] == 1 + len(rivals)


@given(FACTS.filter(bool), st.sampled_from([1, 1 << 20]), st.sampled_from([2, 1024]))
def test_heads_without_reciprocals_are_ranked_by_the_scores_of_triples(asked, score_bytes, tile):
    model = tied_model(relations=2)
    triples = Triples.of(asked)
    ranked = with_reciprocals(triples, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.ranking.TILE", tile)
        known = KnownAnswers.of(ranked)
        ranks = rank_answers(model, *both_sides(triples, 2), known, score_bytes)
    true = set(map(tuple, triples.array.tolist()))
    for i, (h, r, t) in enumerate(triples.array.tolist(), start=len(triples)):
        every = torch.arange(6)
        scores = model.score(every, torch.full((6,), r), torch.full((6,), t)).tolist()
        rivals = [scores[e] for e in range(6) if e != h and (e, r, t) not in true]
        assert ranks.optimistic[i] == 1 + sum(s > scores[h] for s in rivals)
        assert ranks.pessimistic[i] == 1 + sum(s >= scores[h] for s in rivals)


def test_a_nan_is_an_error_and_never_a_rank():
    model = tied_model()
    with torch.no_grad():
        model.entities[4, 0] = torch.nan
    facts = Triples.of([(0, 0, 1)])
    queries = Queries.for_tails(facts.heads, facts.relations, 2)
    with pytest.raises(NonFiniteScore, match="has diverged"):
        rank_answers(model, queries, facts.tails, KnownAnswers.of(facts))


def test_infinite_scores_are_ranked():
    model = tied_model()
    with torch.no_grad():
        model.entities.copy_(torch.arange(12.0).view(6, 2) * 3e37)
        model.relations.fill_(1.0)
    facts = Triples.of([(5, 0, 1)])
    reported = []
    ranks = rank_answers(
        model,
        Queries.for_tails(facts.heads, facts.relations, 2),
        facts.tails,
        KnownAnswers.of(facts),
        progress=lambda done, total: reported.append((done, total)),
    )
    assert reported[-1][0] == reported[-1][1] > 0
    assert (ranks.optimistic[0], ranks.pessimistic[0]) == (1, 6)


@given(FACTS.filter(bool), st.lists(st.tuples(ENTITY, st.integers(0, 4)), min_size=1))
def test_known_answers_are_the_answers_of_the_facts(facts, queries):
    heads, relations = (np.array(column) for column in zip(*queries, strict=True))
    rows, tails = KnownAnswers.of(Triples.of(facts)).of_queries(heads, relations)
    found = {(i, t) for i, t in zip(rows.tolist(), tails.tolist(), strict=True)}
    assert len(found) == len(rows)
    assert found == {
        (i, t) for i, (h, r) in enumerate(queries) for h2, r2, t in facts if (h, r) == (h2, r2)
    }


def test_metrics_of_known_ranks():
    ranks = Ranks(
        np.array([1, 2, 4]), np.array([1, 4, 4]), np.array([9, 9, 9]), np.zeros(3, np.int8)
    )
    found = rank_metrics(ranks, hits=(1, 3))
    assert found["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 4) / 3)
    assert (found["hits@1"], found["hits@3"]) == pytest.approx((1 / 3, 2 / 3))
    assert found["mr"] == pytest.approx(8 / 3)
    assert found["amri"] == pytest.approx(1 - (8 / 3 - 1) / 4)
    assert found["mrr_optimistic"] == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)
    assert found["mrr_pessimistic"] == pytest.approx((1 + 1 / 4 + 1 / 4) / 3)
    low, high = mrr_interval(ranks)
    assert low <= found["mrr"] <= high
    assert rank_metrics(ranks.take(np.zeros(3, bool))) == {}
