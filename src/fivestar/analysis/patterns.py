"""Which relations a 5★E treats as symmetric, inverse, composed or reflexive, and which really are.

A relation is symmetric if its map undoes itself, two are inverse if the one undoes the other, one
is composed of two others if it does what they do in turn, and reflexive if it does nothing. What
undoes a map depends on the pairing. A fact (h, r, t) scores high where t is near M(h)
(`hermitian`) or near conj(M(h)) (`bilinear`); so the way back is M⁻¹ or conj(M)⁻¹. With
`bilinear`, two relations in turn are a map of h and one of conj(h), which are never equal:
compositions are left out there.

The distance of two relations is the median over dimensions of the distance of their maps, which
no scaling of a matrix changes. A map that does little is near to many, so what counts is by how
much two are nearer than they usually are to others (the medians of their row and their column).
What is near is learned from controls: every relation has a reciprocal row that was trained to be
its inverse (the positive control), and the reciprocals of the others are what chance gives (the
permutation baseline). The threshold is where these two part best, the p-value the share of the
baseline that is as near. All training begins near the identity, so a relation is reflexive to the
model if it is nearer to it than relations usually are, by as much.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.relations import matrices, mobius_of
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import compose, distance, identity_like, inverse
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.relation_patterns import RelationPatterns, find_patterns
from fivestar.runs.run import Run

# Triples of relations drawn as the baseline of compositions.
_DRAWN = 999
# Compositions that chance gives no more often than this count as learned.
_RARE = 0.05
# A relation is reflexive in the graph if at least this share of its facts goes from x to x.
_LOOPS = 0.5


@dataclass(frozen=True)
class Control:
    """How well the reciprocal of a relation is told from those of others."""

    own: float  # median distance of a relation's way back to its own reciprocal
    others: float  # and to those of other relations
    auc: float  # how often its own is nearer than another one, by what counts
    threshold: float  # nearer than usual by at least this counts as learned


@dataclass(frozen=True)
class Finding:
    """A pattern that the model has learned, that the graph has, or both."""

    pattern: str
    relations: tuple[str, ...]
    distance: float
    nearer: float | None  # than the two usually are to others
    p_value: float
    learned: bool
    true: bool


@dataclass(frozen=True)
class LearnedPatterns:
    """All findings, and for each pattern how many are right."""

    control: Control
    findings: list[Finding]
    untested: list[str]

    def scores(self) -> dict[str, dict[str, float | int | None]]:
        """Learned, true, both, precision and recall of each pattern.

        Of compositions only those that the graph has are tested, so they have no precision.
        """
        found: dict[str, dict[str, float | int | None]] = {}
        for pattern in dict.fromkeys(finding.pattern for finding in self.findings):
            mine = [finding for finding in self.findings if finding.pattern == pattern]
            learned, true = sum(f.learned for f in mine), sum(f.true for f in mine)
            both = sum(f.learned and f.true for f in mine)
            found[pattern] = {
                "learned": learned,
                "true": true,
                "both": both,
                "precision": both / learned if learned and pattern != "composed" else None,
                "recall": both / true if true else None,
            }
        return found

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "control": asdict(self.control),
            "scores": self.scores(),
            "findings": [asdict(finding) for finding in self.findings],
            "untested": self.untested,
        }


def learned_patterns(run: Run, seed: int = 0) -> LearnedPatterns:
    """Test all relations of a run against each other and against its graph."""
    model, graph = mobius_of(run), run.graph
    if not run.settings.training.reciprocals:
        raise SettingsError(
            "without reciprocal relations nothing tells near from far; train with them"
        )
    if len(graph.relations) < 2:
        raise SettingsError("one relation alone has no others to be compared with")
    maps, count = matrices(model), len(graph.relations)
    own, reciprocal = maps[:count], maps[count:]
    hermitian = model.pairing == "hermitian"
    back = inverse(own if hermitian else own.conj())
    control, chance = _control(back, reciprocal)
    truth = find_patterns(graph.facts, len(graph.entities), count)
    tester = _Tester(graph, control, chance)
    between = apart(back, own)
    findings = [
        *tester.symmetric(between, truth),
        *tester.inverse(between, truth),
        *tester.reflexive(maps),
    ]
    untested = []
    if hermitian:
        findings += _composed(own, graph, truth, seed)
    else:
        untested.append("composed: with the bilinear pairing two maps in turn are never one map")
    return LearnedPatterns(control, findings, untested)


def apart(some: Tensor, others: Tensor) -> Tensor:
    """The distances (n, m) of relations: medians over dimensions."""
    rows = [distance(one, others).median(dim=-1).values for one in some]
    return torch.stack(rows)


def _control(back: Tensor, reciprocal: Tensor) -> tuple[Control, Tensor]:
    """What own reciprocals and those of others are like; the distances of the latter."""
    far = apart(back, reciprocal)
    is_own = torch.eye(len(far), dtype=torch.bool)
    found = -nearer_than_usual(far)
    own, others = found[is_own], found[~is_own].sort().values
    nearer = len(others) - torch.searchsorted(others, own, right=True)
    hit = torch.arange(1, len(own) + 1) / len(own)
    at = own.sort().values
    false_alarm = torch.searchsorted(others, at, right=True) / len(others)
    threshold = -float(at[(hit - false_alarm).argmax()])
    auc = float(nearer.double().mean()) / len(others)
    near, usual = (float(far[which].median()) for which in (is_own, ~is_own))
    return Control(near, usual, auc, threshold), others


def nearer_than_usual(far: Tensor) -> Tensor:
    """By how much distances (n, m) are below what is usual for their row and their column."""
    rows, columns = (far.median(dim=d, keepdim=True).values for d in (1, 0))
    return rows + columns - far.median() - far


class _Tester:
    """Says of distances whether they are near, and how often chance is as near."""

    def __init__(self, graph: KnowledgeGraph, control: Control, chance: Tensor) -> None:
        self.graph = graph
        self.control = control
        self.chance = chance

    def symmetric(self, far: Tensor, truth: RelationPatterns) -> list[Finding]:
        true = {rule.then for rule in truth.symmetric}
        nearer = nearer_than_usual(far)
        return [
            self._finding("symmetric", (n,), far[n, n], nearer[n, n], true=n in true)
            for n in range(len(far))
        ]

    def inverse(self, far: Tensor, truth: RelationPatterns) -> list[Finding]:
        """Pairs, told in both directions; only those that are learned or true."""
        true = {tuple(sorted((rule.given[0], rule.then))) for rule in truth.inverse}
        nearer = nearer_than_usual(far)
        far, nearer = torch.maximum(far, far.T), torch.minimum(nearer, nearer.T)
        found = []
        for one in range(len(far)):
            for other in range(one + 1, len(far)):
                pair = (one, other)
                finding = self._finding("inverse", pair, far[pair], nearer[pair], true=pair in true)
                if finding.learned or finding.true:
                    found.append(finding)
        return found

    def reflexive(self, maps: Tensor) -> list[Finding]:
        """Relations that move less than is usual among all rows, those of reciprocals too."""
        still = distance(maps, identity_like(maps)).median(dim=-1).values
        nearer = still.median() - still
        train, count = self.graph.train, len(self.graph.relations)
        loops = np.bincount(train.relations[train.heads == train.tails], minlength=count)
        facts = np.maximum(np.bincount(train.relations, minlength=count), 1)
        true = loops / facts >= _LOOPS
        return [
            self._finding("reflexive", (n,), still[n], nearer[n], true=true[n])
            for n in range(count)
        ]

    def _finding(
        self, pattern: str, numbers: tuple[int, ...], far: Tensor, nearer: Tensor, *, true: bool
    ) -> Finding:
        as_near = int(torch.searchsorted(self.chance, -nearer, right=True))
        return Finding(
            pattern,
            tuple(self.graph.relations.names_of(numbers)),
            float(far),
            float(nearer),
            (1 + as_near) / (1 + len(self.chance)),
            learned=float(nearer) >= self.control.threshold,
            true=bool(true),
        )


def _composed(
    maps: Tensor, graph: KnowledgeGraph, truth: RelationPatterns, seed: int
) -> list[Finding]:
    """The rules of the graph, each against triples of relations drawn at random."""
    rules = [(*rule.given, rule.then) for rule in truth.composed]
    if not rules:
        return []
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(maps), (_DRAWN, 3), generator=generator)
    chance = _of_compositions(maps, drawn).sort().values
    found = []
    for rule, far in zip(rules, _of_compositions(maps, torch.tensor(rules)), strict=True):
        p_value = (1 + int(torch.searchsorted(chance, far, right=True))) / (1 + _DRAWN)
        names = tuple(graph.relations.names_of(rule))
        found.append(
            Finding(
                "composed", names, float(far), None, p_value, learned=p_value <= _RARE, true=True
            )
        )
    return found


def _of_compositions(maps: Tensor, numbers: Tensor) -> Tensor:
    """How far the third relation is from the first and then the second."""
    first, second, third = (maps[column] for column in numbers.unbind(dim=1))
    return distance(compose(second, first), third).median(dim=-1).values
