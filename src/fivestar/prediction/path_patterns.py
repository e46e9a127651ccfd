"""Supporting paths: which sequences of relations join head and tail, and how reliable each is.

A path pattern is a sequence of relations, such as ←born_in— —capital_of→. Its confidence is the
share of the pairs joined by it in train that also have the relation of the triple, as in rule
mining (AnyBURL: Meilicke et al., IJCAI 2019). Start entities are visited in random order until
enough pairs are seen, so the work is bounded; if all were visited, the confidence is exact. The
pair to explain does not count.

That a path connects head and tail does not make it evidence: cities and the neighbors of their
country are connected, and none of them has in_country. A pattern supports the triple only if its
confidence exceeds the base rate, with which any head and tail of the relation have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fivestar.cancellation import check_cancelled
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.steps import Numbers, Steps
from fivestar.graph.triples import Ids, Triples
from fivestar.prediction.paths import MAX_LENGTH, PathCounts, TripleIds, count_paths, find_path
from fivestar.prediction.predictions import Named

# Patterns screened with a few pairs, and those of them measured with many.
_MAX_SCREENED = 300
_MAX_MEASURED = 30
_SCREENING_PAIRS = 200
# Other triples of the relation whose paths choose what to screen, and the steps around their ends.
_OTHER_TRIPLES = 12
_MAX_STEPS_AROUND = 1_000_000
# Pairs after which sampling stops, and steps per pair that are expanded at once.
ENOUGH_PAIRS = 3000
STEPS_PER_PAIR = 20
# Start entities expanded together at first; doubled each time.
_FIRST_BATCH = 64
# Pairs without the relation that are added before patterns are compared, as AnyBURL does: one pair
# of one is less certain than 90 of 100.
_PESSIMISM = 5


@dataclass(frozen=True)
class Link:
    """A relation, followed from head to tail or, if `inverse`, from tail to head."""

    relation: Named
    inverse: bool

    def __str__(self) -> str:
        return f"←{self.relation.label}—" if self.inverse else f"—{self.relation.label}→"


@dataclass(frozen=True)
class PathPattern:
    """All paths between head and tail along one sequence of relations.

    `confidence` is the share of other pairs joined so in train that have the relation too:
    `support` of `pairs`, which are all there are if `exact`, else a sample. It is None if no other
    pair is joined so. The pattern `supports` the triple if that exceeds the base rate.
    """

    links: tuple[Link, ...]
    count: int
    example: tuple[Named, ...]
    confidence: float | None
    pairs: int
    support: int
    exact: bool
    supports: bool

    def example_text(self) -> str:
        """Return the example path as text."""
        steps = zip(self.links, self.example[1:], strict=True)
        return self.example[0].label + "".join(f" {link} {end.label}" for link, end in steps)


@dataclass(frozen=True)
class SupportingPaths:
    """The most reliable path patterns.

    Attributes:
        patterns: the best patterns, those that support the triple first, each group best first.
        num_patterns: number of patterns between head and tail.
        num_screened: number of patterns whose confidence was estimated.
        num_measured: number of the best of these, measured with more pairs.
        num_supporting: number of measured patterns that support the triple.
        base_rate: share of all pairs of a head and a tail of the relation that have it.
        paths_by_length: number of paths per length (1 to 3).
        complete: whether all paths were counted, or (between hubs) a random part.
    """

    patterns: tuple[PathPattern, ...]
    num_patterns: int
    num_screened: int
    num_measured: int
    num_supporting: int
    base_rate: float
    paths_by_length: dict[int, int]
    complete: bool


@dataclass(frozen=True)
class Reliability:
    """Of `pairs` joined pairs that were visited, `support` have the relation."""

    pairs: int
    support: int
    exact: bool

    @property
    def confidence(self) -> float | None:
        """Return the share, or None if no other pair is joined so."""
        return self.support / self.pairs if self.pairs else None

    def exceeds(self, base_rate: float) -> bool:
        """Return whether joined pairs have the relation more often than any pairs."""
        return self.support > base_rate * self.pairs

    @property
    def smoothed(self) -> float:
        """Return the confidence used for comparisons, lower for fewer pairs."""
        return self.support / (self.pairs + _PESSIMISM)


def supporting_paths(
    graph: KnowledgeGraph, steps: Steps, triple: TripleIds, top: int
) -> SupportingPaths:
    """Return the `top` most reliable patterns among the paths of at most three steps in train."""
    counts = count_paths(steps, triple)
    estimator = PathReliability(steps, graph.train, len(graph.entities), triple)
    screened = [
        (counts.sequence(int(counts.keys[row])), int(counts.counts[row]))
        for row in _rows_to_screen(graph, steps, triple, counts)
    ]
    ranked = _best_first((estimator.of(s, _SCREENING_PAIRS), s, count) for s, count in screened)
    measured = ranked[: max(top, _MAX_MEASURED)]
    ranked = _best_first((estimator.of(s), s, count) for _, s, count in measured)
    base_rate = estimator.base_rate
    ranked.sort(key=lambda each: not each[0].exceeds(base_rate))  # supporting ones first
    patterns = tuple(
        _pattern(graph, steps, triple, sequence, count, reliability, base_rate)
        for reliability, sequence, count in ranked[:top]
    )
    return SupportingPaths(
        patterns,
        len(counts.keys),
        len(screened),
        len(ranked),
        sum(reliability.exceeds(base_rate) for reliability, _, _ in ranked),
        base_rate,
        counts.by_length(),
        counts.complete,
    )


def _pattern(
    graph: KnowledgeGraph,
    steps: Steps,
    triple: TripleIds,
    sequence: tuple[int, ...],
    count: int,
    reliability: Reliability,
    base_rate: float,
) -> PathPattern:
    relations = len(graph.relations)
    links = (
        Link(Named.of(graph.relations, link % relations), link >= relations) for link in sequence
    )
    example = (Named.of(graph.entities, entity) for entity in find_path(steps, triple, sequence))
    return PathPattern(
        tuple(links),
        count,
        tuple(example),
        reliability.confidence,
        reliability.pairs,
        reliability.support,
        reliability.exact,
        reliability.exceeds(base_rate),
    )


def _best_first(
    ranked: Iterable[tuple[Reliability, tuple[int, ...], int]],
) -> list[tuple[Reliability, tuple[int, ...], int]]:
    return sorted(ranked, key=lambda each: (-each[0].smoothed, -each[2], each[1]))


def _rows_to_screen(
    graph: KnowledgeGraph, steps: Steps, triple: TripleIds, counts: PathCounts
) -> Numbers:
    """Choose the patterns to screen: short ones, then those shared with other triples.

    Among long patterns shared with equally many other triples of the relation, those of the rarest
    relations come first: they join few pairs, so they can be most specific.
    """
    if len(counts.keys) <= _MAX_SCREENED:
        return np.arange(len(counts.keys))
    shared = np.zeros(len(counts.keys), np.int64)
    for other in _other_triples(graph, steps, triple):
        shared += np.isin(counts.keys, count_paths(steps, other).keys)
    sizes = np.bincount(graph.train.relations, minlength=len(graph.relations))
    log_frequency = np.zeros(len(counts.keys))
    rest = counts.keys.copy()
    while rest.any():
        rest, digit = np.divmod(rest, counts.links + 1)
        relation = (digit - 1) % len(graph.relations)
        log_frequency += np.where(digit > 0, np.log(np.maximum(sizes[relation], 1)), 0)
    is_long = counts.lengths() == MAX_LENGTH
    return np.lexsort((log_frequency, -shared, is_long))[:_MAX_SCREENED]


def _other_triples(graph: KnowledgeGraph, steps: Steps, triple: TripleIds) -> list[TripleIds]:
    """Sample other triples of the relation, few of them between hubs."""
    train = graph.train
    is_other = (train.heads != triple.head) | (train.tails != triple.tail)
    rows = np.flatnonzero((train.relations == triple.relation) & is_other)
    sample = train.take(np.random.default_rng(0).permutation(rows)[: 4 * _OTHER_TRIPLES])
    chosen: list[TripleIds] = []
    total_cost = 0
    for head, relation, tail in sample.array.tolist():
        cost = min(_steps_around(steps, head), _steps_around(steps, tail))
        if total_cost + cost <= _MAX_STEPS_AROUND and len(chosen) < _OTHER_TRIPLES:
            chosen.append(TripleIds(head, relation, tail))
            total_cost += cost
    return chosen


def _steps_around(steps: Steps, entity: int) -> int:
    """Return the number of steps that leave the neighbors of an entity."""
    _, ends = steps.leaving(entity)
    return int(steps.all_of(np.unique(ends)).count.sum())


class _Frontier(NamedTuple):
    """The entities reached from each start entity.

    `lowest` and `highest` are the least and greatest first entity on the way: if they differ, a
    path can end at either of them without visiting it twice.
    """

    start: Numbers
    here: Numbers
    lowest: Numbers
    highest: Numbers


class PathReliability:
    """Estimates how often pairs joined by a path pattern have the relation of a triple."""

    def __init__(self, steps: Steps, train: Triples, entities: int, triple: TripleIds) -> None:
        self.steps = steps
        self.train = train
        self.entities = entities
        self.triple = triple
        facts = train.take(np.flatnonzero(train.relations == triple.relation))
        self.related = np.sort(self._pair_keys(facts.heads, facts.tails))
        self.own_key = self._pair_keys(np.array([triple.head]), np.array([triple.tail]))[0]
        num_pairs = len(np.unique(facts.heads)) * len(np.unique(facts.tails))
        self.base_rate = len(np.unique(self.related)) / num_pairs if num_pairs else 0.0

    def of(self, sequence: tuple[int, ...], enough: int = ENOUGH_PAIRS) -> Reliability:
        """Estimate the reliability of a pattern from about `enough` pairs."""
        max_steps = STEPS_PER_PAIR * enough
        starts = np.random.default_rng(0).permutation(self._start_entities(sequence[0]))
        pairs, support, exact = 0, 0, True
        done, size = 0, min(_FIRST_BATCH, max(1, enough // 20))
        while done < len(starts) and pairs < enough:
            check_cancelled()
            keys, complete = self._joined(starts[done : done + size], sequence, max_steps)
            keys = keys[keys != self.own_key]
            pairs += len(keys)
            support += int(_is_in(keys, self.related).sum())
            exact &= complete
            done, size = done + size, 2 * size
        return Reliability(pairs, support, exact and done >= len(starts))

    def _pair_keys(self, heads: npt.NDArray[np.integer], tails: npt.NDArray[np.integer]) -> Numbers:
        return heads.astype(np.int64) * self.entities + tails

    def _start_entities(self, link: int) -> Ids:
        relations = self.steps.links // 2
        facts = self.train.take(np.flatnonzero(self.train.relations == link % relations))
        return np.unique(facts.heads if link < relations else facts.tails)

    def _joined(
        self, starts: Ids, sequence: tuple[int, ...], max_steps: int
    ) -> tuple[Numbers, bool]:
        """Return the distinct pairs that a pattern joins, and whether these are all."""
        start = starts.astype(np.int64)
        reached = _Frontier(start, start, np.full_like(start, -1), np.full_like(start, -1))
        all_complete = True
        for number, link in enumerate(sequence):
            position = {"is_first": number == 0, "is_last": number == len(sequence) - 1}
            reached, complete = self._advance(reached, link, max_steps, **position)
            all_complete &= complete
        if self.triple.is_loop and len(sequence) == 2:
            forward, back = sequence
            if back == self.steps.opposite(np.array(forward)):  # along one triple, twice
                return start[:0], all_complete
        return self._pair_keys(reached.start, reached.here), all_complete

    def _advance(
        self, reached: _Frontier, link: int, max_steps: int, *, is_first: bool, is_last: bool
    ) -> tuple[_Frontier, bool]:
        """Take one step, to entities that are not on the path yet."""
        segments = self.steps.along(reached.here, link)
        total = int(segments.count.sum())
        if total > max_steps:
            shuffled = np.random.default_rng(0).permutation(len(reached.here))
            reached = _Frontier(*(column[shuffled] for column in reached))
            segments = self.steps.along(reached.here, link).at_most(max_steps)
        row, _, ends = self.steps.walk(segments)
        end, start = ends.astype(np.int64), reached.start[row]
        low, high = (end, end) if is_first else (reached.lowest[row], reached.highest[row])
        if is_last and self.triple.is_loop:
            valid = end == start
        else:
            valid = (end != start) & (end != reached.here[row])
        if not is_first:
            valid &= (low != end) | (high != end)
        columns = (start[valid], end[valid], low[valid], high[valid])
        return _distinct(_Frontier(*columns), self.entities), total <= max_steps


def _distinct(reached: _Frontier, entities: int) -> _Frontier:
    """Keep each (start, entity) once."""
    keys = reached.start * entities + reached.here
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if not len(first):
        return reached
    lowest = np.minimum.reduceat(reached.lowest[order], first)
    highest = np.maximum.reduceat(reached.highest[order], first)
    chosen = order[first]
    return _Frontier(reached.start[chosen], reached.here[chosen], lowest, highest)


def _is_in(keys: Numbers, ordered: Numbers) -> npt.NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(keys), bool)
    position = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    is_in: npt.NDArray[np.bool_] = ordered[position] == keys
    return is_in
