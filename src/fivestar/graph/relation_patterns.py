"""Patterns among relations: symmetric, inverse, duplicate and composed, by rule mining.

The support of a rule is the number of facts that satisfy all of it; its confidence is the share of
the facts (or two-step paths) satisfying its left side that satisfy its right side too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Keys, Triples

# Rules below these are noise. A symmetric relation with half of its facts missing still counts.
MIN_SUPPORT = 5
MIN_CONFIDENCE = 0.5
# Maximum number of two-step paths; more are sampled.
MAX_PATHS = 2_000_000
_BATCH_SIZE = 2_000_000

Ids64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RelationRule:
    """The relations `given` imply the relation `then`, with a support and a confidence."""

    given: tuple[int, ...]
    then: int
    support: int
    confidence: float


@dataclass(frozen=True)
class RelationPatterns:
    """The patterns among the relations of a graph, by decreasing confidence."""

    symmetric: tuple[RelationRule, ...]
    anti_symmetric: tuple[RelationRule, ...]
    inverse: tuple[RelationRule, ...]
    duplicate: tuple[RelationRule, ...]
    composed: tuple[RelationRule, ...]
    # The share of all two-step paths that were sampled: 1 if `composed` is exact.
    paths_sampled: float


@dataclass(frozen=True)
class _PairIndex:
    """Facts sorted by (head, tail): the relations between any two entities."""

    keys: Keys
    relations: Ids64
    entities: int

    @classmethod
    def of(cls, facts: Triples, entities: int) -> _PairIndex:
        keys = facts.heads.astype(np.int64) * entities + facts.tails
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], facts.relations[order].astype(np.int64), entities)

    def join(self, keys: Keys) -> Iterator[tuple[npt.NDArray[np.intp], Ids64]]:
        """Yield batches of (row of the key, relation) for the relations of each pair."""
        order = np.argsort(keys, kind="stable")  # sorted keys make the search local in memory
        keys = keys[order]
        start = np.searchsorted(self.keys, keys, "left")
        count = np.searchsorted(self.keys, keys, "right") - start
        present = np.flatnonzero(count)
        rows, start, count = order[present], start[present], count[present]
        cuts = np.searchsorted(np.cumsum(count), np.arange(0, count.sum(), _BATCH_SIZE), "right")
        for first, last in pairwise([*cuts, len(rows)]):
            counts = count[first:last]
            shift = np.repeat(start[first:last] - (np.cumsum(counts) - counts), counts)
            yield (
                np.repeat(rows[first:last], counts),
                self.relations[shift + np.arange(len(shift))],
            )


def find_patterns(facts: Triples, entities: int, relations: int, seed: int = 0) -> RelationPatterns:
    """Find the patterns among relations; self-loops are ignored.

    Args:
        facts: distinct facts.
        entities: the number of entities.
        relations: the number of relations.
        seed: the seed of the sample of paths, if there are more than `MAX_PATHS`.

    Returns:
        Rules with at least `MIN_SUPPORT` and `MIN_CONFIDENCE`.
    """
    facts = facts.take(np.flatnonzero(facts.heads != facts.tails))
    index = _PairIndex.of(facts, entities)
    sizes = np.bincount(facts.relations, minlength=relations)
    forward = facts.heads.astype(np.int64) * entities + facts.tails
    backward = facts.tails.astype(np.int64) * entities + facts.heads
    mirrored = _implications(index, backward, facts.relations, sizes)
    repeated = _implications(index, forward, facts.relations, sizes)
    has_reversed_fact = {rule.given[0] for rule in mirrored if rule.given[0] == rule.then}
    composed, sampled = _compositions(facts, index, entities, relations, seed)
    return RelationPatterns(
        symmetric=_confident(rule for rule in mirrored if rule.given[0] == rule.then),
        anti_symmetric=tuple(
            RelationRule((int(r),), int(r), int(sizes[r]), 1.0)
            for r in np.argsort(-sizes, kind="stable")
            if sizes[r] >= MIN_SUPPORT and int(r) not in has_reversed_fact
        ),
        inverse=_confident(rule for rule in mirrored if rule.given[0] != rule.then),
        duplicate=_confident(rule for rule in repeated if rule.given[0] != rule.then),
        composed=composed,
        paths_sampled=sampled,
    )


def _implications(
    index: _PairIndex, keys: Keys, relations: npt.NDArray[np.int32], sizes: npt.NDArray[np.intp]
) -> list[RelationRule]:
    """Return the rules from the relation of each fact to the relations of its key."""
    width = len(sizes)
    codes, counts = _count_values(
        relations[rows].astype(np.int64) * width + implied for rows, implied in index.join(keys)
    )
    return [
        RelationRule(
            (int(code // width),), int(code % width), int(n), float(n / sizes[code // width])
        )
        for code, n in zip(codes, counts, strict=True)
    ]


def _count_values(batches: Iterator[Ids64]) -> tuple[Ids64, Ids64]:
    """Return the distinct values of all batches and their counts."""
    codes, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for batch in batches:
        new_codes, new_counts = np.unique(batch, return_counts=True)
        codes, index = np.unique(np.concatenate([codes, new_codes]), return_inverse=True)
        counts = np.bincount(index, np.concatenate([counts, new_counts])).astype(np.int64)
    return codes, counts


def _confident(rules: Iterator[RelationRule]) -> tuple[RelationRule, ...]:
    selected = (
        rule for rule in rules if rule.support >= MIN_SUPPORT and rule.confidence >= MIN_CONFIDENCE
    )
    return tuple(
        sorted(selected, key=lambda r: (-round(r.confidence, 3), -r.support, r.given, r.then))
    )


def _compositions(
    facts: Triples, index: _PairIndex, entities: int, relations: int, seed: int
) -> tuple[tuple[RelationRule, ...], float]:
    """Find rules x –r₁→ y –r₂→ z implies x –r₃→ z, over paths with x ≠ z."""
    first, second, sampled = _paths(facts, entities, seed)
    open_paths = np.flatnonzero(facts.heads[first] != facts.tails[second])
    first, second = first[open_paths], second[open_paths]
    body = facts.relations[first].astype(np.int64) * relations + facts.relations[second]
    bodies, body_counts = np.unique(body, return_counts=True)
    ends = facts.heads[first].astype(np.int64) * entities + facts.tails[second]
    codes, counts = _count_values(
        body[rows] * relations + implied for rows, implied in index.join(ends)
    )
    of_body = body_counts[np.searchsorted(bodies, codes // relations)]
    rules = (
        RelationRule(
            (int(code // relations // relations), int(code // relations % relations)),
            int(code % relations),
            round(int(n) / sampled),
            float(n / total),
        )
        for code, n, total in zip(codes, counts, of_body, strict=True)
        if n >= MIN_SUPPORT
    )
    return _confident(rules), sampled


def _paths(
    facts: Triples, entities: int, seed: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], float]:
    """Return two-step paths as pairs of facts, all or a uniform sample, and the sampled share."""
    outgoing = np.argsort(facts.heads, kind="stable")
    start = np.searchsorted(facts.heads[outgoing], np.arange(entities + 1))
    degree = np.diff(start)[facts.tails]  # number of continuations of each fact
    total = int(degree.sum())
    if total <= MAX_PATHS:
        number, share = np.arange(total), 1.0
    else:
        sample = np.random.default_rng(seed).integers(0, total, MAX_PATHS)
        # With counts, NumPy sorts; without, it hashes, which is slower and holds the interpreter.
        number, share = np.unique(sample, return_counts=True)[0], 0.0
        share = len(number) / total
    ends = np.cumsum(degree)
    first = np.searchsorted(ends, number, "right")
    step = number - (ends[first] - degree[first])
    return first, outgoing[start[facts.tails[first]] + step], share
