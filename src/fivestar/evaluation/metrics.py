"""Metrics of ranks, their confidence intervals, and a paired test of two models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.ranks import Ranks

HITS = (1, 3, 10)
_RESAMPLES = 1_000


def rank_metrics(ranks: Ranks, hits: tuple[int, ...] = HITS) -> dict[str, float]:
    """Return MRR, hits@k, mean rank and adjusted mean rank index of realistic ranks.

    Args:
        ranks: n ranks.
        hits: the k of hits@k.

    Returns:
        The metrics, with the optimistic and pessimistic MRR and the number of ranks; empty without
        ranks.
    """
    if not len(ranks):
        return {}
    realistic = ranks.realistic
    mean_rank = float(realistic.mean())
    # The mean rank of random scores; the index is 1 for perfect ranks, 0 for random ones.
    expected = float(((ranks.candidates + 1) / 2).mean())
    return {
        "mrr": float((1 / realistic).mean()),
        **{f"hits@{k}": float((realistic <= k).mean()) for k in hits},
        "mr": mean_rank,
        "amri": 1 - (mean_rank - 1) / (expected - 1) if expected > 1 else 1.0,
        "mrr_optimistic": float((1 / ranks.optimistic).mean()),
        "mrr_pessimistic": float((1 / ranks.pessimistic).mean()),
        "count": len(ranks),
    }


def self_answer_metrics(
    ranks: Ranks, hidden: npt.NDArray[np.bool_], hits: tuple[int, ...] = HITS
) -> dict[str, float]:
    """Return the self-answer rate, and MRR and hits without the query's own entity.

    Args:
        ranks: Ranks of n targets.
        hidden: (n,) Where the query's own entity is not a candidate.
        hits: The k of hits@k.

    Returns:
        `self_answer_rate`, the share of queries that rank their own entity above the target though
        it is not a true answer; `mrr_without_self` and `hits@k_without_self`, of realistic ranks.
        Empty without ranks.

    >>> above = np.array([3, 1], np.int8)
    >>> ranks = Ranks(np.array([2, 1]), np.array([2, 1]), np.array([9, 9]), above)
    >>> self_answer_metrics(ranks, np.array([True, True]), hits=(1,))
    {'self_answer_rate': 0.5, 'mrr_without_self': 1.0, 'hits@1_without_self': 1.0}
    """
    if not len(ranks):
        return {}
    realistic = ranks.without_self(hidden).realistic
    return {
        "self_answer_rate": float(ranks.self_answers.mean()),
        "mrr_without_self": float((1 / realistic).mean()),
        **{f"hits@{k}_without_self": float((realistic <= k).mean()) for k in hits},
    }


def mrr_interval(ranks: Ranks, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap confidence interval of the MRR."""
    reciprocal: npt.NDArray[np.float64] = 1 / ranks.realistic
    rng = np.random.default_rng(seed)
    means = [
        reciprocal[rng.integers(0, len(reciprocal), len(reciprocal))].mean()
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


_PAIRED_RESAMPLES = 2_000
Reciprocals = npt.NDArray[np.float64]


class Difference(NamedTuple):
    """Difference of the MRR of two models, its 95 % confidence interval and two-sided p-value."""

    mrr: float
    low: float
    high: float
    p: float


def mrr_difference(first: Reciprocals, second: Reciprocals, seed: int = 0) -> Difference:
    """Compare the MRR of two models by a paired bootstrap over triples and seeds.

    Each resample samples triples, the same for both models, and runs of each model, so that neither
    a lucky test set nor a lucky seed makes a model look better.

    Args:
        first: (runs, triples) mean reciprocal rank of the head and the tail of each triple, one run
            per seed.
        second: the same of the other model, for the same triples.
        seed: of the bootstrap.

    Returns:
        The first MRR minus the second.

    >>> import numpy as np
    >>> easy = np.linspace(0, 1, 50)[None]
    >>> mrr_difference(easy / 2 + 0.5, easy / 2).low > 0
    True
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError("both models must rank the same triples")
    rng = np.random.default_rng(seed)
    differences = np.empty(_PAIRED_RESAMPLES)
    for index in range(_PAIRED_RESAMPLES):
        gap = _resampled_mean(first, rng) - _resampled_mean(second, rng)
        differences[index] = gap[rng.integers(0, len(gap), len(gap))].mean()
    low, high = np.percentile(differences, [2.5, 97.5])
    fewer = min((differences <= 0).sum(), (differences >= 0).sum())
    p = min(1.0, 2 * (fewer + 1) / (_PAIRED_RESAMPLES + 1))
    return Difference(float(first.mean() - second.mean()), float(low), float(high), float(p))


def _resampled_mean(runs: Reciprocals, rng: np.random.Generator) -> Reciprocals:
    sample = rng.integers(0, len(runs), len(runs))
    mean: Reciprocals = runs[sample].mean(axis=0)
    return mean
