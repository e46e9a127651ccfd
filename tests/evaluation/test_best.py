"""The best answers, tile by tile, against sorting everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fivestar
from fivestar.errors import NonFiniteScore
from fivestar.evaluation.best import Wanted, _largest, best_tails, log_shares
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
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


def all_scores(model, head, relation):
    if relation < len(model.relations):
        return model.score_tails(torch.tensor([head]), torch.tensor([relation]))[0]
    return model.score_heads(relation - len(model.relations), torch.tensor([head]))[0]


@pytest.mark.parametrize("which", ["all", "new", "known"])
@pytest.mark.parametrize("reciprocals", [True, False])
@given(seed=st.integers(0, 10**6), top=st.integers(1, 50))
def test_against_sorting(which, reciprocals, seed, top):
    model, graph = made(reciprocals=reciprocals), facts()
    known = KnownAnswers.of(with_reciprocals(graph.facts, RELATIONS))
    rng = np.random.default_rng(seed)
    heads, relations = rng.integers(0, ENTITIES, 9), rng.integers(0, 2 * RELATIONS, 9)
    allowed = rng.random(ENTITIES) < 0.7 if seed % 2 else None
    itself = rng.random(RELATIONS) < 0.5 if seed % 3 else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.best.TILE", 8)
        found = best_tails(model, heads, relations, top, Wanted(known, which, allowed, itself))
    for row, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        scores = all_scores(model, int(head), int(relation)).detach().numpy()
        held = set(known.of_queries(heads[row : row + 1], relations[row : row + 1])[1].tolist())
        wanted = [
            e
            for e in np.argsort(-scores, kind="stable").tolist()
            if {"all": True, "new": e not in held, "known": e in held}[which]
            and (allowed is None or allowed[e])
            and (itself is None or e != head or e in held or itself[relation % RELATIONS])
        ][:top]
        ids = found.ids[row][found.ids[row] >= 0].tolist()
        np.testing.assert_allclose(scores[ids], scores[wanted], rtol=1e-5, atol=1e-5)
        assert len(ids) == len(wanted)
        assert [e in held for e in ids] == found.known[row][: len(ids)].tolist()
        shares = torch.log_softmax(torch.as_tensor(scores), 0).numpy()[ids]
        np.testing.assert_allclose(found.log_shares[row][: len(ids)], shares, atol=1e-5)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12), columns=st.integers(1, 400))
def test_the_largest_by_blocks(seed, k, columns):
    generator = torch.Generator().manual_seed(seed)
    # Few different numbers, so that many are equal.
    scores = torch.randint(0, 1000 if seed % 2 else 5, (3, columns), generator=generator).float()
    scores[0, : columns // 2] = -torch.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fivestar.evaluation.best._BLOCK", 4)
        best, place = _largest(scores, k)
    torch.testing.assert_close(best, scores.topk(min(k, columns), dim=1).values, rtol=0, atol=0)
    torch.testing.assert_close(scores.gather(1, place), best, rtol=0, atol=0)
    assert all(len(set(row)) == len(row) for row in place.tolist())


@pytest.mark.parametrize("reciprocals", [True, False])
def test_shares_of_triples(reciprocals, monkeypatch):
    monkeypatch.setattr("fivestar.evaluation.best.TILE", 8)
    monkeypatch.setattr("fivestar.evaluation.best.ROWS", 4)
    model, rng = made(reciprocals=reciprocals), np.random.default_rng(0)
    heads, tails = rng.integers(0, ENTITIES, (2, 11))
    relations = rng.integers(0, 2 * RELATIONS, 11)
    found = log_shares(model, heads, relations, tails)
    for share, head, relation, tail in zip(found, heads, relations, tails, strict=True):
        scores = all_scores(model, int(head), int(relation)).detach()
        assert share == pytest.approx(float(torch.log_softmax(scores, 0)[tail]), abs=1e-5)


def test_no_queries_and_no_numbers():
    model = made()
    none = np.zeros(0, np.int64)
    known = KnownAnswers.of(with_reciprocals(facts().facts, RELATIONS))
    assert best_tails(model, none, none, 3, Wanted(known)).ids.shape == (0, 3)
    with torch.no_grad():
        model.entities[5] = torch.nan
    with pytest.raises(NonFiniteScore):
        best_tails(model, np.array([0]), np.array([0]), 3, Wanted(known))
