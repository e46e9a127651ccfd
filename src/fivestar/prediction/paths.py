"""The paths of at most three steps between two entities, counted by the links they follow.

A path visits no entity twice and uses no fact twice; from an entity to itself it is a loop. Hubs
cost no more than a fixed amount of work: beyond it, what was counted is a random part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fivestar.graph.steps import Numbers, Segments, Steps
from fivestar.graph.triples import Ids

LONGEST = 3
# Middle steps looked at, and paths counted, at most.
_MOST_STEPS = 4_000_000
_MOST_PATHS = 4_000_000
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Asked:
    """The fact that paths are to explain, and that none of them may use."""

    head: int
    relation: int
    tail: int

    @property
    def is_loop(self) -> bool:
        """Whether paths lead back to where they begin."""
        return self.head == self.tail


@dataclass(frozen=True)
class PathCounts:
    """How many paths follow each sequence of links; `complete` if all paths were looked at."""

    keys: Numbers
    counts: Numbers
    complete: bool
    links: int

    def sequence(self, key: int) -> tuple[int, ...]:
        """The links of a key, first to last."""
        return sequence_of(key, self.links)

    def lengths(self) -> Numbers:
        """The number of steps of each key."""
        base = self.links + 1
        return 1 + (self.keys >= base).astype(np.int64) + (self.keys >= base**2)

    def by_length(self) -> dict[int, int]:
        """How many paths there are of each length."""
        lengths = self.lengths()
        return {n: int(self.counts[lengths == n].sum()) for n in range(1, LONGEST + 1)}


def key_of(links: int, *sequence: Numbers) -> Numbers:
    """One 64-bit key a sequence: its digits are link + 1, so no sequence is another's beginning."""
    found = np.zeros_like(sequence[0])
    for link in sequence:
        found = found * (links + 1) + link + 1
    return found


def sequence_of(key: int, links: int) -> tuple[int, ...]:
    """The links of a key."""
    found: list[int] = []
    while key:
        key, digit = divmod(key, links + 1)
        found.append(digit - 1)
    return tuple(reversed(found))


def count_paths(steps: Steps, asked: Asked) -> PathCounts:
    """The paths from head to tail by their links."""
    first, near_head = _between(*steps.leaving(asked.head), asked)
    back, near_tail = _between(*steps.leaving(asked.tail), asked)
    last = steps.opposite(back)
    long, complete = _three_steps(steps, (first, near_head), (last, near_tail))
    found = [
        _grouped(key_of(steps.links, _direct(steps, asked))),
        _two_steps(steps, (first, near_head), (last, near_tail), asked),
        *long,
    ]
    keys, counts = _merged(found)
    return PathCounts(keys, counts, complete, steps.links)


def find_path(steps: Steps, asked: Asked, sequence: tuple[int, ...]) -> list[int]:
    """The entities of one path along links that `count_paths` has found; [] if there is none."""
    if len(sequence) == 1:
        return [asked.head, asked.tail]
    back = int(steps.opposite(np.array(sequence[-1])))
    near_head, near_tail = (
        _between(*_steps_along(steps, entity, link), asked)[1]
        for entity, link in ((asked.head, sequence[0]), (asked.tail, back))
    )
    if len(sequence) == 2:
        common = np.intersect1d(near_head, near_tail)
        return [asked.head, int(common[0]), asked.tail] if len(common) else []
    for rows, some in steps.along(near_head, sequence[1]).pieces(_AT_ONCE):
        row, _, end = steps.walk(some)
        begin = near_head[rows[row]]
        good = np.flatnonzero(np.isin(end, near_tail) & (begin != end))
        if len(good):
            return [asked.head, int(begin[good[0]]), int(end[good[0]]), asked.tail]
    return []


def _steps_along(steps: Steps, entity: int, link: int) -> tuple[Numbers, Ids]:
    links, ends = steps.leaving(entity)
    return links[links == link], ends[links == link]


