"""The auxiliary relation-prediction loss and its gradients, against the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, facts

from fivestar.training.gathered_rows import EntityGrad
from fivestar.training.queries import GroupedQueries
from fivestar.training.relation_loss import RelationLoss
from fivestar.training.step import CandidateStep, Loss

RELATIONS = 6


def a_batch():
    """As many triples as queries, so that all of them are used."""
    queries = GroupedQueries.of(facts(count=12, entities=30), 2, grouping="triples")
    batch = queries.batch(np.arange(8), CPU)
    assert len(batch.answers) == len(batch.entities)
    return batch


@pytest.mark.parametrize("form", [f for f in FORMS if f != "conve"])
@pytest.mark.parametrize("max_rows", [15, 1 << 14])
def test_over_all_relations_it_is_the_cross_entropy(form, max_rows):
    batch = a_batch()
    model, other = (made(form, entities=30, relations=RELATIONS) for _ in range(2))
    step = CandidateStep(model, Loss(relation_loss=RelationLoss(0.7)), 8, max_rows)
    plain = CandidateStep(other, Loss(), 8)
    relation_loss = step.gradients(batch) - plain.gradients(batch)

    every = torch.arange(RELATIONS)
    scores = torch.stack(
        [other.score(batch.entities, r.expand(len(batch.entities)), batch.answers) for r in every],
        dim=1,
    )
    expected = 0.7 * torch.nn.functional.cross_entropy(scores, batch.relations)
    expected.backward()  # added to the gradients of the objective
    assert relation_loss.item() == pytest.approx(expected.item(), abs=2e-5)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_sampled_relations_represent_all_but_the_true_one():
    """The mean of exp(loss) over many samples is that over all relations."""
    batch = a_batch()
    model = made("fivestar mobius hermitian inner", entities=30, relations=RELATIONS, scale=0.5)
    CandidateStep(model, Loss(), 8)  # allocates the gradients
    grad = EntityGrad(model)

    def exp_loss(num_candidates):
        one = batch._replace(
            entities=batch.entities[:1],
            relations=batch.relations[:1],
            counts=batch.counts[:1],
            rows=batch.rows[:1],
            answers=batch.answers[:1],
        )
        return RelationLoss(1.0, num_candidates).backward(model, grad, one, 1 << 14).exp().item()

    torch.manual_seed(0)
    some = [exp_loss(2) for _ in range(1500)]
    assert len({round(value, 6) for value in some}) > 3
    assert np.mean(some) == pytest.approx(exp_loss(0), rel=0.04)


def test_no_more_triples_are_used_than_there_are_queries():
    batch = GroupedQueries.of(facts(count=60, entities=8), 2).batch(np.arange(4), CPU)
    assert len(batch.answers) > len(batch.entities)
    model = made("complex", entities=8, relations=RELATIONS, scale=1.0)
    CandidateStep(model, Loss(), 8)
    grad = EntityGrad(model)
    torch.manual_seed(1)
    found = {RelationLoss(1.0).backward(model, grad, batch, 1 << 14).item() for _ in range(20)}
    assert len(found) > 1
