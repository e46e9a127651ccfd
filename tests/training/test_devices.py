"""Training, ranking and top-k on the meta device: nothing is left on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.graphs import people_graph
from tests.meta_device import MetaDevice
from tests.models.forms import FORMS, made

from fivestar.errors import Diverged
from fivestar.evaluation.ranking import rank_answers
from fivestar.evaluation.topk import AnswerFilter, answer_log_probs, top_k
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.runs.settings import TrainingSettings, make_settings
from fivestar.training import loop
from fivestar.training.gathered_rows import grad_of
from fivestar.training.loop import Trainer
from fivestar.training.negative_sampling import NegativeLoss, NegativeSampler, NegativeStep
from fivestar.training.objectives import BCE, SOFTMAX
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.regularizers import REGULARIZERS
from fivestar.training.relation_loss import RelationLoss
from fivestar.training.step import CandidateStep, Loss

META = torch.device("meta")
GRAPH = people_graph()
RELATIONS = len(GRAPH.relations)


def on_meta(form, *, reciprocals=True):
    relations = RELATIONS * (2 if reciprocals else 1)
    return made(form, len(GRAPH.entities), relations, dtype=torch.float32).to(META).train()


def batch_of(*, reciprocals=True):
    queries = GroupedQueries.of(GRAPH.train, RELATIONS, reciprocals=reciprocals)
    order = torch.Generator().manual_seed(0)
    return next(iter(queries.batches(16, order, META)))


LOSSES = {
    "softmax": Loss(),
    "regularized": Loss(REGULARIZERS["n3-transformed"], 0.1),
    "smoothed": Loss(label_smoothing=0.1),
    "bce": Loss(objective=BCE),
    "relations": Loss(relation_loss=RelationLoss(1.0, 2)),
    "sampled": Loss(REGULARIZERS["n3"], 0.1, objective=SOFTMAX, num_candidates=10),
}
# Where a step reads on the host: the number of distinct candidates, whether scores need a
# reference, which distances are too small for the fast formula, the sum of weights of facts, and
# the answers of parts of a batch. Everything else is queued on the device without waiting for it.
STATED = {
    "Batch.num_triples",
    "Batch.parts",
    "sample_candidates",
    "sample_distinct",
    "CandidateStep._own_gradients",
    "score_candidates",
    "_TiledScores.forward",
    "_row_maxima",
    "_squared_distances",
}


def run_step(model, step, optimizer="adagrad"):
    training = TrainingSettings(optimizer=optimizer, lr=0.1)
    batch = batch_of(reciprocals=len(model.relations) > RELATIONS)
    with MetaDevice() as device:
        loss = step.gradients(batch)
        Optimizer(model, training).step(0.0)
    assert loss.is_meta
    assert not device.on_cpu
    return device.reads


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_every_model_stays_on_its_device(form):
    model = on_meta(form)
    assert set(run_step(model, CandidateStep(model, Loss(), 16))) <= STATED
    model = on_meta(form)
    step = NegativeStep(
        model,
        NegativeLoss("negative-sampling", 6.0, 1.0),
        NegativeSampler(4, len(GRAPH.entities)),
        None,
        0.0,
        max_triples=64,
    )
    assert set(run_step(model, step)) <= {"NegativeStep._own_gradients"}


@pytest.mark.parametrize("reciprocals", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_stays_on_its_device(name, reciprocals):
    model = on_meta("fivestar mobius hermitian inner", reciprocals=reciprocals)
    reads = run_step(model, CandidateStep(model, LOSSES[name], 16))
    assert set(reads) <= STATED
    assert max(reads.values(), default=0) <= 4 * 2, "at most a few per part of a batch"


def test_a_batch_in_parts_is_cut_once():
    model = on_meta("complex")
    reads = run_step(model, CandidateStep(model, Loss(), 4))
    assert reads["Batch.parts"] == 1
    assert set(reads) <= STATED


@pytest.mark.parametrize(
    "optimizer", ["adagrad", "row-adagrad", "adam", "sgd", "riemannian-sgd", "riemannian-adagrad"]
)
@pytest.mark.parametrize("name", ["softmax", "sampled"])
def test_every_optimizer_stays_on_its_device(optimizer, name):
    model = on_meta("murp" if optimizer.startswith("riemannian-") else "complex")
    assert set(run_step(model, CandidateStep(model, LOSSES[name], 16), optimizer)) <= STATED


@pytest.mark.parametrize("optimizer", ["adagrad", "row-adagrad", "adam", "sgd"])
def test_touched_relations_stay_on_their_device(optimizer, monkeypatch):
    monkeypatch.setattr("fivestar.training.step.LARGE_TABLE", 0)
    form = "fivestar mobius hermitian inner"
    model = made(form, len(GRAPH.entities), 50 * RELATIONS, dtype=torch.float32).to(META).train()
    reads = run_step(model, CandidateStep(model, LOSSES["sampled"], 16), optimizer)
    assert grad_of(model.relations).is_sparse
    assert set(reads) <= STATED | {"Step._few_relations"}


def trainer_on_meta(**training):
    """Return a trainer on the meta device, and its step and batches."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, len(GRAPH.train))
    graph = replace(GRAPH, train=GRAPH.train.with_weights(weights))
    training = {"batch_size": 16, "clip": 0.1, "average": 2, "threads": 1, **training}
    trainer = Trainer(graph, make_settings({"model": {"dim": 4}, "training": training}))
    trainer.device = META
    trainer.model.to(META)
    trainer.optimizer = Optimizer(trainer.model, trainer.training)
    trainer.loss = trainer.loss.to(META)
    batches = trainer.queries.batches(16, torch.Generator().manual_seed(0), META)
    return trainer, trainer._make_step(), list(batches)


