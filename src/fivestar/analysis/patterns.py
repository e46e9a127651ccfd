"""Patterns learned by a 5★E (symmetric, inverse, composed, reflexive), compared with the graph's.

A relation is symmetric if its map is its own inverse, two are inverse if one map inverts the other,
one is the composition of two others if its map is the product of theirs, and reflexive if its map
is the identity. The inverse depends on the pairing: a fact (h, r, t) scores high where t is near
M(h) (`hermitian`) or near conj(M(h)) (`bilinear`), so the inverse map is M⁻¹ or conj(M)⁻¹. With
`bilinear`, the composition of two relations is a map of h, and a relation is a map of conj(h),
which are never equal: compositions are not tested there.

The distance of two relations is the median over dimensions of the distance of their maps, which is
invariant under scaling. A map near the identity is near many others, so a pair is judged by its
proximity: how much nearer the two are than they usually are to others (the medians of their row and
column). The threshold is calibrated: every relation has a reciprocal row that was trained to be its
inverse (the positive control), and the reciprocals of the others are the permutation baseline. The
threshold separates the two best, and the p-value is the share of the baseline that is as near. All
training begins near the identity, so a relation counts as reflexive if it is nearer to it than
relations usually are, by the same threshold.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import compose, distance, identity_like, inverse
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.relation_patterns import RelationPatterns, find_patterns
from fivestar.runs.run import Run

# Number of random triples of relations in the baseline of compositions.
_NUM_RANDOM = 999
# Maximum p-value of a learned composition.
_MAX_P_VALUE = 0.05
# Minimum share of self-loops among the facts of a relation that is reflexive in the graph.
_MIN_SELF_LOOPS = 0.5


@dataclass(frozen=True)
class Control:
    """Separation of the reciprocal of a relation from those of others.

    Attributes:
        own: the median distance of the inverse map of a relation to its own reciprocal.
        others: the median distance to the reciprocals of other relations.
        auc: the probability that its own reciprocal has a higher proximity than another one.
        threshold: the minimum proximity that counts as learned.
    """

    own: float
    others: float
    auc: float
    threshold: float


@dataclass(frozen=True)
class Finding:
    """A pattern that the model has learned, that holds in the graph, or both.

    Attributes:
        pattern: "symmetric", "inverse", "reflexive" or "composed".
        relations: the names of the relations; of a composition first the two that are composed.
        distance: the median distance of the maps.
        proximity: how much nearer the maps are than usual; None for compositions.
        p_value: the share of the baseline that is as near.
        learned: whether the model has learned the pattern.
        true: whether it holds in the graph.
    """

    pattern: str
    relations: tuple[str, ...]
    distance: float
    proximity: float | None
    p_value: float
    learned: bool
    true: bool


@dataclass(frozen=True)
class LearnedPatterns:
    """All findings, with precision and recall per pattern."""

    control: Control
    findings: list[Finding]
    untested: list[str]

    def scores(self) -> dict[str, dict[str, float | int | None]]:
        """Return the counts learned, true and both, and precision and recall, per pattern.

        Only the compositions of the graph are tested, so compositions have no precision.
        """
        scores: dict[str, dict[str, float | int | None]] = {}
        for pattern in dict.fromkeys(finding.pattern for finding in self.findings):
            findings = [finding for finding in self.findings if finding.pattern == pattern]
            learned, true = sum(f.learned for f in findings), sum(f.true for f in findings)
            both = sum(f.learned and f.true for f in findings)
            scores[pattern] = {
                "learned": learned,
                "true": true,
                "both": both,
                "precision": both / learned if learned and pattern != "composed" else None,
                "recall": both / true if true else None,
            }
        return scores

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            "control": asdict(self.control),
            "scores": self.scores(),
            "findings": [asdict(finding) for finding in self.findings],
            "untested": self.untested,
        }


def learned_patterns(run: Run, seed: int = 0) -> LearnedPatterns:
    """Test which patterns of relations a run has learned.

    Args:
        run: a run of a 5★E with Möbius maps and reciprocal relations.
        seed: the seed of the baseline of compositions.

    Returns:
        The findings, the control that calibrates them, and which patterns could not be tested.

    Raises:
        SettingsError: if the run is of another model, has no reciprocals or only one relation.
    """
    model, graph = require_mobius(run), run.graph
    if not run.settings.training.reciprocals:
        raise SettingsError(
            "learned patterns are calibrated on reciprocal relations; train with reciprocals=True"
        )
    if len(graph.relations) < 2:
        raise SettingsError("a graph with one relation has no others to compare it with")
    maps, count = relation_maps(model), len(graph.relations)
    own, reciprocal = maps[:count], maps[count:]
    hermitian = model.pairing == "hermitian"
    inverses = inverse(own if hermitian else own.conj())
    control, baseline = _calibrate(inverses, reciprocal)
    truth = find_patterns(graph.facts, len(graph.entities), count)
    tester = _Tester(graph, control, baseline)
    distances = relation_distances(inverses, own)
    findings = [
        *tester.symmetric(distances, truth),
        *tester.inverse(distances, truth),
        *tester.reflexive(maps),
    ]
    untested = []
    if hermitian:
        findings += _composed(own, graph, truth, seed)
    else:
        untested.append(
            "composed: with the bilinear pairing the product of two maps is never a relation's map"
        )
    return LearnedPatterns(control, findings, untested)


def relation_distances(maps: Tensor, others: Tensor) -> Tensor:
    """Return the distances (n, m) of maps (n, d, 2, 2) and (m, d, 2, 2): medians over d."""
    rows = [distance(one, others).median(dim=-1).values for one in maps]
    return torch.stack(rows)


def _calibrate(inverses: Tensor, reciprocal: Tensor) -> tuple[Control, Tensor]:
    """Return the control, and the sorted negative proximities of the permutation baseline."""
    distances = relation_distances(inverses, reciprocal)
    is_own = torch.eye(len(distances), dtype=torch.bool)
    negative = -proximity(distances)
    own, others = negative[is_own], negative[~is_own].sort().values
    num_farther = len(others) - torch.searchsorted(others, own, right=True)
    true_positive_rate = torch.arange(1, len(own) + 1) / len(own)
    thresholds = own.sort().values
    false_positive_rate = torch.searchsorted(others, thresholds, right=True) / len(others)
    threshold = -float(thresholds[(true_positive_rate - false_positive_rate).argmax()])
    auc = float(num_farther.double().mean()) / len(others)
    own_median, others_median = (float(distances[mask].median()) for mask in (is_own, ~is_own))
    return Control(own_median, others_median, auc, threshold), others


def proximity(distances: Tensor) -> Tensor:
    """Return how far distances (n, m) are below the expectation from their row and column."""
    rows, columns = (distances.median(dim=d, keepdim=True).values for d in (1, 0))
    return rows + columns - distances.median() - distances


class _Tester:
    """Compare distances with the threshold and the baseline."""

    def __init__(self, graph: KnowledgeGraph, control: Control, baseline: Tensor) -> None:
        self.graph = graph
        self.control = control
        self.baseline = baseline

    def symmetric(self, distances: Tensor, truth: RelationPatterns) -> list[Finding]:
        true = {rule.then for rule in truth.symmetric}
        near = proximity(distances)
        return [
            self._finding("symmetric", (r,), distances[r, r], near[r, r], true=r in true)
            for r in range(len(distances))
        ]

    def inverse(self, distances: Tensor, truth: RelationPatterns) -> list[Finding]:
        """Test pairs in both directions; return those that are learned or true."""
        true = {tuple(sorted((rule.given[0], rule.then))) for rule in truth.inverse}
        near = proximity(distances)
        distances, near = torch.maximum(distances, distances.T), torch.minimum(near, near.T)
        findings = (
            self._finding("inverse", pair, distances[pair], near[pair], true=pair in true)
            for pair in combinations(range(len(distances)), 2)
        )
        return [finding for finding in findings if finding.learned or finding.true]

    def reflexive(self, maps: Tensor) -> list[Finding]:
        """Test whether maps are nearer to the identity than usual (reciprocal rows included)."""
        distances = distance(maps, identity_like(maps)).median(dim=-1).values
        near = distances.median() - distances
        train, count = self.graph.train, len(self.graph.relations)
        loops = np.bincount(train.relations[train.heads == train.tails], minlength=count)
        facts = np.maximum(np.bincount(train.relations, minlength=count), 1)
        true = loops / facts >= _MIN_SELF_LOOPS
        return [
            self._finding("reflexive", (r,), distances[r], near[r], true=true[r])
            for r in range(count)
        ]

    def _finding(
        self, pattern: str, ids: tuple[int, ...], far: Tensor, near: Tensor, *, true: bool
    ) -> Finding:
        num_nearer = int(torch.searchsorted(self.baseline, -near, right=True))
        return Finding(
            pattern,
            tuple(self.graph.relations.names_of(ids)),
            float(far),
            float(near),
            (1 + num_nearer) / (1 + len(self.baseline)),
            learned=float(near) >= self.control.threshold,
            true=bool(true),
        )


def _composed(
    maps: Tensor, graph: KnowledgeGraph, truth: RelationPatterns, seed: int
) -> list[Finding]:
    """Test the compositions of the graph against random triples of relations."""
    rules = [(*rule.given, rule.then) for rule in truth.composed]
    if not rules:
        return []
    generator = torch.Generator().manual_seed(seed)
    triples = torch.randint(len(maps), (_NUM_RANDOM, 3), generator=generator)
    baseline = _composition_distances(maps, triples).sort().values
    findings = []
    for rule, far in zip(rules, _composition_distances(maps, torch.tensor(rules)), strict=True):
        p_value = (1 + int(torch.searchsorted(baseline, far, right=True))) / (1 + _NUM_RANDOM)
        names = tuple(graph.relations.names_of(rule))
        findings.append(
            Finding(
                "composed",
                names,
                float(far),
                None,
                p_value,
                learned=p_value <= _MAX_P_VALUE,
                true=True,
            )
        )
    return findings


def _composition_distances(maps: Tensor, triples: Tensor) -> Tensor:
    """Return the distances of third relations from the first composed with the second."""
    first, second, third = (maps[column] for column in triples.unbind(dim=1))
    return distance(compose(second, first), third).median(dim=-1).values
