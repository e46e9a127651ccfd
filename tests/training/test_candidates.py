"""Sampled candidates estimate the sum over all entities without bias."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.utils._pytree
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, NO_BATCH_NORM, facts
from torch.utils._python_dispatch import TorchDispatchMode

from fivestar.models.registry import make_model
from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.training import candidates, objectives
from fivestar.training.candidates import (
    CandidateSample,
    SampledCandidates,
    SampleWeight,
    sample_candidates,
    sample_distinct,
)
from fivestar.training.gathered_rows import EntityGrad
from fivestar.training.negative_sampling import NegativeLoss, NegativeStep
from fivestar.training.negatives import NegativeSampler
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
    assert own == sorted(set(answers))
    assert others == sorted(set(others))
    assert len(others) == size
    assert set(others) <= set(range(20))
    assert not set(others) & set(answers)
    assert found.sampled.weight * size == pytest.approx(rest)


@pytest.mark.parametrize("share", [0.0, 2.0], ids=["permutation", "rejection"])
def test_every_sample_of_non_answers_is_as_likely_as_any_other(share, monkeypatch):
    """The counts of all 35 subsets fit a uniform distribution."""
    monkeypatch.setattr(candidates, "_LARGE_SHARE", share)
    answers, draws = torch.tensor([4, 0, 4, 8]), 7000
    torch.manual_seed(0)
    counts = Counter(
        tuple(sample_candidates(answers, 3, 10).ids[:3].tolist()) for _ in range(draws)
    )
    others = [entity for entity in range(10) if entity not in {0, 4, 8}]
    assert set(counts) == set(combinations(others, 3))
    expected = draws / len(counts)
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 65.2  # the 0.1 % quantile of 34 degrees of freedom


@given(st.integers(1, 40), st.data())
def test_distinct_numbers_below_a_limit(limit, data):
    size = data.draw(st.integers(0, limit))
    torch.manual_seed(data.draw(st.integers(0, 5)))
    found = sample_distinct(size, limit, CPU).tolist()
    assert found == sorted(set(found))
    assert len(found) == size
    assert all(0 <= number < limit for number in found)


def test_the_seed_decides_the_sample():
    def sample(seed):
        torch.manual_seed(seed)
        return sample_candidates(torch.tensor([7]), 50, 1_000).ids

    assert torch.equal(sample(1), sample(1))
    assert not torch.equal(sample(1), sample(2))


def test_a_step_with_sampled_candidates_allocates_nothing_of_the_size_of_the_graph():
    """Of a million entities: rows for the batch and its candidates, and nothing else."""
    model = make_model("distmult", 1_000_000, 4, 2)
    model.reset_parameters(torch.Generator().manual_seed(0))
    queries = GroupedQueries.of(facts(count=9, entities=30), 2)
    step = CandidateStep(model, Loss(REGULARIZERS["n3"], 0.1, num_candidates=5), max_rows=4)
    optimizer = Optimizer(model, TrainingSettings(optimizer="adagrad", clip=1.0))
    batch = queries.batch(np.arange(6), CPU)
    with Allocations() as largest:
        step.gradients(batch)
        optimizer.step(0.0)
    assert model.entities.grad.values().shape[0] < 30
    assert largest.size < 1_000


class Allocations(TorchDispatchMode):
    """Records the number of elements of the largest storage that an operator has made."""

    def __enter__(self):
        self.size = 0
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def storages(tree):
            leaves = torch.utils._pytree.tree_leaves(tree)
            dense = (x for x in leaves if isinstance(x, torch.Tensor) and not x.is_sparse)
            return {x.untyped_storage().data_ptr(): x for x in dense if x.numel()}

        result = func(*args, **(kwargs or {}))
        given = storages((args, kwargs or {}))
        for pointer, tensor in storages(result).items():
            if pointer not in given:
                size = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.size = max(self.size, size)
        return result


def test_the_mean_over_all_samples_is_the_sum_over_all_entities(monkeypatch):
    monkeypatch.setattr(objectives, "TILE", 2)
    model = made("complex", scale=1.0)
    entity_grad = EntityGrad(model)
    table = model.candidates().detach()
    query = model.query(torch.tensor([0]), torch.tensor([1])).detach()
    workspace = Workspace(1, table)

    def exp_sum(entities, sampled):
        sample = CandidateSample(torch.tensor(list(entities)), sampled)
        sampled_candidates = SampledCandidates(model, entity_grad, sample)
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
        torch.testing.assert_close(mine.grad.to_dense(), theirs.grad, rtol=1e-5, atol=1e-7)


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
        torch.testing.assert_close(mine.grad.to_dense(), theirs.grad, rtol=1e-5, atol=1e-7)
    used = {*ids.tolist(), *batch.entities.tolist()}
    assert model.entities.grad.indices()[0].tolist() == sorted(used)
    assert len(used) < 30


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        *(("complex", name) for name in ("adagrad", "row-adagrad", "sgd", "adam")),
        *(("murp", name) for name in ("sgd", "adagrad", "row-adagrad", "adam")),
        *(("murp", f"riemannian-{name}") for name in ("sgd", "adagrad")),
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
        touched = by_rows.entities.grad.indices()[0].tolist()
        assert set(batch.entities.tolist()) | set(batch.answers.tolist()) <= set(touched)
        assert len(touched) < 30
        whole.entities.grad = whole.entities.grad.to_dense()
        for each in optimizers:
            each.step(number)
    # A softmax does not depend on b_h of MuRP, and Adagrad scales up its rounding error.
    limit = 1e-6 if (model, optimizer) == ("murp", "adagrad") else 1e-12
    for mine, theirs in zip(by_rows.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=limit)
    states = [o.torch_optimizer.state[o.model.entities] for o in optimizers]
    torch.testing.assert_close(states[0], states[1], rtol=1e-10, atol=1e-12)


def test_a_batch_of_many_negatives_updates_the_whole_table():
    queries = GroupedQueries.of(facts(count=9, entities=60), 2)
    loss, sampler = NegativeLoss("margin", 1.0), NegativeSampler(40, 60)
    step = NegativeStep(made("distmult", entities=60, relations=4), loss, sampler)
    step.gradients(queries.batch(np.arange(3), CPU))
    assert not step.model.entities.grad.is_sparse


def test_label_smoothing_touches_all_entities():
    queries = GroupedQueries.of(facts(count=9, entities=60), 2)
    model = made("distmult", entities=60, relations=4)
    batch = queries.batch(np.arange(3), CPU)
    for smoothing, is_sparse in ((0.0, True), (0.1, False), (0.0, True)):
        loss = Loss(num_candidates=5, label_smoothing=smoothing)
        CandidateStep(model, loss, max_rows=4).gradients(batch)
        assert model.entities.grad.is_sparse == is_sparse
    loss = Loss(num_candidates=5, label_smoothing=0.1)
    CandidateStep(model, loss, max_rows=4).gradients(batch)
    assert bool(model.entities.grad.abs().sum(dim=1).gt(0).all())


def test_a_sample_of_all_entities_has_the_gradient_of_all():
    """The same step, after sparse ones, if the batch leaves too few entities to sample from."""
    queries = GroupedQueries.of(facts(count=9, entities=12), 2)
    sampled, plain = (made("complex", entities=12, relations=4) for _ in range(2))
    step = CandidateStep(sampled, Loss(num_candidates=7), max_rows=4)
    few, many = queries.batch(np.arange(1), CPU), queries.batch(np.arange(len(queries)), CPU)
    for batch, is_sparse in ((few, True), (many, False), (few, True), (many, False)):
        step.gradients(batch)
        assert sampled.entities.grad.is_sparse == is_sparse
    CandidateStep(plain, Loss(), max_rows=4).gradients(many)
    for mine, theirs in zip(sampled.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)