def _between(links: Numbers, ends: Ids, asked: Asked) -> tuple[Numbers, Ids]:
    """The steps that end neither at the head nor at the tail, ordered by their ends."""
    keep = (ends != asked.head) & (ends != asked.tail)
    order = np.argsort(ends[keep], kind="stable")
    return links[keep][order], ends[keep][order]


def _direct(steps: Steps, asked: Asked) -> Numbers:
    links, ends = steps.leaving(asked.head)
    found: Numbers = links[(ends == asked.tail) & (links != asked.relation)]
    return found


def _two_steps(
    steps: Steps, first: tuple[Numbers, Ids], last: tuple[Numbers, Ids], asked: Asked
) -> tuple[Numbers, Numbers]:
    found = []
    for rows, some in _same_ends(first[1], last[1]).pieces(_AT_ONCE):
        row, place = some.places()
        one, other = first[0][rows[row]], last[0][place]
        keys = key_of(steps.links, one, other)
        if asked.is_loop:  # there and back along one fact is no path
            keys = keys[other != steps.opposite(one)]
        found.append(_grouped(keys))
    return _merged(found)


def _same_ends(ends: npt.NDArray[np.integer], ordered: Ids) -> Segments:
    """For each entity, where it stands among others that are ordered."""
    begin = np.searchsorted(ordered, ends)
    return Segments(begin, np.searchsorted(ordered, ends, "right") - begin)


def _three_steps(
    steps: Steps, first: tuple[Numbers, Ids], last: tuple[Numbers, Ids]
) -> tuple[list[tuple[Numbers, Numbers]], bool]:
    """Grouped keys, and whether they are of all paths."""
    found, seen_steps, seen_paths = [], 0, 0
    near_head, near_tail = np.unique(first[1]), np.unique(last[1])
    for begin, link, end, looked_at in _middle_steps(steps, near_head, near_tail):
        before, behind = _same_ends(begin, first[1]), _same_ends(end, last[1])
        each = Segments(np.zeros_like(before.count), before.count * behind.count)
        for rows, some in each.pieces(_AT_ONCE):
            row, number = some.places()
            row = rows[row]
            one, other = np.divmod(number, behind.count[row])
            keys = key_of(
                steps.links,
                first[0][before.begin[row] + one],
                link[row],
                last[0][behind.begin[row] + other],
            )
            found.append(_grouped(keys))
            seen_paths += len(keys)
            if seen_paths >= _MOST_PATHS:
                return found, False
        seen_steps += looked_at
        if seen_steps >= _MOST_STEPS:
            return found, False
    return found, True


def _middle_steps(
    steps: Steps, near_head: Ids, near_tail: Ids
) -> Iterator[tuple[Ids, Numbers, Ids, int]]:
    """The (begin, link, end) from one set into the other, and how many steps were looked at.

    They are looked for from the side that has fewer steps, entities in random order, so that
    those found first are a fair part of all.
    """
    if not len(near_head) or not len(near_tail):
        return
    forward = steps.all_of(near_head).count.sum() <= steps.all_of(near_tail).count.sum()
    source, goal = (near_head, near_tail) if forward else (near_tail, near_head)
    source = np.random.default_rng(0).permutation(source)
    for rows, some in steps.all_of(source).pieces(_AT_ONCE):
        row, link, end = steps.walk(some)
        begin = source[rows[row]]
        place = np.minimum(np.searchsorted(goal, end), len(goal) - 1)
        good = (goal[place] == end) & (begin != end)
        begin, link, end = begin[good], link[good], end[good]
        if forward:
            yield begin, link, end, len(row)
        else:
            yield end, steps.opposite(link), begin, len(row)


def _grouped(keys: Numbers) -> tuple[Numbers, Numbers]:
    found, counts = np.unique(keys, return_counts=True)
    return found, counts.astype(np.int64)


def _merged(parts: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """Equal keys of several parts together."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys, place = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    counts = np.concatenate([counts for _, counts in parts])
    return keys, np.bincount(place, counts, minlength=len(keys)).astype(np.int64)
