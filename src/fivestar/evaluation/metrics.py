"""What ranks say: MRR, hits@k, mean rank, adjusted mean rank index, and how sure that is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fivestar.evaluation.ranking import Ranks

HITS = (1, 3, 10)
_RESAMPLES = 1_000


def metrics(ranks: Ranks, hits: tuple[int, ...] = HITS) -> dict[str, float]:
    """The usual figures of realistic ranks, with the optimistic and pessimistic MRR beside them."""
    if not len(ranks):
        return {}
    realistic = ranks.realistic
    mean_rank = float(realistic.mean())
    # The mean rank that guessing would give; the index is 1 for perfect, 0 for guessing.
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
    """Return the self-answer rate, and MRR and hits with the query's own entity left out.

    Args:
        ranks: Ranks of n targets.
        hidden: (n,) Where the query's own entity is left out of the candidates.
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
    """The 95 % bootstrap interval of the MRR."""
    reciprocal: npt.NDArray[np.float64] = 1 / ranks.realistic
    rng = np.random.default_rng(seed)
    means = [
        reciprocal[rng.integers(0, len(reciprocal), len(reciprocal))].mean()
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
