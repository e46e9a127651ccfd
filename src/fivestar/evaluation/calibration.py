"""Calibrated probabilities of answers, fitted on the validation triples.

The top-k new answers to the queries of validation triples are the sample: some are validation
triples, the others count as false (some may be unknown facts, which makes the probabilities
conservative). Random negatives are too easy to calibrate on.

The feature of an answer is log p(answer | query), the log-softmax over all entities. Its
probability is fitted by isotonic regression (interpolated between the centers of the pools) or by
Platt scaling, whichever predicts the other half of validation better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import Progress
from fivestar.evaluation.topk import AnswerFilter, TopK, top_k
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.models.base import Model

Numbers = npt.NDArray[np.float64]
Method = Literal["isotonic", "platt"]
# The largest number of triples whose queries are used, and the number of answers per query.
MAX_TRIPLES, _NUM_ANSWERS = 1500, 10
_BINS = 10
_PLATT_STEPS = 50


@dataclass(frozen=True)
class Calibration:
    """A map from log p(answer | query) to the probability that the answer is true.

    isotonic: `probabilities` at `points` in ascending order, interpolated; platt: `points` are the
    coefficient and the intercept of a logistic curve.
    """

    method: Method
    points: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, log_probs: npt.ArrayLike) -> Numbers:
        """Return the probabilities of answers."""
        x = np.asarray(log_probs, float)
        if self.method == "platt":
            coefficient, intercept = self.points
            return _sigmoid(coefficient * x + intercept)
        found: Numbers = np.interp(x, self.points, self.probabilities)
        return found

    def min_log_prob(self, probability: float) -> float:
        """Return the log p from which on answers have at least this probability.

        Returns:
            −inf if all answers have it, inf if none has.

        >>> curve = Calibration("isotonic", (-4.0, -2.0, 0.0), (0.1, 0.1, 0.9))
        >>> curve.min_log_prob(0.05), curve.min_log_prob(0.5), curve.min_log_prob(0.95)
        (-inf, -1.0, inf)
        """
        if self.method == "platt":
            coefficient, intercept = self.points
            if coefficient <= 0:  # the same probability for all
                return -math.inf if float(self(0.0)) >= probability else math.inf
            if not 0 < probability < 1:
                return -math.inf if probability <= 0 else math.inf
            return (math.log(probability / (1 - probability)) - intercept) / coefficient
        reached = np.flatnonzero(np.asarray(self.probabilities) >= probability)
        if not len(reached):
            return math.inf
        after = int(reached[0])
        if after == 0:
            return -math.inf
        (x0, x1), (p0, p1) = (v[after - 1 : after + 1] for v in (self.points, self.probabilities))
        return x0 + (x1 - x0) * ((probability - p0) / (p1 - p0))

    def as_json(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return {
            "method": self.method,
            "points": list(self.points),
            "probabilities": list(self.probabilities),
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Calibration:
        """Return the calibration that `as_json` wrote."""
        return cls(given["method"], tuple(given["points"]), tuple(given["probabilities"]))


@dataclass(frozen=True)
class Reliability:
    """The reliability of probabilities: Brier score, expected calibration error, and bins."""

    brier: float
    calibration_error: float  # expected calibration error over ten bins
    bins: list[tuple[float, float, float]]  # mean probability, share of true, share of answers

    def as_json(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        bins = [
            {"probability": p, "true": share, "answers": weight} for p, share, weight in self.bins
        ]
        return {"brier": self.brier, "calibration_error": self.calibration_error, "bins": bins}


def calibrate(
    model: Model,
    graph: KnowledgeGraph,
    seed: int = 0,
    most: int = MAX_TRIPLES,
    progress: Progress | None = None,
) -> Calibration:
    """Fit calibrated probabilities on the validation triples.

    Args:
        model: the model.
        graph: its graph.
        seed: of the sample and of its halves.
        most: the largest number of triples to use.
        progress: called with (queries done, number of queries).

    Raises:
        SettingsError: if there are no validation triples.
    """
    rng = np.random.default_rng(seed)
    found, truth = top_answers(model, graph, graph.valid, rng, most, progress)
    at, half = found.log_probs[found.ids >= 0].astype(np.float64), rng.random(len(truth)) < 0.5
    methods: dict[Method, Any] = {"isotonic": _isotonic, "platt": _platt}
    errors: dict[Method, float] = dict.fromkeys(methods, 0.0)
    for name, fit in methods.items():
        for one in (half, ~half):
            if one.any() and (~one).any():
                guessed = fit(at[one], truth[one])(at[~one])
                errors[name] += float(((guessed - truth[~one]) ** 2).sum())
    chosen: Calibration = methods[min(errors, key=errors.__getitem__)](at, truth)
    return chosen


def top_answers(
    model: Model,
    graph: KnowledgeGraph,
    split: Triples,
    rng: np.random.Generator,
    most: int = MAX_TRIPLES,
    progress: Progress | None = None,
) -> tuple[TopK, Numbers]:
    """Return the top-k new answers to the queries of a split, and which of them are true."""
    if not len(split):
        raise SettingsError("calibration needs held-out triples, and this split has none")
    relations = len(graph.relations)
    sample = split.take(rng.permutation(len(split))[:most])
    queries, _ = both_sides(sample, relations)
    pairs = np.stack([queries.entity, queries.reciprocal_relation], axis=1)
    queries = queries[np.unique(pairs, axis=0, return_index=True)[1]]
    own = KnownAnswers.of(with_reciprocals(split, relations))
    facts = graph.facts
    rest = facts.array[~facts.are_in(split)]
    others = KnownAnswers.of(with_reciprocals(Triples.of(rest), relations))
    answer_filter = AnswerFilter(others, "new", allows_self=graph.allows_self_answers)
    best = top_k(model, queries, _NUM_ANSWERS, answer_filter, progress)
    row, true = own.of_queries(queries.entity, queries.reciprocal_relation)
    width = len(graph.entities)
    mine = np.arange(len(queries))[:, None] * width + best.ids
    truth = np.isin(mine, row * width + true)[best.ids >= 0]
    return best, truth.astype(np.float64)


def reliability(probabilities: Numbers, truth: Numbers) -> Reliability:
    """Return Brier score and expected calibration error of probabilities."""
    place = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    count, mean, share = (
        np.bincount(place, weight, _BINS) / len(truth)
        for weight in (np.ones(len(truth)), probabilities, truth)
    )
    used = count > 0
    bins = zip(mean[used] / count[used], share[used] / count[used], count[used], strict=True)
    return Reliability(
        float(((probabilities - truth) ** 2).mean()),
        float(np.abs(mean - share).sum()),
        [(float(m), float(t), float(w)) for m, t, w in bins],
    )


def calibration_report(
    model: Model, graph: KnowledgeGraph, calibration: Calibration, seed: int = 0
) -> dict[str, Reliability]:
    """Compare the reliability of σ(score), softmax and calibrated probabilities on test."""
    found, truth = top_answers(model, graph, graph.test, np.random.default_rng(seed))
    there = found.ids >= 0
    shares = found.log_probs[there].astype(np.float64)
    return {
        "sigmoid": reliability(_sigmoid(found.scores[there].astype(np.float64)), truth),
        "softmax": reliability(np.exp(shares), truth),
        "calibrated": reliability(calibration(shares), truth),
    }


def _isotonic(scores: Numbers, truth: Numbers) -> Calibration:
    """Fit a centered isotonic regression: the share of true answers per pool, at its mean score."""
    order = np.argsort(scores, kind="stable")
    pools: list[tuple[float, float, float]] = []  # count, sum of scores, number of true answers
    for score, is_true in zip(scores[order].tolist(), truth[order].tolist(), strict=True):
        pool = (1.0, score, is_true)
        while pools and pools[-1][2] * pool[0] >= pool[2] * pools[-1][0]:
            count, total, true = pools.pop()
            pool = (count + pool[0], total + pool[1], true + pool[2])
        pools.append(pool)
    count, total, true = np.array(pools).T
    # Laplace smoothing: no probability is 0 or 1.
    probabilities = np.maximum.accumulate((true + 1) / (count + 2))
    return Calibration("isotonic", tuple((total / count).tolist()), tuple(probabilities.tolist()))


def _platt(scores: Numbers, truth: Numbers) -> Calibration:
    """Fit a logistic regression by Newton's method on standardized scores."""
    middle, spread = float(scores.mean()), float(scores.std()) or 1.0
    x = np.stack([(scores - middle) / spread, np.ones_like(scores)])
    found = np.zeros(2)
    for _ in range(_PLATT_STEPS):
        p = _sigmoid(found @ x)
        gradient = x @ ((p - truth) / len(truth)) + 1e-9 * found
        curvature = (x * (p * (1 - p))) @ x.T / len(truth) + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        found -= step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        if float(np.abs(step).max()) < 1e-10:
            break
    if found[0] < 0:  # a decreasing curve means no information: the base rate
        share = (truth.sum() + 1) / (len(truth) + 2)
        return Calibration("platt", (0.0, float(np.log(share / (1 - share)))), ())
    coefficient = float(found[0]) / spread
    return Calibration("platt", (coefficient, float(found[1]) - coefficient * middle), ())


def _sigmoid(x: Numbers) -> Numbers:
    found: Numbers = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
    return found
