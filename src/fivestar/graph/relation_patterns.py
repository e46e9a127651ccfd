"""Which relations mirror, repeat or compose others, with support and confidence.

The support of a rule is how many facts satisfy all of it; its confidence is the share of the facts
(or two-step paths) satisfying its left side that satisfy its right side too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Keys, Triples

# Rules below these are noise. A symmetric relation that is half missing is still worth seeing.
LEAST_SUPPORT = 5
LEAST_CONFIDENCE = 0.5
# Two-step paths are counted one by one up to this many, and sampled beyond.
PATHS_LOOKED_AT = 2_000_000
_ROWS_AT_ONCE = 2_000_000

Ids64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RelationRule:
    """The relations on the left side imply `then`, with this support and confidence."""

    given: tuple[int, ...]
    then: int
    support: int
    confidence: float


@dataclass(frozen=True)
class RelationPatterns:
    """The patterns among the relations of a graph, the surest first."""

    symmetric: tuple[RelationRule, ...]
    anti_symmetric: tuple[RelationRule, ...]
    inverse: tuple[RelationRule, ...]
    duplicate: tuple[RelationRule, ...]
    composed: tuple[RelationRule, ...]
    # The share of all two-step paths that were looked at: 1 if `composed` is exact.
    paths_sampled: float


@dataclass(frozen=True)
class _PairIndex:
    """Facts ordered by their (head, tail) pair: the relations between any two entities."""

    keys: Keys
    relations: Ids64
    entities: int

    @classmethod
    def of(cls, facts: Triples, entities: int) -> _PairIndex:
        keys = facts.heads.astype(np.int64) * entities + facts.tails
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], facts.relations[order].astype(np.int64), entities)

    def join(self, keys: Keys) -> Iterator[tuple[npt.NDArray[np.intp], Ids64]]:
        """For each key the relations of its pair, as (row of the key, relation), piece by piece."""
        order = np.argsort(keys, kind="stable")  # an ordered search walks the index, not the memory
        keys = keys[order]
        start = np.searchsorted(self.keys, keys, "left")
        count = np.searchsorted(self.keys, keys, "right") - start
        found = np.flatnonzero(count)
        rows, start, count = order[found], start[found], count[found]
        cuts = np.searchsorted(np.cumsum(count), np.arange(0, count.sum(), _ROWS_AT_ONCE), "right")
        for first, last in pairwise([*cuts, len(rows)]):
            some = count[first:last]
            behind = np.repeat(start[first:last] - (np.cumsum(some) - some), some)
            yield (
                np.repeat(rows[first:last], some),
                self.relations[behind + np.arange(len(behind))],
            )


def find_patterns(facts: Triples, entities: int, relations: int, seed: int = 0) -> RelationPatterns:
    """All patterns of these distinct facts; a fact that links an entity to itself is in none."""
    facts = facts.take(np.flatnonzero(facts.heads != facts.tails))
    index = _PairIndex.of(facts, entities)
    sizes = np.bincount(facts.relations, minlength=relations)
    forward = facts.heads.astype(np.int64) * entities + facts.tails
    backward = facts.tails.astype(np.int64) * entities + facts.heads
    mirrored = _implications(index, backward, facts.relations, sizes)
    repeated = _implications(index, forward, facts.relations, sizes)
    reversed_in_itself = {rule.given[0] for rule in mirrored if rule.given[0] == rule.then}
    composed, sampled = _compositions(facts, index, entities, relations, seed)
    return RelationPatterns(
        symmetric=_sure(rule for rule in mirrored if rule.given[0] == rule.then),
        anti_symmetric=tuple(
            RelationRule((int(r),), int(r), int(sizes[r]), 1.0)
            for r in np.argsort(-sizes, kind="stable")
            if sizes[r] >= LEAST_SUPPORT and int(r) not in reversed_in_itself
        ),
        inverse=_sure(rule for rule in mirrored if rule.given[0] != rule.then),
        duplicate=_sure(rule for rule in repeated if rule.given[0] != rule.then),
        composed=composed,
        paths_sampled=sampled,
    )


def _implications(
    index: _PairIndex, keys: Keys, relations: npt.NDArray[np.int32], sizes: npt.NDArray[np.intp]
) -> list[RelationRule]:
    """For facts of each relation: which relations hold between the entities of these keys?"""
    width = len(sizes)
    codes, counts = _counted(
        relations[rows].astype(np.int64) * width + found for rows, found in index.join(keys)
    )
    return [
        RelationRule(
            (int(code // width),), int(code % width), int(n), float(n / sizes[code // width])
        )
        for code, n in zip(codes, counts, strict=True)
    ]


def _counted(pieces: Iterator[Ids64]) -> tuple[Ids64, Ids64]:
    """How often each value occurs in all pieces."""
    codes, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for piece in pieces:
        more, times = np.unique(piece, return_counts=True)
        codes, place = np.unique(np.concatenate([codes, more]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, times])).astype(np.int64)
    return codes, counts


def _sure(rules: Iterator[RelationRule]) -> tuple[RelationRule, ...]:
    kept = (
        rule
        for rule in rules
        if rule.support >= LEAST_SUPPORT and rule.confidence >= LEAST_CONFIDENCE
    )
    return tuple(sorted(kept, key=lambda r: (-round(r.confidence, 3), -r.support, r.given, r.then)))


def _compositions(
    facts: Triples, index: _PairIndex, entities: int, relations: int, seed: int
) -> tuple[tuple[RelationRule, ...], float]:
    """Rules x –r₁→ y –r₂→ z implies x –r₃→ z, over paths that do not return to where they began."""
    first, second, sampled = _paths(facts, entities, seed)
    onward = np.flatnonzero(facts.heads[first] != facts.tails[second])
    first, second = first[onward], second[onward]
    body = facts.relations[first].astype(np.int64) * relations + facts.relations[second]
    bodies, body_counts = np.unique(body, return_counts=True)
    ends = facts.heads[first].astype(np.int64) * entities + facts.tails[second]
    codes, counts = _counted(body[rows] * relations + found for rows, found in index.join(ends))
    of_body = body_counts[np.searchsorted(bodies, codes // relations)]
    rules = (
        RelationRule(
            (int(code // relations // relations), int(code // relations % relations)),
            int(code % relations),
            round(int(n) / sampled),
            float(n / total),
        )
        for code, n, total in zip(codes, counts, of_body, strict=True)
        if n >= LEAST_SUPPORT
    )
    return _sure(rules), sampled


def _paths(
    facts: Triples, entities: int, seed: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], float]:
    """Two-step paths as pairs of facts, all of them or a uniform sample, and the share taken."""
    outgoing = np.argsort(facts.heads, kind="stable")
    start = np.searchsorted(facts.heads[outgoing], np.arange(entities + 1))
    degree = np.diff(start)[facts.tails]  # how many facts continue each fact
    total = int(degree.sum())
    if total <= PATHS_LOOKED_AT:
        number, share = np.arange(total), 1.0
    else:
        picked = np.random.default_rng(seed).integers(0, total, PATHS_LOOKED_AT)
        number, share = np.unique(picked), 0.0
        share = len(number) / total
    upto = np.cumsum(degree)
    first = np.searchsorted(upto, number, "right")
    step = number - (upto[first] - degree[first])
    return first, outgoing[start[facts.tails[first]] + step], share
