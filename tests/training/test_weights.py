"""Weighted facts: a fact of weight w counts like w copies of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.graphs import people_graph
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, NO_BATCH_NORM, facts
from torch.nn.functional import softplus

from fivestar.errors import SettingsError
from fivestar.graph.triples import Triples
from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.runs.identity import graph_hash
from fivestar.runs.settings import make_settings
from fivestar.training.loop import Trainer
from fivestar.training.negative_sampling import NegativeLoss, NegativeStep
from fivestar.training.queries import GroupedQueries
from fivestar.training.relation_loss import RelationLoss
from fivestar.training.step import CandidateStep, Loss
from fivestar.training.train import resume, train

N3 = REGULARIZERS["n3"]
# One form per kind of similarity, and those with batch normalization.
SOME_FORMS = ["complex", "cp", "rotate", "mure", "murp", "tucker", "conve"]
SOME_FORMS += ["fivestar mobius hermitian inner", "fivestar mobius hermitian l1"]
assert set(SOME_FORMS) <= set(FORMS)


def weighted_and_copied(seed=0):
    """Facts with weights 0 to 3, and as many copies of each instead."""
    triples = facts()
    copies = np.random.default_rng(seed).integers(0, 4, len(triples))
    copies[0] = 3
    rows = np.repeat(np.arange(len(triples)), copies)
    return triples.with_weights(copies), triples.take(rows)


def batch_of(triples, *, queries_of=None, **how):
    """All queries of triples; without facts of weight 0, the same for both forms."""
    grouped = GroupedQueries.of(triples, 2, **how)
    chosen = np.arange(len(grouped)) if queries_of is None else queries_of(grouped)
    return grouped.batch(chosen, CPU)


def compare(form, make_step, batches, relations=4):
    """Assert that two batches have the same loss and gradients."""
    results = []
    for batch in batches:
        model = made(form, relations=relations)
        torch.manual_seed(1)
        results.append((make_step(model).gradients(batch).item(), model))
    (loss, model), (other_loss, other) = results
    assert loss == pytest.approx(other_loss, rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad.to_dense(), theirs.grad.to_dense(), rtol=1e-5, atol=1e-9
        )


def positive(triples):
    """The same facts without those of weight 0, whose queries the copies may lack."""
    return triples.take(np.flatnonzero(triples.weights))


@pytest.mark.parametrize("form", SOME_FORMS)
@pytest.mark.parametrize(
    ("regularizer", "smoothing", "num_candidates"),
    [("n3", 0.0, 0), ("n3-transformed", 0.2, 0), ("none", 0.0, 2)],
)
def test_softmax_of_weights_is_that_of_copies(form, regularizer, smoothing, num_candidates):
    weighted, copied = weighted_and_copied()
    loss = Loss(REGULARIZERS[regularizer], 0.1, smoothing, num_candidates=num_candidates)
    rows = 5 if form not in {"tucker", "conve"} else 100

    def step(model):
        return CandidateStep(model, loss, max_rows=rows, max_pairs=3)

    compare(form, step, (batch_of(positive(weighted)), batch_of(copied)))


@pytest.mark.parametrize("form", [f for f in SOME_FORMS if f in NO_BATCH_NORM])
@pytest.mark.parametrize("num_candidates", [0, 2])
def test_head_queries_of_weights_are_those_of_copies(form, num_candidates):
    weighted, copied = weighted_and_copied()

    def heads_of_0(queries):
        return np.flatnonzero(queries.exhaustive & (queries.relations == 0))

    batches = [
        batch_of(triples, reciprocals=False, queries_of=heads_of_0)
        for triples in (positive(weighted), copied)
    ]
    loss = Loss(N3, 0.1, num_candidates=num_candidates)
    compare(form, lambda model: CandidateStep(model, loss, 5, 3), batches, relations=2)


class FixedSampler:
    """The negatives of a query follow from it, so that copies have the same ones."""

    num_negatives = 3

    def sample(self, entities, side_relations):
        return (entities[:, None] * 3 + side_relations[:, None] + torch.arange(3)) % 7


@pytest.mark.parametrize("name", ["negative-sampling", "margin"])
@pytest.mark.parametrize("reciprocals", [True, False])
def test_negative_sampling_of_weights_is_that_of_copies(name, reciprocals):
    weighted, copied = weighted_and_copied()

    def tails_of_0(queries):
        return np.flatnonzero(queries.side_relations == (0 if reciprocals else 2))

    batches = [
        batch_of(triples, reciprocals=reciprocals, queries_of=tails_of_0)
        for triples in (positive(weighted), copied)
    ]

    def step(model):
        side_weights = torch.tensor([0.5, 1.0, 1.5, 1.0], dtype=torch.float64)
        loss = NegativeLoss(name, 0.5, 1.0 if name == "negative-sampling" else None)
        return NegativeStep(model, loss, FixedSampler(), N3, 0.1, 5, side_weights)

    compare("complex", step, batches, relations=4 if reciprocals else 2)


def test_relation_loss_of_weights_is_that_of_copies():
    # One query per triple, so that all triples are used.
    weighted, copied = weighted_and_copied()
    batches = [batch_of(t, grouping="triples") for t in (positive(weighted), copied)]
    loss = Loss(relation_loss=RelationLoss(0.7))
    compare("complex", lambda model: CandidateStep(model, loss, 100), batches)


def test_bce_of_weights_is_the_loss_written_out():
    """A weight below 1 is the target of a cell; one above 1 counts the cell w times."""
    rows = [(0, 0, 1), (0, 0, 2), (1, 0, 0)]
    weights = torch.tensor([0.25, 3.0, 1.0], dtype=torch.float64)
    triples = Triples.of(rows).with_weights(weights.numpy())

    def tails(queries):
        return np.flatnonzero(queries.side_relations == 0)

    model, other = made("complex", relations=4), made("complex", relations=4)
    step = CandidateStep(model, Loss(objective=OBJECTIVES["bce"]), 5)
    batch = GroupedQueries.of(triples, 2).batch(tails(GroupedQueries.of(triples, 2)), CPU)
    loss = step.gradients(batch)
    heads = torch.tensor([0, 1])
    scores = other.similarity.score_pairs(
        other.query(heads, torch.zeros_like(heads))[:, None], other.candidates()[None]
    )
    cells = softplus(scores)
    for (h, _, t), w in zip(rows, weights, strict=True):
        s = scores[h, t]
        cells = cells.index_put(
            (torch.tensor(h), torch.tensor(t)),
            w * softplus(-s) + (1 - w).clamp(min=0) * softplus(s),
        )
    expected = cells.mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-7)
    torch.testing.assert_close(model.entities.grad, other.entities.grad)


def settings(**training):
    values = {"epochs": 3, "batch_size": 40, "evaluate_every": 1, "threads": 1} | training
    return make_settings({"model": {"name": "complex", "dim": 4}, "training": values})


def weighted_people(weights=None):
    graph = people_graph()
    if weights is None:
        weights = np.random.default_rng(0).random(len(graph.train))
    return replace(graph, train=graph.train.with_weights(weights))


@pytest.mark.parametrize(
    "changes", [{}, {"objective": "bce"}, {"objective": "negative-sampling", "num_negatives": 3}]
)
def test_weights_of_1_change_nothing_and_others_do(changes):
    graph = people_graph()
    assert GroupedQueries.of(graph.train, len(graph.relations)).weights is None
    tables = []
    for each in (graph, weighted_people(np.ones(len(graph.train))), weighted_people()):
        trainer = Trainer(each, settings(**changes))
        tables.append(trainer.run().entities.detach())
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(tables[0], tables[2], rtol=1e-2, atol=1e-4)


def test_a_run_keeps_its_weights_and_resumes_with_them(tmp_path):
    graph = weighted_people()
    whole = train(graph, settings(), tmp_path / "whole")

    def stop(line):
        if line["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(graph, settings(checkpoint_every=1), tmp_path / "cut", stop)
    resumed = resume(tmp_path / "cut")
    assert resumed.graph == graph
    assert torch.equal(resumed.model.entities, whole.model.entities)


def test_the_identity_of_a_graph_depends_on_its_weights():
    graph = people_graph()
    others = [weighted_people(), weighted_people(np.ones(len(graph.train)))]
    assert len({graph_hash(each) for each in (graph, *others)}) == 3


def test_facts_that_do_not_count_are_learned_from_by_none(tmp_path):
    with pytest.raises(SettingsError, match="weights of all training triples"):
        Trainer(weighted_people(np.zeros(len(people_graph().train))), settings())
    weights = np.zeros(len(people_graph().train))
    weights[0] = 1.0
    Trainer(weighted_people(weights), settings(batch_size=1)).run()  # no division by 0
