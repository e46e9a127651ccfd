"""Count the paths of at most three steps between two entities by their sequence of relations.

A path visits no entity twice and uses no triple twice; from an entity to itself it is a loop. Work
is bounded: between hubs only a random part of all paths is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fivestar.graph.steps import Numbers, Segments, Steps
from fivestar.graph.triples import Ids

MAX_LENGTH = 3
# Limits on the middle steps visited and the paths counted.
_MAX_STEPS = 4_000_000
_MAX_PATHS = 4_000_000
_CHUNK = 1 << 18


@dataclass(frozen=True)
class TripleIds:
    """The triple to explain, by ids; no path may use it."""

    head: int
    relation: int
    tail: int

    @property
    def is_loop(self) -> bool:
        """Return whether head and tail are the same entity."""
        return self.head == self.tail


@dataclass(frozen=True)
class PathCounts:
    """Number of paths per sequence of links; `complete` if all paths were counted."""

    keys: Numbers
    counts: Numbers
    complete: bool
    links: int

    def sequence(self, key: int) -> tuple[int, ...]:
        """Return the links of a key, first to last."""
        return sequence_of(key, self.links)

    def lengths(self) -> Numbers:
        """Return the number of steps per key."""
        base = self.links + 1
        return 1 + (self.keys >= base).astype(np.int64) + (self.keys >= base**2)

    def by_length(self) -> dict[int, int]:
        """Return the number of paths per length."""
        lengths = self.lengths()
        return {n: int(self.counts[lengths == n].sum()) for n in range(1, MAX_LENGTH + 1)}


def key_of(links: int, *sequence: Numbers) -> Numbers:
    """Encode sequences as 64-bit keys: digits are link + 1, so keys of all lengths differ."""
    keys = np.zeros_like(sequence[0])
    for link in sequence:
        keys = keys * (links + 1) + link + 1
    return keys


def sequence_of(key: int, links: int) -> tuple[int, ...]:
    """Decode a key into its links."""
    links_reversed: list[int] = []
    while key:
        key, digit = divmod(key, links + 1)
        links_reversed.append(digit - 1)
    return tuple(reversed(links_reversed))


def count_paths(steps: Steps, triple: TripleIds) -> PathCounts:
    """Count the paths from head to tail by their links."""
    first, near_head = _between(*steps.leaving(triple.head), triple)
    back, near_tail = _between(*steps.leaving(triple.tail), triple)
    last = steps.opposite(back)
    long, complete = _three_steps(steps, (first, near_head), (last, near_tail))
    counted = [
        _counted(key_of(steps.links, _direct(steps, triple))),
        _two_steps(steps, (first, near_head), (last, near_tail), triple),
        *long,
    ]
    keys, counts = _merged(counted)
    return PathCounts(keys, counts, complete, steps.links)


def find_path(steps: Steps, triple: TripleIds, sequence: tuple[int, ...]) -> list[int]:
    """Return the entities of one path along `sequence`, or [] if there is none."""
    if len(sequence) == 1:
        return [triple.head, triple.tail]
    back = int(steps.opposite(np.array(sequence[-1])))
    near_head, near_tail = (
        _between(*_steps_along(steps, entity, link), triple)[1]
        for entity, link in ((triple.head, sequence[0]), (triple.tail, back))
    )
    if len(sequence) == 2:
        common = np.intersect1d(near_head, near_tail)
        return [triple.head, int(common[0]), triple.tail] if len(common) else []
    for rows, segments in steps.along(near_head, sequence[1]).pieces(_CHUNK):
        row, _, end = steps.walk(segments)
        begin = near_head[rows[row]]
        matches = np.flatnonzero(np.isin(end, near_tail) & (begin != end))
        if len(matches):
            return [triple.head, int(begin[matches[0]]), int(end[matches[0]]), triple.tail]
    return []


def _steps_along(steps: Steps, entity: int, link: int) -> tuple[Numbers, Ids]:
    links, ends = steps.leaving(entity)
    return links[links == link], ends[links == link]


def _between(links: Numbers, ends: Ids, triple: TripleIds) -> tuple[Numbers, Ids]:
    """Drop the steps that end at the head or the tail; sort the others by their ends."""
    keep = (ends != triple.head) & (ends != triple.tail)
    order = np.argsort(ends[keep], kind="stable")
    return links[keep][order], ends[keep][order]


def _direct(steps: Steps, triple: TripleIds) -> Numbers:
    links, ends = steps.leaving(triple.head)
    direct: Numbers = links[(ends == triple.tail) & (links != triple.relation)]
    return direct


def _two_steps(
    steps: Steps, first: tuple[Numbers, Ids], last: tuple[Numbers, Ids], triple: TripleIds
) -> tuple[Numbers, Numbers]:
    counted = []
    for rows, segments in _same_ends(first[1], last[1]).pieces(_CHUNK):
        row, position = segments.places()
        one, other = first[0][rows[row]], last[0][position]
        keys = key_of(steps.links, one, other)
        if triple.is_loop:  # forward and back along one triple is no path
            keys = keys[other != steps.opposite(one)]
        counted.append(_counted(keys))
    return _merged(counted)


def _same_ends(ends: npt.NDArray[np.integer], ordered: Ids) -> Segments:
    """Find the range of each entity in a sorted array."""
    begin = np.searchsorted(ordered, ends)
    return Segments(begin, np.searchsorted(ordered, ends, "right") - begin)


def _three_steps(
    steps: Steps, first: tuple[Numbers, Ids], last: tuple[Numbers, Ids]
) -> tuple[list[tuple[Numbers, Numbers]], bool]:
    """Return counted keys per chunk, and whether all paths were counted."""
    counted, seen_steps, seen_paths = [], 0, 0
    near_head, near_tail = np.unique(first[1]), np.unique(last[1])
    for begin, link, end, visited in _middle_steps(steps, near_head, near_tail):
        before, behind = _same_ends(begin, first[1]), _same_ends(end, last[1])
        each = Segments(np.zeros_like(before.count), before.count * behind.count)
        for rows, segments in each.pieces(_CHUNK):
            row, number = segments.places()
            row = rows[row]
            one, other = np.divmod(number, behind.count[row])
            keys = key_of(
                steps.links,
                first[0][before.begin[row] + one],
                link[row],
                last[0][behind.begin[row] + other],
            )
            counted.append(_counted(keys))
            seen_paths += len(keys)
            if seen_paths >= _MAX_PATHS:
                return counted, False
        seen_steps += visited
        if seen_steps >= _MAX_STEPS:
            return counted, False
    return counted, True


def _middle_steps(
    steps: Steps, near_head: Ids, near_tail: Ids
) -> Iterator[tuple[Ids, Numbers, Ids, int]]:
    """Yield the (begin, link, end) from one set into the other, and the number of steps visited.

    The search starts from the side with fewer steps and takes entities in random order, so that
    a search that is cut off has seen a fair sample.
    """
    if not len(near_head) or not len(near_tail):
        return
    forward = steps.all_of(near_head).count.sum() <= steps.all_of(near_tail).count.sum()
    source, goal = (near_head, near_tail) if forward else (near_tail, near_head)
    source = np.random.default_rng(0).permutation(source)
    for rows, segments in steps.all_of(source).pieces(_CHUNK):
        row, link, end = steps.walk(segments)
        begin = source[rows[row]]
        position = np.minimum(np.searchsorted(goal, end), len(goal) - 1)
        is_match = (goal[position] == end) & (begin != end)
        begin, link, end = begin[is_match], link[is_match], end[is_match]
        if forward:
            yield begin, link, end, len(row)
        else:
            yield end, steps.opposite(link), begin, len(row)


def _counted(keys: Numbers) -> tuple[Numbers, Numbers]:
    distinct, counts = np.unique(keys, return_counts=True)
    return distinct, counts.astype(np.int64)


def _merged(parts: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """Add the counts of equal keys."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys, row = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    counts = np.concatenate([counts for _, counts in parts])
    return keys, np.bincount(row, counts, minlength=len(keys)).astype(np.int64)
