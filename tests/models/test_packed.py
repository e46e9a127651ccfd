"""Packed candidates have the scores of the usual product, whatever the tile."""

from __future__ import annotations

import pytest
import torch

from fivestar.models import packed as packed_module
from fivestar.models.packed import PackedCandidates, pack_candidates
from fivestar.models.registry import make_model

BLOCK = packed_module._BLOCK
LARGE = 1 << 30


def model_of(name="fivestar", entities=2 * BLOCK + 77):
    model = make_model(name, entities, 4, 6).eval()
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model


@pytest.mark.parametrize("queries", [1, 7, packed_module._MAX_QUERIES, 200])
@pytest.mark.parametrize(
    ("start", "width"), [(0, 2 * BLOCK + 77), (BLOCK, BLOCK), (960, BLOCK), (2 * BLOCK + 3, 74)]
)
def test_scores_are_those_of_the_usual_product(queries, start, width):
    model = model_of()
    query = torch.randn(queries, model.candidates().shape[1])
    usual, packed = (torch.full((queries, width), torch.nan) for _ in range(2))
    model.score_tile(query, start, usual)
    assert pack_candidates(model, LARGE)
    model.score_tile(query, start, packed)
    torch.testing.assert_close(packed, usual, rtol=1e-4, atol=1e-6)
    assert model.packed.write_scores(query, start, packed) == (queries < 200)


def test_what_cannot_be_packed_is_scored_as_usual(monkeypatch):
    assert not pack_candidates(model_of("transe", 100), LARGE)  # a distance
    model = model_of(entities=100)
    assert not pack_candidates(model, model.candidates().nbytes - 1)
    assert not pack_candidates(model.double(), LARGE)


@pytest.mark.parametrize("failure", ["no operator", "other scores"])
def test_operators_that_are_missing_or_wrong_are_not_used(monkeypatch, failure):
    def write_scores(self, query, start, out):
        if failure == "no operator":
            raise AttributeError("mkldnn")
        out.fill_(0.5)
        return True

    monkeypatch.setattr(PackedCandidates, "write_scores", write_scores)
    model = model_of(entities=100)
    assert not pack_candidates(model, LARGE)
    assert model.packed is None
