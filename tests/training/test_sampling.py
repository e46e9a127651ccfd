"""Drawn negatives: which are drawn, and what is made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, facts

from fivestar.graph.triples import Triples
from fivestar.training.queries import Queries
from fivestar.training.regularizers import REGULARIZERS
from fivestar.training.sampling import Negatives, SampledLoss, SampledStep, bernoulli_weights

LOSSES = {
    "self-adversarial": SampledLoss("negative-sampling", 2.0, 0.7),
    "uniform": SampledLoss("negative-sampling", 2.0, 0.0),
    "plain": SampledLoss("negative-sampling", 0.0),
    "margin": SampledLoss("margin", 1.0),
}


def written_out(name, true, drawn):
    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    loss = LOSSES[name]
    if name == "margin":
        return sum(max(0, 1 - true + d) for d in drawn) / len(drawn)
    if name == "plain":
        logs = math.log(sigmoid(true)) + sum(math.log(1 - sigmoid(d)) for d in drawn)
        return -logs / (1 + len(drawn))
    powers = [math.exp(loss.adversarial * d) for d in drawn]
    shares = [power / sum(powers) for power in powers]
    logs = [math.log(sigmoid(-2 - d)) * p for d, p in zip(drawn, shares, strict=True)]
    return -(math.log(sigmoid(2 + true)) + sum(logs)) / 2


@pytest.mark.parametrize("name", LOSSES)
@given(st.floats(-9, 9), st.lists(st.floats(-9, 9), min_size=1, max_size=5))
def test_losses_are_those_written_out(name, true, drawn):
    scores = torch.tensor([true], dtype=torch.float64), torch.tensor([drawn], dtype=torch.float64)
    assert LOSSES[name](*scores).item() == pytest.approx(written_out(name, true, drawn))


def test_known_answers_are_drawn_only_if_wished():
    triples = facts(count=60)  # some queries are answered by almost all of 7 entities
    true = set(map(tuple, triples.array.tolist()))
    heads, relations = (torch.tensor(c.tolist()) for c in (triples.heads, triples.relations))
    torch.manual_seed(0)
    free = Negatives(50, 7).draw(heads, relations)
    assert set(free.flatten().tolist()) == set(range(7))
    filtered = Negatives(50, 7, triples).draw(heads, relations)
    rows = zip(heads.tolist(), relations.tolist(), filtered.tolist(), strict=True)
    others = [(h, r, t) for h, r, tails in rows for t in tails]
    open_queries = {
        (h, r) for h, r, _ in others if len({t for q, s, t in true if (q, s) == (h, r)}) < 7
    }
    others = [(h, r, t) for h, r, t in others if (h, r) in open_queries]
    assert not true & set(others)
    # Every tail that is no answer is drawn sometimes.
    possible = {(h, r, t) for h, r, _ in others for t in range(7)} - true
    assert set(others) == possible


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_the_loss_written_out(form, name, monkeypatch):
    model, other = made(form, relations=4), made(form, relations=4)
    regularizer = REGULARIZERS["n3"]
    queries = Queries.of(facts())
    batch = queries.batch(torch.arange(len(queries)).numpy(), CPU)
    step = SampledStep(model, LOSSES[name], Negatives(3, 7), regularizer, 0.1)
    step.triples_at_once = 5
    torch.manual_seed(1)
    loss = step.gradients(batch)
    torch.manual_seed(1)
    h, r, t = batch.heads[batch.rows], batch.relations[batch.rows], batch.tails
    drawn = Negatives(3, 7).draw(h, r)
    query = other.query(h, r)
    true, few = other.candidates()[t], other.candidates()[drawn]
    scores = (
        other.similarity.score_pairs(query, true),
        other.similarity.score_pairs(query[:, None], few),
    )
    sizes = regularizer.query(other, other.entities[h], other.relations[r], query).sum()
    expected = LOSSES[name](*scores).mean()
    expected = expected + 0.1 * (sizes + regularizer.tail(other, true)) / len(t)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in {"tucker", "conve"}])
def test_drawn_heads_without_reciprocals(form):
    model, other = made(form, relations=2), made(form, relations=2)
    regularizer, loss = REGULARIZERS["n3"], LOSSES["self-adversarial"]
    queries = Queries.of(facts(), apart_from=2)
    batches = queries.batches(100, torch.Generator().manual_seed(0), CPU)
    batch = next(batch for batch in batches if int(batch.relations[0]) == 2)
    step = SampledStep(model, loss, Negatives(3, 7), regularizer, 0.1)
    step.triples_at_once = 5
    torch.manual_seed(1)
    found = step.gradients(batch)
    torch.manual_seed(1)
    t, h = batch.heads[batch.rows], batch.tails
    r = torch.zeros_like(t)
    drawn = Negatives(3, 7).draw(t, r)
    tail, query = other.candidates()[t], other.query(h, r)
    wrong = other.query(drawn.flatten(), torch.zeros_like(drawn).flatten()).unflatten(0, (-1, 3))
    true, few = (
        other.similarity.score_pairs(query, tail),
        other.similarity.score_pairs(wrong, tail[:, None]),
    )
    sizes = regularizer.query(other, other.entities[h], other.relations[r], query).sum()
    expected = loss(true, few).mean() + 0.1 * (sizes + regularizer.tail(other, tail)) / len(t)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


def test_bernoulli_weights_are_twice_the_probabilities():
    # Relation 0: one head, three tails; relation 1: as many of both.
    rows = [(0, 0, 1), (0, 0, 2), (0, 0, 3), (1, 1, 2), (2, 1, 3)]
    triples = Triples(*(np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)))
    weights = bernoulli_weights(triples, 2)
    # Three tails a head, one head a tail: the head is replaced with probability 3/4.
    assert weights.tolist() == [0.5, 1.0, 1.5, 1.0]


@pytest.mark.parametrize("relations", [2, 4])
def test_weighted_sides(relations):
    """A batch of one relation counts by that relation's weight."""
    weights = torch.tensor([0.5, 1.0, 1.5, 1.0], dtype=torch.float64)
    apart = 2 if relations == 2 else None
    queries = Queries.of(facts(), apart_from=apart)
    for relation in range(4):
        batch = queries.batch(np.flatnonzero(queries.relations == relation), CPU)
        found = []
        for side_weights in (None, weights):
            model = made("complex", relations=relations)
            step = SampledStep(model, LOSSES["plain"], Negatives(3, 7), side_weights=side_weights)
            torch.manual_seed(1)
            found.append((step.gradients(batch), model.entities.grad))
        (once, gradient), (weighted, other) = found
        assert weighted.item() == pytest.approx(once.item() * weights[relation].item())
        torch.testing.assert_close(other, gradient * weights[relation])
