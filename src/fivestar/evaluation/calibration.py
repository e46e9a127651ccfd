"""How likely is an answer true? Learned on validation, from what people get to see.

The best answers to the questions of the validation facts are looked at, known ones left out: some
are facts of validation, the others are the model's own mistakes (or facts that nobody has written
down, which makes it careful). Random triples are no measure: next to them every country is a
likely one for a city.

An answer is judged by log p(answer | question), the softmax over all entities; so a question that
has a sure answer already leaves little for others. Its probability is fitted without any shape
but that more is likelier (isotonic regression: pools of neighbours whose shares would fall
otherwise; between their centres it is interpolated), or as a logistic curve (Platt), whichever
judges the other half of validation better.
"""

from __future__ import annotations

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
# Facts whose questions are asked, at most, and answers to each.
MOST_FACTS, _ANSWERS = 1500, 10
_BINS = 10
_PLATT_STEPS = 50


@dataclass(frozen=True)
class Calibration:
    """What log p(answer | question) is worth.

    isotonic: probabilities at some points, in order, interpolated between them; platt: `points`
    are the slope and the shift of a logistic curve.
    """

    method: Method
    points: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, log_shares: npt.ArrayLike) -> Numbers:
        """The probabilities of answers."""
        at = np.asarray(log_shares, float)
        if self.method == "platt":
            slope, shift = self.points
            return _sigmoid(slope * at + shift)
        found: Numbers = np.interp(at, self.points, self.probabilities)
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "method": self.method,
            "points": list(self.points),
            "probabilities": list(self.probabilities),
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Calibration:
        """What `as_json` wrote."""
        return cls(given["method"], tuple(given["points"]), tuple(given["probabilities"]))


@dataclass(frozen=True)
class Reliability:
    """How true probabilities are: mean (p − truth)², and shares of true answers by probability."""

    brier: float
    calibration_error: float  # mean |probability − share of true ones| over ten bins
    bins: list[tuple[float, float, float]]  # mean probability, share of true, share of answers

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        bins = [
            {"probability": p, "true": share, "answers": weight} for p, share, weight in self.bins
        ]
        return {"brier": self.brier, "calibration_error": self.calibration_error, "bins": bins}


def calibrate(
    model: Model,
    graph: KnowledgeGraph,
    seed: int = 0,
    most: int = MOST_FACTS,
    progress: Progress | None = None,
) -> Calibration:
    """Learn probabilities on the validation facts, or on a sample of `most` of them.

    `progress` is called with (queries done, queries in all).
    """
    rng = np.random.default_rng(seed)
    found, truth = answered(model, graph, graph.valid, rng, most, progress)
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


def answered(
    model: Model,
    graph: KnowledgeGraph,
    split: Triples,
    rng: np.random.Generator,
    most: int = MOST_FACTS,
    progress: Progress | None = None,
) -> tuple[TopK, Numbers]:
    """The best answers to the questions of some facts, and which of them are true."""
    if not len(split):
        raise SettingsError(
            "probabilities are learned and judged on held-out facts; there are none"
        )
    relations = len(graph.relations)
    some = rng.permutation(len(split))[:most]
    chosen = Triples(split.heads[some], split.relations[some], split.tails[some])
    queries, _ = both_sides(chosen, relations)
    pairs = np.stack([queries.entity, queries.reciprocal_relation], axis=1)
    queries = queries[np.unique(pairs, axis=0, return_index=True)[1]]
    own = KnownAnswers.of(with_reciprocals(split, relations))
    facts = graph.facts
    rest = facts.array[~facts.are_in(split)]
    others = KnownAnswers.of(with_reciprocals(Triples.of(rest), relations))
    answer_filter = AnswerFilter(others, "new", allows_self=graph.allows_self_answers)
    best = top_k(model, queries, _ANSWERS, answer_filter, progress)
    row, true = own.of_queries(queries.entity, queries.reciprocal_relation)
    width = len(graph.entities)
    mine = np.arange(len(queries))[:, None] * width + best.ids
    truth = np.isin(mine, row * width + true)[best.ids >= 0]
    return best, truth.astype(np.float64)


def reliability(probabilities: Numbers, truth: Numbers) -> Reliability:
    """How probabilities fit to what is true."""
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
    """Of the answers to test questions: σ(score), the softmax as it is, and calibrated."""
    found, truth = answered(model, graph, graph.test, np.random.default_rng(seed))
    there = found.ids >= 0
    shares = found.log_probs[there].astype(np.float64)
    return {
        "sigmoid": reliability(_sigmoid(found.scores[there].astype(np.float64)), truth),
        "softmax": reliability(np.exp(shares), truth),
        "calibrated": reliability(calibration(shares), truth),
    }


def _isotonic(scores: Numbers, truth: Numbers) -> Calibration:
    """Centred isotonic regression: shares of pools, at the mean score of each."""
    order = np.argsort(scores, kind="stable")
    pools: list[tuple[float, float, float]] = []  # how many, the sum of scores, and of truth
    for score, is_true in zip(scores[order].tolist(), truth[order].tolist(), strict=True):
        pool = (1.0, score, is_true)
        while pools and pools[-1][2] * pool[0] >= pool[2] * pools[-1][0]:
            count, total, true = pools.pop()
            pool = (count + pool[0], total + pool[1], true + pool[2])
        pools.append(pool)
    count, total, true = np.array(pools).T
    # Nobody is certain: as if one more of each kind had been seen in each pool.
    probabilities = np.maximum.accumulate((true + 1) / (count + 2))
    return Calibration("isotonic", tuple((total / count).tolist()), tuple(probabilities.tolist()))


def _platt(scores: Numbers, truth: Numbers) -> Calibration:
    """The logistic curve that fits best, by Newton's method on standardised scores."""
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
    if found[0] < 0:  # more is never less likely: where it seems so, it says nothing
        share = (truth.sum() + 1) / (len(truth) + 2)
        return Calibration("platt", (0.0, float(np.log(share / (1 - share)))), ())
    slope = float(found[0]) / spread
    return Calibration("platt", (slope, float(found[1]) - slope * middle), ())


def _sigmoid(x: Numbers) -> Numbers:
    found: Numbers = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
    return found