@pytest.mark.parametrize(
    "training",
    [
        {"num_candidates": 0},
        {"num_candidates": 5, "regularizer": "n3"},
        {"objective": "negative-sampling"},
        {"relation_loss_weight": 0.5, "label_smoothing": 0.1, "num_candidates": 0},
    ],
)
def test_whole_steps_of_a_training_stay_on_their_device(training):
    """With clipped gradients, fact weights and averaged weights."""
    trainer, step, batches = trainer_on_meta(**training)
    with MetaDevice() as device:
        for batch in batches[:2]:
            trainer._take_step(step, batch)
        trainer.average.add(trainer.model, 1)
        with trainer.average.swapped_into(trainer.model):
            pass
    assert trainer.progress.step == 2
    assert all(table.is_meta for table in trainer.model.parameters())
    assert set(device.reads) <= STATED | {"NegativeStep._own_gradients"}
    assert not device.on_cpu


def test_a_gpu_is_asked_for_the_loss_once_in_many_steps(monkeypatch):
    monkeypatch.setattr(loop, "_STEPS_PER_READ", 3)
    trainer, step, batches = trainer_on_meta(num_candidates=0)
    with MetaDevice() as device:
        for number in range(7):
            trainer._take_step(step, batches[number % len(batches)])
    assert device.reads["Trainer._read_loss"] == 2
    trainer.loss = torch.tensor(torch.nan)  # as if it was on the device
    with pytest.raises(Diverged, match="the loss is nan in epoch 1, step 7 or up to 3 steps"):
        trainer.save_checkpoint()


@pytest.mark.parametrize("reciprocals", [True, False])
@pytest.mark.parametrize("form", ["fivestar mobius hermitian inner", "transe l1", "murp"])
def test_ranking_and_top_k_stay_on_their_device(form, reciprocals):
    model = on_meta(form, reciprocals=reciprocals).eval()
    queries, answers = both_sides(GRAPH.valid, RELATIONS)
    known = KnownAnswers.of(with_reciprocals(GRAPH.facts, RELATIONS))
    allowed = np.ones(len(GRAPH.entities), bool)
    with MetaDevice() as device:
        ranks = rank_answers(model, queries, answers, known)
        for which in ("all", "new", "known"):
            allows_self = np.zeros(RELATIONS, bool)
            found = top_k(model, queries, 3, AnswerFilter(known, which, allowed, allows_self))
        log_probs = answer_log_probs(model, queries, answers)
    assert len(ranks) == len(found.ids) == len(log_probs) == len(answers)
    assert not device.on_cpu


def test_a_tensor_on_the_cpu_is_found():
    model = on_meta("complex")
    with MetaDevice() as device:
        mask = torch.zeros(3)
        with pytest.raises(RuntimeError, match="device"):
            model.entities[:3, 0] + torch.ones(3)
    assert device.on_cpu["?"] == 2
    assert not mask.is_meta
