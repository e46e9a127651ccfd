"""The bootstrap in pairs: laws that do not depend on chance."""

from __future__ import annotations

import numpy as np
import pytest

from fivestar.evaluation.metrics import mrr_difference


def runs(seeds, triples=400, better=0.0, seed=0):
    """Made-up reciprocal ranks: hard and easy questions, the same for every call."""
    questions = np.random.default_rng(0).uniform(0, 0.8, triples)
    noise = np.random.default_rng(seed).normal(0, 0.02, (seeds, triples))
    return np.clip(questions + better + noise, 0, 1)


def test_a_model_is_not_better_than_itself():
    same = runs(1)
    assert mrr_difference(same, same) == (0, 0, 0, 1)


def test_a_paired_test_finds_a_difference_smaller_than_the_intervals():
    found = mrr_difference(runs(3, better=0.02), runs(3, seed=1))
    assert found.low > 0
    assert found.p < 0.01
    assert found.mrr == pytest.approx(0.02, abs=0.005)


def test_the_difference_is_antisymmetric():
    one, other = runs(2, better=0.01), runs(3, seed=1)
    there, back = mrr_difference(one, other), mrr_difference(other, one)
    assert there.mrr == pytest.approx(-back.mrr)
    assert there.low == pytest.approx(-back.high, abs=0.002)


def test_a_lucky_seed_is_not_significant():
    base = runs(1)
    uneven = np.concatenate([base + 0.05, base - 0.05, base + 0.02])
    found = mrr_difference(uneven, np.repeat(base, 3, axis=0))
    assert found.low < 0 < found.high


def test_different_triples_are_refused():
    with pytest.raises(ValueError, match="same triples"):
        mrr_difference(runs(1), runs(1, triples=10))
