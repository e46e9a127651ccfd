"""Whether one model is better than another: a bootstrap over the questions that both were asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_RESAMPLES = 2_000
Reciprocals = npt.NDArray[np.float64]


class Difference(NamedTuple):
    """Of the MRR of two models: the first less the second, its 95 % interval, and a p-value."""

    mrr: float
    low: float
    high: float
    p: float


def mrr_difference(first: Reciprocals, second: Reciprocals, seed: int = 0) -> Difference:
    """How far the MRR of one model is above that of another, and how sure that is.

    Both are (runs, triples): the mean reciprocal rank of a triple's head and tail in each run, one
    for each seed. Each resample draws triples, the same for both models, and runs of each model, so
    that neither a lucky test set nor a lucky seed passes for a better model. The p-value is
    two-sided.

    >>> import numpy as np
    >>> easy = np.linspace(0, 1, 50)[None]
    >>> mrr_difference(easy / 2 + 0.5, easy / 2).low > 0
    True
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError("both models must be asked the same questions")
    rng = np.random.default_rng(seed)
    found = np.empty(_RESAMPLES)
    for index in range(_RESAMPLES):
        gap = _mean_of_drawn(first, rng) - _mean_of_drawn(second, rng)
        found[index] = gap[rng.integers(0, len(gap), len(gap))].mean()
    low, high = np.percentile(found, [2.5, 97.5])
    fewer = min((found <= 0).sum(), (found >= 0).sum())
    p = min(1.0, 2 * (fewer + 1) / (_RESAMPLES + 1))
    return Difference(float(first.mean() - second.mean()), float(low), float(high), float(p))


def _mean_of_drawn(runs: Reciprocals, rng: np.random.Generator) -> Reciprocals:
    drawn = rng.integers(0, len(runs), len(runs))
    mean: Reciprocals = runs[drawn].mean(axis=0)
    return mean
