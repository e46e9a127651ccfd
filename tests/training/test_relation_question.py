"""The second question: which relation? Its loss and gradients are those of the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, facts

from fivestar.training.objectives import Loss
from fivestar.training.queries import Queries
from fivestar.training.relation_question import RelationQuestion
from fivestar.training.step import Step

RELATIONS = 6


def a_batch():
    """As many triples as queries, so that all of them are asked about."""
    batch = Queries.of(facts(count=12, entities=30), "triples").batch(np.arange(8), CPU)
    assert len(batch.tails) == len(batch.heads)
    return batch


@pytest.mark.parametrize("form", [f for f in FORMS if f != "conve"])
@pytest.mark.parametrize("rows_at_once", [15, 1 << 14])
def test_over_all_relations_it_is_the_cross_entropy(form, rows_at_once):
    batch = a_batch()
    model, other = (made(form, entities=30, relations=RELATIONS) for _ in range(2))
    step = Step(model, Loss(relation=RelationQuestion(0.7)), 8, rows_at_once)
    plain = Step(other, Loss(), 8)
    second = step.gradients(batch) - plain.gradients(batch)

    every = torch.arange(RELATIONS)
    scores = torch.stack(
        [other.score(batch.heads, r.expand(len(batch.heads)), batch.tails) for r in every], dim=1
    )
    expected = 0.7 * torch.nn.functional.cross_entropy(scores, batch.relations)
    expected.backward()  # on top of the gradients of the first question
    assert second.item() == pytest.approx(expected.item(), abs=2e-5)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_drawn_relations_stand_for_all_but_the_true_one():
    """Over many draws the mean of the partition is that over all relations."""
    batch = a_batch()
    model = made("fivestar mobius hermitian inner", entities=30, relations=RELATIONS, scale=0.5)
    Step(model, Loss(), 8)  # makes room for gradients

    def partition(draws):
        """exp of the loss of one triple is the partition over the power of its score."""
        one = batch._replace(
            heads=batch.heads[:1],
            relations=batch.relations[:1],
            counts=batch.counts[:1],
            rows=batch.rows[:1],
            tails=batch.tails[:1],
        )
        return RelationQuestion(1.0, draws).add(model, one, 1 << 14).exp().item()

    torch.manual_seed(0)
    some = [partition(2) for _ in range(1500)]
    assert len({round(value, 6) for value in some}) > 3
    assert np.mean(some) == pytest.approx(partition(0), rel=0.04)


def test_no_more_triples_are_asked_about_than_there_are_queries():
    batch = Queries.of(facts(count=60, entities=8)).batch(np.arange(4), CPU)
    assert len(batch.tails) > len(batch.heads)
    model = made("complex", entities=8, relations=RELATIONS, scale=1.0)
    Step(model, Loss(), 8)
    torch.manual_seed(1)
    found = {RelationQuestion(1.0).add(model, batch, 1 << 14).item() for _ in range(20)}
    assert len(found) > 1
