"""Negative sampling: the samples, the losses and their gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, facts

from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.plugins import REGULARIZERS
from fivestar.training.negative_sampling import (
    NegativeLoss,
    NegativeSampler,
    NegativeStep,
    bernoulli_weights,
)
from fivestar.training.queries import GroupedQueries

LOSSES = {
    "self-adversarial": NegativeLoss("negative-sampling", 2.0, 0.7),
    "uniform": NegativeLoss("negative-sampling", 2.0, 0.0),
    "plain": NegativeLoss("negative-sampling", 0.0),
    "margin": NegativeLoss("margin", 1.0),
}


def written_out(name, true, negatives):
    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    loss = LOSSES[name]
    if name == "margin":
        return sum(max(0, 1 - true + d) for d in negatives) / len(negatives)
    if name == "plain":
        logs = math.log(sigmoid(true)) + sum(math.log(1 - sigmoid(d)) for d in negatives)
        return -logs / (1 + len(negatives))
    powers = [math.exp(loss.adversarial_temperature * d) for d in negatives]
    shares = [power / sum(powers) for power in powers]
    logs = [math.log(sigmoid(-2 - d)) * p for d, p in zip(negatives, shares, strict=True)]
    return -(math.log(sigmoid(2 + true)) + sum(logs)) / 2


@pytest.mark.parametrize("name", LOSSES)
@given(st.floats(-9, 9), st.lists(st.floats(-9, 9), min_size=1, max_size=5))
def test_losses_are_those_written_out(name, true, negatives):
    scores = (
        torch.tensor([true], dtype=torch.float64),
        torch.tensor([negatives], dtype=torch.float64),
    )
    assert LOSSES[name](*scores).item() == pytest.approx(written_out(name, true, negatives))


def test_known_answers_are_sampled_only_if_allowed():
    triples = with_reciprocals(
        facts(count=60), 2
    )  # some queries are answered by almost all of 7 entities
    true = set(map(tuple, triples.array.tolist()))
    heads, relations = (torch.tensor(c.tolist()) for c in (triples.heads, triples.relations))
    torch.manual_seed(0)
    free = NegativeSampler(50, 7).sample(heads, relations)
    assert set(free.flatten().tolist()) == set(range(7))
    filtered = NegativeSampler(50, 7, triples).sample(heads, relations)
    rows = zip(heads.tolist(), relations.tolist(), filtered.tolist(), strict=True)
    others = [(h, r, t) for h, r, tails in rows for t in tails]
    open_queries = {
        (h, r) for h, r, _ in others if len({t for q, s, t in true if (q, s) == (h, r)}) < 7
    }
    others = [(h, r, t) for h, r, t in others if (h, r) in open_queries]
    assert not true & set(others)
    # Every tail that is not an answer is sampled.
    possible = {(h, r, t) for h, r, _ in others for t in range(7)} - true
    assert set(others) == possible


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_the_loss_written_out(form, name, monkeypatch):
    model, other = made(form, relations=4), made(form, relations=4)
    regularizer = REGULARIZERS["n3"]
    queries = GroupedQueries.of(facts(), 2)
    batch = queries.batch(torch.arange(len(queries)).numpy(), CPU)
    step = NegativeStep(model, LOSSES[name], NegativeSampler(3, 7), regularizer, 0.1)
    step.max_triples = 5
    torch.manual_seed(1)
    loss = step.gradients(batch)
    torch.manual_seed(1)
    h, r, t = batch.entities[batch.rows], batch.relations[batch.rows], batch.answers
    negatives = NegativeSampler(3, 7).sample(h, r)
    query = other.query(h, r)
    true, few = other.candidates()[t], other.candidates()[negatives]
    scores = (
        other.similarity.score_pairs(query, true),
        other.similarity.score_pairs(query[:, None], few),
    )
    sizes = regularizer.query_penalty(other, other.entities[h], other.relations[r], query).sum()
    expected = LOSSES[name](*scores).mean()
    expected = expected + 0.1 * (sizes + regularizer.tail_penalty(other, true)) / len(t)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in {"tucker", "conve"}])
def test_negative_heads_without_reciprocals(form):
    model, other = made(form, relations=2), made(form, relations=2)
    regularizer, loss = REGULARIZERS["n3"], LOSSES["self-adversarial"]
    queries = GroupedQueries.of(facts(), 2, reciprocals=False)
    batches = queries.batches(100, torch.Generator().manual_seed(0), CPU)
    batch = next(batch for batch in batches if int(batch.side_relations[0]) == 2)
    step = NegativeStep(model, loss, NegativeSampler(3, 7), regularizer, 0.1)
    step.max_triples = 5
    torch.manual_seed(1)
    found = step.gradients(batch)
    torch.manual_seed(1)
    t, h = batch.entities[batch.rows], batch.answers
    r = torch.zeros_like(t)
    negatives = NegativeSampler(3, 7).sample(t, r)
    tail, query = other.candidates()[t], other.query(h, r)
    wrong = other.query(negatives.flatten(), torch.zeros_like(negatives).flatten()).unflatten(
        0, (-1, 3)
    )
    true, few = (
        other.similarity.score_pairs(query, tail),
        other.similarity.score_pairs(wrong, tail[:, None]),
    )
    sizes = regularizer.query_penalty(other, other.entities[h], other.relations[r], query).sum()
    expected = loss(true, few).mean() + 0.1 * (sizes + regularizer.tail_penalty(other, tail)) / len(
        t
    )
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


def test_bernoulli_weights_are_twice_the_probabilities():
    # Relation 0: one head, three tails; relation 1: as many of both.
    rows = [(0, 0, 1), (0, 0, 2), (0, 0, 3), (1, 1, 2), (2, 1, 3)]
    triples = Triples(*(np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)))
    weights = bernoulli_weights(triples, 2)
    # Three tails per head, one head per tail: the head is replaced with probability 3/4.
    assert weights.tolist() == [0.5, 1.0, 1.5, 1.0]


@pytest.mark.parametrize("relations", [2, 4])
def test_weighted_sides(relations):
    """A batch of one relation counts by that relation's weight."""
    weights = torch.tensor([0.5, 1.0, 1.5, 1.0], dtype=torch.float64)
    queries = GroupedQueries.of(facts(), 2, reciprocals=relations == 4)
    for relation in range(4):
        batch = queries.batch(np.flatnonzero(queries.side_relations == relation), CPU)
        found = []
        for side_weights in (None, weights):
            model = made("complex", relations=relations)
            step = NegativeStep(
                model, LOSSES["plain"], NegativeSampler(3, 7), side_weights=side_weights
            )
            torch.manual_seed(1)
            found.append((step.gradients(batch), model.entities.grad))
        (once, gradient), (weighted, other) = found
        assert weighted.item() == pytest.approx(once.item() * weights[relation].item())
        torch.testing.assert_close(other, gradient * weights[relation])
