"""A step against the loss written out for autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made

from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.models import similarity
from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.training import candidates, objectives
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss

CPU = torch.device("cpu")


def facts(count=40, entities=7, relations=2, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, n, count) for n in (entities, relations, entities)]
    return Triples.of(np.stack(columns, axis=1)).distinct()


def written_out(model, triples, regularizer, reg, label_smoothing=0.0, objective="softmax"):
    """The mean cross-entropy of triples (or of all cells), plus the penalty of each triple."""
    both = with_reciprocals(triples, 2)
    h, r, t = (torch.as_tensor(c.astype(np.int64)) for c in both.array.T)
    query = model.query(h, r)
    scores = model.similarity.score_pairs(query[:, None], model.candidates()[None])
    if objective == "softmax":
        loss = torch.nn.functional.cross_entropy(scores, t, label_smoothing=label_smoothing)
    else:
        pairs, place = torch.unique(torch.stack([h, r]), dim=1, return_inverse=True)
        cells = model.similarity.score_pairs(model.query(*pairs)[:, None], model.candidates()[None])
        target = torch.zeros_like(cells)
        target[place, t] = 1 - label_smoothing
        target += 1 / len(model.entities) if label_smoothing else 0
        loss = torch.nn.functional.binary_cross_entropy_with_logits(cells, target)
    if regularizer is not None:
        of_query = regularizer.query_penalty(model, model.entities[h], model.relations[r], query)
        penalty = of_query.sum() + regularizer.tail_penalty(model, model.candidates()[t])
        loss = loss + reg * penalty / len(both)
    return loss


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize(
    ("objective", "grouping", "smoothing"),
    [
        ("softmax", "queries", 0.0),
        ("softmax", "triples", 0.3),
        ("bce", "queries", 0.0),
        ("bce", "queries", 0.1),
    ],
)
def test_loss_and_gradients_are_those_of_the_loss_written_out(
    form, regularizer, objective, grouping, smoothing, monkeypatch
):
    monkeypatch.setattr(objectives, "TILE", 3)
    monkeypatch.setattr(similarity, "TILE", 3)
    penalty, triples = REGULARIZERS[regularizer], facts()
    expected_model = made(form, relations=4)
    expected = written_out(expected_model, triples, penalty, 0.1, smoothing, objective)
    expected.backward()
    model = made(form, relations=4)
    queries = GroupedQueries.of(triples, 2, grouping=grouping)
    assert len(queries) == (2 * len(triples) if grouping == "triples" else 28)
    # Fewer rows and pairs at once than the batch has.
    loss = Loss(penalty, 0.1, smoothing, OBJECTIVES[objective])
    step = CandidateStep(model, loss, max_rows=5, max_pairs=3)
    found = step.gradients(queries.batch(np.arange(len(queries)), CPU))
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), expected_model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


@given(scale=st.sampled_from([1e-3, 1.0, 30.0, 300.0]), tile=st.integers(1, 9))
def test_large_scores_neither_overflow_nor_change_with_the_tile(scale, tile):
    losses = []
    for width in (tile, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objectives, "TILE", width)
            model = made("complex", relations=4, scale=scale)
            step = CandidateStep(model, Loss(), max_rows=50)
            queries = GroupedQueries.of(facts(), 2)
            losses.append(step.gradients(queries.batch(np.arange(len(queries)), CPU)).item())
            assert torch.isfinite(model.entities.grad).all()
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


@pytest.mark.parametrize("num_reference", [1, 100])
def test_only_rows_with_a_bad_reference_are_computed_again(num_reference, monkeypatch):
    monkeypatch.setattr(objectives, "TILE", 3)
    monkeypatch.setattr(objectives, "_NUM_REFERENCE", num_reference)
    again = []
    maxima = objectives._row_maxima

    def watched(query, table, *rest):
        if len(table) > num_reference:
            again.append(len(query))
        return maxima(query, table, *rest)

    monkeypatch.setattr(objectives, "_row_maxima", watched)
    expected_model, model = (made("complex", relations=4, scale=3.0) for _ in range(2))
    expected = written_out(expected_model, facts(), None, 0.0, 0.0, "softmax")
    expected.backward()
    queries = GroupedQueries.of(facts(), 2)
    step = CandidateStep(model, Loss(), max_rows=50)
    found = step.gradients(queries.batch(np.arange(len(queries)), CPU))
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    for mine, theirs in zip(model.parameters(), expected_model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-9, atol=1e-12)
    if num_reference == 1:
        assert 0 < again[0] < len(queries)
    else:
        assert again == []


@given(st.integers(0, 50), st.integers(1, 9))
def test_batches_hold_every_triple_once(seed, size):
    triples = facts(seed=seed)
    seen = []
    generator = torch.Generator().manual_seed(seed)
    for batch in GroupedQueries.of(triples, 2).batches(size, generator, CPU):
        assert len(batch.entities) <= size
        assert batch.counts.sum() == len(batch.answers)
        seen += zip(
            batch.entities[batch.rows].tolist(),
            batch.relations[batch.rows].tolist(),
            batch.answers.tolist(),
            strict=True,
        )
    assert sorted(seen) == sorted(map(tuple, with_reciprocals(triples, 2).array.tolist()))


NO_BATCH_NORM = [form for form in FORMS if form not in {"tucker", "conve"}]


@pytest.mark.parametrize("form", NO_BATCH_NORM)
@pytest.mark.parametrize("regularizer", ["n3", "n3-transformed", "none"])
@pytest.mark.parametrize(("objective", "smoothing"), [("softmax", 0.2), ("bce", 0.1)])
def test_head_queries_without_reciprocals(form, regularizer, objective, smoothing, monkeypatch):
    for module in (objectives, similarity, candidates):
        monkeypatch.setattr(module, "TILE", 3)
    penalty = REGULARIZERS[regularizer]
    model, other = made(form, relations=2), made(form, relations=2)
    triples = facts()
    queries = GroupedQueries.of(triples, 2, reciprocals=False)
    batches = list(queries.batches(100, torch.Generator().manual_seed(0), CPU))
    assert len(batches) == queries.num_batches(100) == 3
    batch = next(batch for batch in batches if int(batch.side_relations[0]) == 3)
    assert batch.exhaustive
    assert (batch.relations == 1).all()
    loss = Loss(penalty, 0.1, smoothing, OBJECTIVES[objective])
    found = CandidateStep(model, loss, max_rows=3).gradients(batch)

    every, relation = torch.arange(7), torch.ones(7, dtype=torch.long)
    transformed = other.query(every, relation)
    tails = other.candidates()[batch.entities]
    scores = other.similarity.score_pairs(transformed[None], tails[:, None])
    heads = batch.answers
    if objective == "softmax":
        expected = torch.nn.functional.cross_entropy(
            scores[batch.rows], heads, label_smoothing=smoothing
        )
    else:
        target = torch.full_like(scores, 1 / 7)
        target[batch.rows, heads] += 1 - smoothing
        expected = torch.nn.functional.binary_cross_entropy_with_logits(scores, target)
    if penalty is not None:
        rows = other.relations[relation[0]].expand(len(heads), -1)
        sizes = penalty.query_penalty(other, other.entities[heads], rows, transformed[heads]).sum()
        sizes = sizes + penalty.tail_penalty(other, tails[batch.rows])
        expected = expected + 0.1 * sizes / len(heads)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("known", [1, 100])
@pytest.mark.parametrize("zeros", [0, 1])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_large_scores_have_the_loss_of_a_stable_softmax(scale, zeros, known, monkeypatch):
    """Also if some rows are 0 and others large, or the first scores tell little of the largest."""
    monkeypatch.setattr(objectives, "_NUM_REFERENCE", known)
    model, other = (made("complex", relations=4, scale=scale) for _ in range(2))
    for each in (model, other):
        each.entities.detach()[:zeros] = 0
    queries = GroupedQueries.of(facts(), 2)
    step = CandidateStep(model, Loss(), max_rows=50)
    found = step.gradients(queries.batch(np.arange(len(queries)), CPU))
    expected = written_out(other, facts(), None, 0)
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(model.entities.grad, other.entities.grad, rtol=1e-6, atol=1e-9)


def test_an_objective_can_be_registered_with_and_without_a_decorator(monkeypatch):
    monkeypatch.setattr(OBJECTIVES, "_registered", {})
    assert objectives.register_objective("own", objectives.BCE) is objectives.BCE
    assert objectives.register_objective("other")(objectives.SOFTMAX) is objectives.SOFTMAX
    assert (OBJECTIVES["own"], OBJECTIVES["other"]) == (objectives.BCE, objectives.SOFTMAX)


def test_a_step_does_not_depend_on_the_one_before():
    """Sampled candidates, then a batch with so many answers that all entities are candidates."""
    queries = GroupedQueries.of(facts(count=12), 2)
    order = np.argsort(queries.batch(np.arange(len(queries)), CPU).counts.numpy(), kind="stable")
    few, everything = queries.batch(order[:1], CPU), queries.batch(order, CPU)
    model, fresh = made("complex", relations=4), made("complex", relations=4)
    step = CandidateStep(model, Loss(num_candidates=2), max_rows=50)
    step.gradients(few)
    assert model.entities.grad.is_sparse
    assert len(model.entities.grad.values()) < len(model.entities)
    for _ in range(2):
        step.gradients(everything)
        assert not model.entities.grad.is_sparse
        wanted = CandidateStep(fresh, Loss(num_candidates=2), max_rows=50)
        wanted.gradients(everything)
        torch.testing.assert_close(model.entities.grad, fresh.entities.grad)
