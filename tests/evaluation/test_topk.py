"""The k best answers, tile by tile, against sorting all scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fivestar
from fivestar.errors import NonFiniteScore
from fivestar.evaluation.topk import AnswerFilter, _largest, answer_log_probs, top_k
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Queries
from fivestar.models.registry import make_model

ENTITIES, RELATIONS = 37, 3


def made(name="complex", *, reciprocals=True, **options):
    model = make_model(name, ENTITIES, RELATIONS * (2 if reciprocals else 1), 4, **options).eval()
    model.reset_parameters(torch.Generator().manual_seed(1))
    with torch.no_grad():
        for table in model.parameters():
            table.add_(torch.randn(table.shape, generator=torch.Generator().manual_seed(2)) * 0.3)
    return model


def facts(count=60):
    rng = np.random.default_rng(0)
    rows = [(f"e{a}", f"r{b}", f"e{c}") for a, b, c in rng.integers(0, (37, 3, 37), (count, 3))]
    rows += [(f"e{i}", "r0", f"e{(i + 1) % 37}") for i in range(37)]
    return fivestar.read_graph(rows)


def random_queries(rng, count):
    entity, relation = rng.integers(0, ENTITIES, count), rng.integers(0, RELATIONS, count)
    return Queries(entity, relation, rng.integers(0, 2, count).astype(np.int8), RELATIONS)


def all_scores(model, queries, row, *, reciprocals):
    entity, relation = torch.tensor(queries.entity[[row]]), int(queries.relation[row])
    if queries.side[row] and not reciprocals:
        return model.score_heads(relation, entity)[0]
    if queries.side[row]:
        relation += RELATIONS
    return model.score_tails(entity, torch.tensor([relation]))[0]


@pytest.mark.parametrize("which", ["all", "new", "known"])
@pytest.mark.parametrize("reciprocals", [True, False])
@given(seed=st.integers(0, 10**6), top=st.integers(1, 50))
def test_against_sorting(which, reciprocals, seed, top):
    model, graph = made(reciprocals=reciprocals), facts()
    known = KnownAnswers.of(with_reciprocals(graph.facts, RELATIONS))
    rng = np.random.default_rng(seed)
    queries = random_queries(rng, 9)
    allowed = rng.random(ENTITIES) < 0.7 if seed % 2 else None
    allows_self = rng.random(RELATIONS) < 0.5 if seed % 3 else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.models.scoring.TILE", 8)
        patch.setattr("fivestar.models.scoring.BATCH_SIZE", 9)
        found = top_k(model, queries, top, AnswerFilter(known, which, allowed, allows_self))
    for row, (head, relation) in enumerate(zip(queries.entity, queries.relation, strict=True)):
        scores = all_scores(model, queries, row, reciprocals=reciprocals).detach().numpy()
        one = queries[row : row + 1]
        held = set(known.of_queries(one.entity, one.reciprocal_relation)[1].tolist())
        wanted = [
            e
            for e in np.argsort(-scores, kind="stable").tolist()
            if {"all": True, "new": e not in held, "known": e in held}[which]
            and (allowed is None or allowed[e])
            and (allows_self is None or e != head or e in held or allows_self[relation])
        ][:top]
        ids = found.ids[row][found.ids[row] >= 0].tolist()
        np.testing.assert_allclose(scores[ids], scores[wanted], rtol=1e-5, atol=1e-5)
        assert len(ids) == len(wanted)
        assert set(found.ids[row][len(ids) :].tolist()) <= {-1}
        assert [e in held for e in ids] == found.known[row][: len(ids)].tolist()
        shares = torch.log_softmax(torch.as_tensor(scores), 0).numpy()[ids]
        np.testing.assert_allclose(found.log_probs[row][: len(ids)], shares, atol=1e-5)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12), columns=st.integers(1, 400))
def test_the_largest_by_blocks(seed, k, columns):
    generator = torch.Generator().manual_seed(seed)
    # Few different numbers, so that many are equal.
    scores = torch.randint(0, 1000 if seed % 2 else 5, (3, columns), generator=generator).float()
    scores[0, : columns // 2] = -torch.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.topk._BLOCK", 4)
        best, place = _largest(scores, k)
    torch.testing.assert_close(best, scores.topk(min(k, columns), dim=1).values, rtol=0, atol=0)
    torch.testing.assert_close(scores.gather(1, place), best, rtol=0, atol=0)
    assert all(len(set(row)) == len(row) for row in place.tolist())


@pytest.mark.parametrize("reciprocals", [True, False])
def test_log_probabilities_of_answers(reciprocals, monkeypatch):
    monkeypatch.setattr("fivestar.models.scoring.TILE", 8)
    for module in ("evaluation.topk", "models.scoring"):
        monkeypatch.setattr(f"fivestar.{module}.BATCH_SIZE", 4)
    model, rng = made(reciprocals=reciprocals), np.random.default_rng(0)
    queries, answers = random_queries(rng, ENTITIES), np.arange(ENTITIES)
    log_probs = answer_log_probs(model, queries, answers)
    for row, answer in enumerate(answers):
        scores = all_scores(model, queries, row, reciprocals=reciprocals).detach()
        expected = float(torch.log_softmax(scores, 0)[answer])
        assert log_probs[row] == pytest.approx(expected, abs=1e-5)


def test_no_queries_and_no_numbers():
    model = made()
    none = np.zeros(0, np.int64)
    known = KnownAnswers.of(with_reciprocals(facts().facts, RELATIONS))
    queries = Queries.for_tails(none, none, RELATIONS)
    assert top_k(model, queries, 3, AnswerFilter(known)).ids.shape == (0, 3)
    with torch.no_grad():
        model.entities[5] = torch.nan
    queries = Queries.for_tails(np.array([0]), np.array([0]), RELATIONS)
    with pytest.raises(NonFiniteScore):
        top_k(model, queries, 3, AnswerFilter(known))
