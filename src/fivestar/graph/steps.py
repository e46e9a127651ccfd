"""Facts as steps in both directions: from an entity along a link to another entity.

A *link* is a relation r from head to tail, or r + relations from tail to head. A self-loop is one
step, since both directions are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fivestar.cancellation import check_cancelled
from fivestar.graph.triples import Ids, Triples

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segments:
    """Segments of consecutive steps: the beginning and the length of each."""

    begin: Numbers
    count: Numbers

    def pieces(self, size: int) -> Iterator[tuple[Numbers, Segments]]:
        """Yield batches of at most `size` steps, as (row of each segment, segments)."""
        ends = np.cumsum(self.count)
        for first in range(0, int(ends[-1]) if len(ends) else 0, size):
            check_cancelled()
            rows = np.arange(
                np.searchsorted(ends, first, "right"),
                1 + np.searchsorted(ends, min(first + size, ends[-1])),
            )
            low = np.maximum(ends[rows] - self.count[rows], first)
            high = np.minimum(ends[rows], first + size)
            begin = self.begin[rows] + low - (ends[rows] - self.count[rows])
            yield rows, Segments(begin, high - low)

    def places(self) -> tuple[Numbers, Numbers]:
        """Return each step as (row of the segment, index of the step)."""
        shift = np.repeat(self.begin - (np.cumsum(self.count) - self.count), self.count)
        return np.repeat(np.arange(len(self.count)), self.count), shift + np.arange(len(shift))

    def at_most(self, size: int) -> Segments:
        """Return the first `size` steps."""
        before = np.cumsum(self.count) - self.count
        return Segments(self.begin, np.clip(size - before, 0, self.count))


@dataclass(frozen=True)
class Steps:
    """All steps of facts, sorted by start, link and end.

    >>> steps = Steps.of(Triples.of([(0, 0, 1), (2, 0, 1)]), relations=1)
    >>> [column.tolist() for column in steps.leaving(1)]  # links, ends
    [[1, 1], [0, 2]]
    """

    keys: Numbers  # start · links + link
    ends: Ids
    links: int

    @classmethod
    def of(cls, facts: Triples, relations: int) -> Steps:
        """Return the steps of distinct facts."""
        back = facts.take(np.flatnonzero(facts.heads != facts.tails))
        links = 2 * relations
        keys = np.concatenate(
            [
                facts.heads.astype(np.int64) * links + facts.relations,
                back.tails.astype(np.int64) * links + back.relations + relations,
            ]
        )
        ends = np.concatenate([facts.tails, back.heads])
        order = np.lexsort((ends, keys))
        return cls(keys[order], ends[order], links)

    def opposite(self, link: Numbers) -> Numbers:
        """Return the links in the opposite direction."""
        return (link + self.links // 2) % self.links

    def leaving(self, entity: int) -> tuple[Numbers, Ids]:
        """Return the links and ends of all steps from one entity."""
        rows = slice(*np.searchsorted(self.keys, [entity * self.links, (entity + 1) * self.links]))
        return self.keys[rows] % self.links, self.ends[rows]

    def all_of(self, entities: npt.NDArray[np.integer]) -> Segments:
        """Return the segments of all steps from each entity."""
        return self._between(entities.astype(np.int64) * self.links, self.links)

    def along(self, entities: npt.NDArray[np.integer], link: int) -> Segments:
        """Return the segments of the steps from each entity along one link."""
        return self._between(entities.astype(np.int64) * self.links + link, 1)

    def _between(self, first: Numbers, width: int) -> Segments:
        begin = np.searchsorted(self.keys, first)
        return Segments(begin, np.searchsorted(self.keys, first + width) - begin)

    def walk(self, segments: Segments) -> tuple[Numbers, Numbers, Ids]:
        """Return the steps of segments as (row of the segment, link, end)."""
        rows, index = segments.places()
        return rows, self.keys[index] % self.links, self.ends[index]
