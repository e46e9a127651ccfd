"""Evaluate a random sample of queries: unbiased estimates of the metrics of all, with intervals.

Each sampled query is ranked among all entities, so MRR and hits@k of the sample have the metrics of
all queries as their means. A sample of the candidates instead would not: the rank among a few
entities says little about the rank among all, and its reciprocal is biased upward.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.report import Evaluation
from fivestar.graph.triples import Triples

# Queries per sample at least: below it, the intervals would be too narrow.
MIN_QUERIES = 100
# The quantile of the normal distribution for 95 %.
_QUANTILE = 1.959964


def sample_triples(triples: Triples, queries: int, seed: int = 0) -> Triples:
    """Return a sample of triples that gives this many queries, two per triple; 0: all.

    The sample is the same for every model, so that their metrics compare.

    Args:
        triples: the triples of a split.
        queries: number of queries.
        seed: of the sample.

    >>> sample_triples(Triples.of([(0, 0, 1), (1, 0, 2), (2, 0, 3)]), queries=4)
    Triples(2)
    """
    size = -(-queries // 2) if queries else len(triples)
    if size >= len(triples):
        return triples
    rows = np.random.default_rng(seed).permutation(len(triples))[:size]
    return triples.take(np.sort(rows))


def sampled_intervals(
    evaluation: Evaluation, num_triples: int, hits: tuple[int, ...]
) -> dict[str, Any]:
    """Return the 95 % confidence intervals of the metrics of all triples, given those of a sample.

    Args:
        evaluation: the ranks of the sample.
        num_triples: number of triples that were sampled from.
        hits: the k of hits@k.

    Returns:
        `queries`, the number of ranked queries, `of` how many, and `mrr_95` and `hits@k_95`.
    """
    ranks = (evaluation.head_ranks.realistic, evaluation.tail_ranks.realistic)

    def interval(by_side: list[npt.NDArray[np.float64]]) -> list[float]:
        # Both queries of a triple are sampled together, so the triple is what varies.
        return mean_interval((by_side[0] + by_side[1]) / 2, num_triples)

    return {
        "queries": 2 * len(evaluation.triples),
        "of": 2 * num_triples,
        "mrr_95": interval([1 / side for side in ranks]),
        **{
            f"hits@{k}_95": interval([(side <= k).astype(np.float64) for side in ranks])
            for k in hits
        },
    }


def mean_interval(sample: npt.NDArray[np.float64], size: int) -> list[float]:
    """Return the normal 95 % confidence interval of the mean of values between 0 and 1.

    Args:
        sample: (n,) values sampled without replacement.
        size: number of values sampled from; if it is n, the interval is a point.

    >>> mean_interval(np.array([0.0, 1.0] * 50), 100)
    [0.5, 0.5]
    >>> [round(end, 3) for end in mean_interval(np.array([0.0, 1.0] * 50), 10_000)]
    [0.402, 0.598]
    """
    mean, count = float(sample.mean()), len(sample)
    if count >= size:
        return [mean, mean]
    error = float(sample.std(ddof=1)) * sqrt((1 - count / size) / count)
    return [max(0.0, mean - _QUANTILE * error), min(1.0, mean + _QUANTILE * error)]
