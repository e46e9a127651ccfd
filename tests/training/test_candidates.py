"""Sampled candidates estimate the sum over all entities without bias."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, NO_BATCH_NORM, facts

from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.training import candidates, objectives
from fivestar.training.candidates import (
    CandidateSample,
    SampledCandidates,
    SampleWeight,
    sample_candidates,
)
from fivestar.training.negative_sampling import NegativeLoss, NegativeSampler, NegativeStep
from fivestar.training.objectives import Workspace, score_candidates
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss


@given(st.lists(st.integers(0, 19), min_size=1), st.integers(1, 30))
def test_the_answers_are_candidates_and_the_others_are_others(answers, size):
    found = sample_candidates(torch.tensor(answers), size, 20)
    rest = 20 - len(set(answers))
    if size >= rest:
        assert found is None
        return
    others, own = found.ids[:size].tolist(), found.ids[size:].tolist()
    assert sorted(own) == sorted(set(answers))
    assert len(set(others)) == size
    assert not set(others) & set(answers)
    assert found.sampled.weight * size == pytest.approx(rest)


def test_the_mean_over_all_samples_is_the_sum_over_all_entities(monkeypatch):
    monkeypatch.setattr(objectives, "TILE", 2)
    model = made("complex", scale=1.0)
    model.entities.grad = torch.zeros_like(model.entities)
    table = model.candidates().detach()
    query = model.query(torch.tensor([0]), torch.tensor([1])).detach()
    workspace = Workspace(1, len(table), table)

    def exp_sum(entities, sampled):
        sample = CandidateSample(torch.tensor(list(entities)), sampled)
        sampled_candidates = SampledCandidates(model, sample)
        objective, weight = OBJECTIVES["softmax"], query.new_ones(1)
        loss, _ = score_candidates(
            objective, query, weight, sampled_candidates, model.similarity, workspace
        )
        return loss.exp().item()

    answers, others = (2, 5), [e for e in range(len(table)) if e not in {2, 5}]
    estimates = [
        exp_sum((*sampled, *answers), SampleWeight(3, len(others) / 3))
        for sampled in combinations(others, 3)
    ]
    assert len(set(estimates)) > 1
    every = exp_sum(range(len(table)), SampleWeight(0, 1.0))
    assert np.mean(estimates) == pytest.approx(every, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loss_and_gradients_are_those_of_the_weighted_sum(form, objective, monkeypatch):
    monkeypatch.setattr(objectives, "TILE", 3)
    queries = GroupedQueries.of(facts(count=9, entities=30), 2)
    batch = queries.batch(np.arange(4), CPU)
    model, other = made(form, entities=30, relations=4), made(form, entities=30, relations=4)
    torch.manual_seed(3)
    loss = Loss(objective=OBJECTIVES[objective], num_candidates=5)
    found = CandidateStep(model, loss, max_rows=2).gradients(batch)

    torch.manual_seed(3)
    entities, sampled = sample_candidates(batch.answers, 5, 30)
    assert sampled.weight > 2
    weight = torch.ones(len(entities))
    weight[: sampled.size] = sampled.weight
    query = other.query(batch.entities, batch.relations)
    scores = other.similarity.score_pairs(query[:, None], other.candidates()[entities][None])
    true = other.similarity.score_pairs(query[batch.rows], other.candidates()[batch.answers])
    if objective == "softmax":
        log_total = (scores + weight.log()).logsumexp(dim=1)
        expected = (log_total[batch.rows] - true).mean()
    else:
        total = (torch.nn.functional.softplus(scores) * weight).sum()
        expected = (total - true.sum()) / (len(query) * 30)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("form", NO_BATCH_NORM)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("regularizer", ["none", "n3"])
def test_sampled_candidates_of_head_queries(form, objective, regularizer, monkeypatch):
    for module in (objectives, candidates):
        monkeypatch.setattr(module, "TILE", 3)
    penalty = REGULARIZERS[regularizer]
    queries = GroupedQueries.of(facts(count=25, entities=30), 2, reciprocals=False)
    batch = queries.batch(np.flatnonzero(queries.side_relations == 3)[:5], CPU)
    assert batch.exhaustive
    model, other = made(form, entities=30, relations=2), made(form, entities=30, relations=2)
    loss = Loss(penalty, 0.1, objective=OBJECTIVES[objective], num_candidates=5)
    step = CandidateStep(model, loss, max_rows=2, max_pairs=3)
    torch.manual_seed(3)
    found = step.gradients(batch)

    torch.manual_seed(3)
    ids, sampled = sample_candidates(batch.answers, 5, 30)
    weight = torch.ones(len(ids))
    weight[: sampled.size] = sampled.weight
    tails = other.candidates()[batch.entities]
    heads = other.query(ids, torch.ones_like(ids))
    scores = other.similarity.score_pairs(heads[None], tails[:, None])
    answers = other.query(batch.answers, torch.ones_like(batch.answers))
    true = other.similarity.score_pairs(answers, tails[batch.rows])
    if objective == "softmax":
        log_total = (scores + weight.log()).logsumexp(dim=1)
        expected = (log_total[batch.rows] - true).mean()
    else:
        total = (torch.nn.functional.softplus(scores) * weight).sum()
        expected = (total - true.sum()) / (len(tails) * 30)
    if penalty is not None:
        relation = other.relations[1].expand(len(answers), -1)
        head = other.entities[batch.answers]
        sizes = penalty.query_penalty(other, head, relation, answers).sum()
        sizes = sizes + penalty.tail_penalty(other, tails[batch.rows])
        expected = expected + 0.1 * sizes / len(answers)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-7)
    untouched = torch.ones(30, dtype=torch.bool).index_fill(0, step.touched, False)
    assert untouched.any()
    assert not model.entities.grad[untouched].any()


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        *(("complex", "adagrad"), ("complex", "sgd"), ("complex", "adam")),
        *(("murp", "riemannian-sgd"), ("murp", "sgd"), ("murp", "adagrad"), ("murp", "adam")),
    ],
)
@pytest.mark.parametrize("negatives", [False, True])
def test_updating_only_touched_rows_gives_the_same_result(model, optimizer, negatives):
    """Row by row, every optimizer does what it does over the whole table, step after step."""
    queries = GroupedQueries.of(facts(count=9, entities=60), 2)
    training = TrainingSettings(optimizer=optimizer, lr=0.3)
    by_rows, whole = (made(model, entities=60, relations=4) for _ in range(2))
    optimizers = [Optimizer(each, training) for each in (by_rows, whole)]

    def make_step(each):
        if negatives:
            loss, sampler = NegativeLoss("negative-sampling", 0.0), NegativeSampler(2, 60)
            return NegativeStep(each, loss, sampler)
        return CandidateStep(each, Loss(num_candidates=5), max_rows=4)

    steps = [make_step(each) for each in (by_rows, whole)]
    for number in range(4):
        batch = queries.batch(np.arange(number, number + 3), CPU)
        for step in steps:
            torch.manual_seed(number)
            step.gradients(batch)
        touched = steps[0].touched
        assert set(batch.entities.tolist()) | set(batch.answers.tolist()) <= set(touched.tolist())
        rest = torch.ones(60, dtype=torch.bool).index_fill(0, touched, False)
        assert rest.sum() > 30
        assert not steps[0].model.entities.grad[rest].any()
        optimizers[0].step(number, touched)
        optimizers[1].step(number)
    # A softmax does not depend on b_h of MuRP, and Adagrad scales up its rounding error.
    limit = 1e-6 if (model, optimizer) == ("murp", "adagrad") else 1e-12
    for mine, theirs in zip(by_rows.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=limit)
    states = [o.torch_optimizer.state[o.model.entities] for o in optimizers]
    torch.testing.assert_close(states[0], states[1], rtol=1e-12, atol=1e-12)


def test_a_batch_of_many_negatives_updates_the_whole_table():
    queries = GroupedQueries.of(facts(count=9, entities=60), 2)
    loss, sampler = NegativeLoss("margin", 1.0), NegativeSampler(40, 60)
    step = NegativeStep(made("distmult", entities=60, relations=4), loss, sampler)
    step.gradients(queries.batch(np.arange(3), CPU))
    assert step.touched is None
