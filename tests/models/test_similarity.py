"""Distances by matrix products stay precise, blocks stay small, and gradients are right."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made

from fivestar.models import similarity as similarities
from fivestar.models.distances import (
    EuclideanDistance,
    ModulusDistance,
    SineDistance,
    SquaredDistance,
)
from fivestar.models.similarity import AutogradSimilarity


@given(offset=st.sampled_from([0.0, 1.0, 100.0]), near=st.sampled_from([0.0, 1e-6, 1e-4, 1e-2, 1]))
@pytest.mark.parametrize("similarity", [EuclideanDistance(), SquaredDistance()])
def test_distances_of_close_points_are_precise(similarity, offset, near):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(9, 20, generator=generator) + offset
    others = torch.randn(30, 20, generator=generator) + offset
    close = query + near * torch.randn(9, 20, generator=generator)
    table = torch.cat([others, close])
    scores = torch.empty(9, 39)
    similarity.forward(query, table, scores)
    exact = similarity.score_pairs(query.double()[:, None], table.double()[None])
    assert torch.isfinite(scores).all()
    torch.testing.assert_close(scores.double(), exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("similarity", [ModulusDistance(), SineDistance()])
def test_no_block_exceeds_the_limit(similarity, monkeypatch):
    sizes = []
    for name in ("sum_values", "difference_grad"):
        whole = getattr(type(similarity), name)

        def watched(self, difference, dim, whole=whole):
            sizes.append(difference.numel())
            return whole(self, difference, dim)

        monkeypatch.setattr(type(similarity), name, watched)
    monkeypatch.setattr(similarities, "BLOCK", 1 << 10)
    query, table, scores = torch.randn(50, 8), torch.randn(70, 8), torch.empty(50, 70)
    similarity.forward(query, table, scores)
    similarity.add_query_grad(query, table, scores, torch.zeros_like(query))
    similarity.add_candidate_grad(query, torch.ones(50), table, scores, torch.zeros_like(table))
    assert max(sizes) <= 1 << 10
    assert sum(sizes) == 3 * 50 * 70 * 8


def by_autograd(similarity):
    """The same formula, with gradients from autograd."""

    class Formula(AutogradSimilarity):
        def score_pairs(self, query, tails):
            return similarity.score_pairs(query, tails)

    return Formula()


def gradients(similarity, query, weight, table, score_grad):
    """The scores of all pairs, and the gradients by the queries and by the candidates."""
    scores, prepared = torch.empty_like(score_grad), score_grad.clone()
    similarity.forward(query, table, scores, 2.0)
    similarity.prepare_score_grad(query, table, prepared)
    query_grad, table_grad = torch.ones_like(query), torch.ones_like(table)
    similarity.add_query_grad(query, table, prepared, query_grad)
    similarity.add_candidate_grad(query, weight, table, prepared, table_grad)
    sums = similarity.sum_all_with_grad(query, weight, table, torch.zeros_like(table))
    return scores, query_grad, table_grad, *sums, *similarity.sum_pairs_with_grad(query, table[:3])


@pytest.mark.parametrize("form", FORMS)
def test_gradients_by_hand_are_those_of_autograd(form, monkeypatch):
    monkeypatch.setattr(similarities, "BLOCK", 40)  # many small blocks
    model = made(form, entities=9)
    query = model.query(torch.tensor([0, 3, 5]), torch.arange(3)).detach()
    table = model.candidates().detach().contiguous()
    weight = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    score_grad = torch.randn(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    by_hand = gradients(model.similarity, query, weight, table, score_grad)
    expected = gradients(by_autograd(model.similarity), query, weight, table, score_grad)
    torch.testing.assert_close(by_hand, expected, rtol=1e-5, atol=1e-7)


class Cube(AutogradSimilarity):
    def score_pairs(self, query, tails):
        return -(query[..., :-1] - tails).pow(3).sum(dim=-1) * query[..., -1]


def test_autograd_passes_gradcheck_in_small_blocks(monkeypatch):
    monkeypatch.setattr(similarities, "BLOCK", 12)

    class Scores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, table):
            ctx.save_for_backward(query, table)
            scores = query.new_empty(len(query), len(table))
            Cube().forward(query, table, scores)
            return scores

        @staticmethod
        def backward(ctx, score_grad):
            query, table = ctx.saved_tensors
            query_grad, table_grad = torch.zeros_like(query), torch.zeros_like(table)
            Cube().add_query_grad(query, table, score_grad, query_grad)
            ones = torch.ones(len(query), dtype=query.dtype)
            Cube().add_candidate_grad(query, ones, table, score_grad, table_grad)
            return query_grad, table_grad

    generator = torch.Generator().manual_seed(0)
    query, table = (
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((5, 4), (7, 3))
    )
    assert torch.autograd.gradcheck(Scores.apply, (query, table))


def test_autograd_never_holds_more_than_a_block(monkeypatch):
    monkeypatch.setattr(similarities, "BLOCK", 1 << 10)
    sizes = []

    class Watched(AutogradSimilarity):
        def score_pairs(self, query, tails):
            difference = query - tails
            sizes.append(difference.numel())
            return -difference.abs().sum(dim=-1)

    query, table = torch.randn(50, 8), torch.randn(70, 8)
    scores, weight = torch.empty(50, 70), torch.ones(50)
    Watched().forward(query, table, scores)
    Watched().add_query_grad(query, table, scores, torch.zeros_like(query))
    Watched().add_candidate_grad(query, weight, table, scores, torch.zeros_like(table))
    assert max(sizes) <= 1 << 10
    assert sum(sizes) == 3 * 50 * 70 * 8
