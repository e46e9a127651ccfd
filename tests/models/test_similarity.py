"""Distances through matrix products keep their digits; no block is larger than it may be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fivestar.models import similarity as similarities
from fivestar.models.distances import (
    EuclideanDistance,
    ModulusDistance,
    SineDistance,
    SquaredDistance,
)


@given(offset=st.sampled_from([0.0, 1.0, 100.0]), near=st.sampled_from([0.0, 1e-6, 1e-4, 1e-2, 1]))
@pytest.mark.parametrize("similarity", [EuclideanDistance(), SquaredDistance()])
def test_close_points_keep_their_distance(similarity, offset, near):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(9, 20, generator=generator) + offset
    others = torch.randn(30, 20, generator=generator) + offset
    beside = query + near * torch.randn(9, 20, generator=generator)
    table = torch.cat([others, beside])
    found = torch.empty(9, 39)
    similarity.forward(query, table, found)
    exact = similarity.score_pairs(query.double()[:, None], table.double()[None])
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("similarity", [ModulusDistance(), SineDistance()])
def test_no_block_is_larger_than_it_may_be(similarity, monkeypatch):
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
