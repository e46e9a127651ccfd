"""Metrics and intervals against what they are by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.test_ranking import tied_model

from fivestar.errors import SettingsError
from fivestar.evaluation.metrics import (
    mrr_difference,
    mrr_interval,
    rank_metrics,
    self_answer_metrics,
)
from fivestar.evaluation.ranking import (
    BASE_BYTES,
    FACT_BYTES,
    SCORE_BYTES,
    score_bytes_within,
    table_bytes,
)
from fivestar.evaluation.ranks import Ranks, SelfCandidate

# (rivals above, tied, below; where the query's own entity is among them)
RIVALS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9), st.sampled_from("-abt")),
    min_size=1,
    max_size=8,
).map(lambda rows: [r for r in rows if r[3] == "-" or r["atb".index(r[3])] > 0])
OWN = {
    "-": SelfCandidate.EXCLUDED,
    "a": SelfCandidate.ABOVE,
    "t": SelfCandidate.TIED,
    "b": SelfCandidate.BELOW,
}


def ranks_of(rows):
    numbers = [[1 + a, 1 + a + t, 1 + a + t + b] for a, t, b, _ in rows]
    own = np.array([OWN[each] for *_, each in rows], np.int8)
    return Ranks(*np.array(numbers, np.int64).T, own)


@given(RIVALS.filter(bool))
def test_metrics_by_definition(rows):
    found = rank_metrics(ranks_of(rows))
    realistic = [1 + a + t / 2 for a, t, _, _ in rows]
    expected = np.mean([(1 + (1 + a + t + b)) / 2 for a, t, b, _ in rows])
    assert found["count"] == len(rows)
    assert found["mr"] == pytest.approx(np.mean(realistic))
    assert found["mrr"] == pytest.approx(np.mean([1 / r for r in realistic]))
    for k in (1, 3, 10):
        assert found[f"hits@{k}"] == pytest.approx(np.mean([r <= k for r in realistic]))
    index = 1 - (np.mean(realistic) - 1) / (expected - 1) if expected > 1 else 1
    assert found["amri"] == pytest.approx(index)
    assert found["mrr_optimistic"] == pytest.approx(np.mean([1 / (1 + r[0]) for r in rows]))
    assert found["mrr_pessimistic"] == pytest.approx(np.mean([1 / (1 + r[0] + r[1]) for r in rows]))


def test_a_single_candidate_is_ranked_perfectly():
    found = rank_metrics(ranks_of([(0, 0, 0, "-")]))
    assert (found["mrr"], found["amri"], found["mr"]) == (1, 1, 1)


@given(RIVALS.filter(bool), st.data())
def test_ranks_without_the_own_entity_are_those_of_fewer_rivals(rows, data):
    count = len(rows)
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    without = [
        (a - (h and o == "a"), t - (h and o == "t"), b - (h and o == "b"), "-" if h else o)
        for (a, t, b, o), h in zip(rows, hidden, strict=True)
    ]
    found, wanted = ranks_of(rows).without_self(hidden), ranks_of(without)
    for name in ("optimistic", "pessimistic", "candidates", "self_candidate"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    metrics = self_answer_metrics(ranks_of(rows), hidden)
    plain = rank_metrics(wanted)
    assert metrics["self_answer_rate"] == pytest.approx(np.mean([r[3] == "a" for r in rows]))
    for name in ("mrr", "hits@1", "hits@3", "hits@10"):
        assert metrics[f"{name}_without_self"] == pytest.approx(plain[name])


def test_no_ranks_have_no_metrics():
    none = ranks_of([(1, 0, 0, "-")]).take(np.array([False]))
    assert rank_metrics(none) == {}
    assert self_answer_metrics(none, np.zeros(0, bool)) == {}


def test_the_interval_is_that_of_the_normal_distribution_for_many_ranks():
    rng = np.random.default_rng(0)
    ranks = ranks_of([(int(a), 0, 99 - int(a), "-") for a in rng.integers(0, 100, 2_000)])
    low, high = mrr_interval(ranks)
    reciprocal = 1 / ranks.realistic
    error = 1.96 * reciprocal.std() / np.sqrt(len(ranks))
    assert (high + low) / 2 == pytest.approx(reciprocal.mean(), abs=error / 10)
    assert (high - low) / 2 == pytest.approx(error, rel=0.1)
    assert mrr_interval(ranks) == (low, high)
    assert mrr_interval(ranks, seed=1) != (low, high)


def test_the_paired_interval_is_that_of_the_normal_distribution():
    rng = np.random.default_rng(0)
    one, two = rng.uniform(0, 1, (1, 1_000)), rng.uniform(0, 1, (1, 1_000))
    found = mrr_difference(one, two)
    gap = (one - two)[0]
    error = 1.96 * gap.std() / np.sqrt(1_000)
    assert found.mrr == pytest.approx(gap.mean())
    assert (found.low + found.high) / 2 == pytest.approx(gap.mean(), abs=error / 10)
    assert (found.high - found.low) / 2 == pytest.approx(error, rel=0.1)
    assert mrr_difference(one, two) == found
    assert mrr_difference(one, two, seed=1) != found
    # Far apart, no resample is on the other side: the smallest p that 2,000 resamples can give.
    assert mrr_difference(one + 1, two).p == mrr_difference(two, one + 1).p == 2 / 2001


def test_the_paired_test_is_two_sided():
    """For a difference of z standard errors, p is about that of the normal distribution."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 500)
    noise = (noise - noise.mean()) / noise.std()
    for z, p in ((1.0, 0.317), (2.0, 0.0455)):
        first = (noise + z / np.sqrt(500))[None]
        found = mrr_difference(first, np.zeros((1, 500)))
        assert found.p == pytest.approx(p, abs=0.03)
        assert mrr_difference(-first, np.zeros((1, 500))).p == pytest.approx(p, abs=0.03)


def test_the_bytes_of_scores_are_what_memory_leaves():
    model = tied_model()  # 6 entities and 4 relations of 2 numbers each
    assert table_bytes(model) == (6 + 4) * 2 * 4
    fixed = BASE_BYTES + 1_000 * FACT_BYTES + table_bytes(model)
    assert score_bytes_within(str(fixed + 48), model, 1_000) == 48
    assert score_bytes_within(str(fixed + 5_000), model, 1_000) == 5_000
    assert score_bytes_within("8GiB", model, 1_000) == SCORE_BYTES
    with pytest.raises(SettingsError, match=r"too little: ranking needs at least 96\.2 MiB"):
        score_bytes_within(str(fixed + 47), model, 1_000)
