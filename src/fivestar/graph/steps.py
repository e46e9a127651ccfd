"""Facts as steps that can be walked both ways: from an entity along a link to another entity.

A *link* is a relation r walked from head to tail, or r + relations walked from tail to head. A fact
that joins an entity to itself is one step, since both ways are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Ids, Triples

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Segments:
    """Some runs of steps that stand together: where each begins, and how many it has."""

    begin: Numbers
    count: Numbers

    def pieces(self, size: int) -> Iterator[tuple[Numbers, Segments]]:
        """The same in pieces of at most so many steps, as (row of each segment, segments)."""
        ends = np.cumsum(self.count)
        for first in range(0, int(ends[-1]) if len(ends) else 0, size):
            rows = np.arange(
                np.searchsorted(ends, first, "right"),
                1 + np.searchsorted(ends, min(first + size, ends[-1])),
            )
            low = np.maximum(ends[rows] - self.count[rows], first)
            high = np.minimum(ends[rows], first + size)
            begin = self.begin[rows] + low - (ends[rows] - self.count[rows])
            yield rows, Segments(begin, high - low)

    def places(self) -> tuple[Numbers, Numbers]:
        """Each step, as (row of the segment, where it stands)."""
        shift = np.repeat(self.begin - (np.cumsum(self.count) - self.count), self.count)
        return np.repeat(np.arange(len(self.count)), self.count), shift + np.arange(len(shift))

    def at_most(self, size: int) -> Segments:
        """The first so many steps."""
        before = np.cumsum(self.count) - self.count
        return Segments(self.begin, np.clip(size - before, 0, self.count))


@dataclass(frozen=True)
class Steps:
    """All steps of some facts, ordered by where they begin, then by link, then by where they end.

    >>> steps = Steps.of(Triples.of([(0, 0, 1), (2, 0, 1)]), relations=1)
    >>> [column.tolist() for column in steps.leaving(1)]  # links, ends
    [[1, 1], [0, 2]]
    """

    keys: Numbers  # beginning · links + link
    ends: Ids
    links: int

    @classmethod
    def of(cls, facts: Triples, relations: int) -> Steps:
        """The steps of distinct facts."""
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
        """The links that lead back."""
        return (link + self.links // 2) % self.links

    def leaving(self, entity: int) -> tuple[Numbers, Ids]:
        """The links and ends of all steps of one entity."""
        here = slice(*np.searchsorted(self.keys, [entity * self.links, (entity + 1) * self.links]))
        return self.keys[here] % self.links, self.ends[here]

    def all_of(self, entities: npt.NDArray[np.integer]) -> Segments:
        """Where all steps of each entity stand."""
        return self._between(entities.astype(np.int64) * self.links, self.links)

    def along(self, entities: npt.NDArray[np.integer], link: int) -> Segments:
        """Where the steps of each entity along one link stand."""
        return self._between(entities.astype(np.int64) * self.links + link, 1)

    def _between(self, first: Numbers, width: int) -> Segments:
        begin = np.searchsorted(self.keys, first)
        return Segments(begin, np.searchsorted(self.keys, first + width) - begin)

    def walk(self, segments: Segments) -> tuple[Numbers, Numbers, Ids]:
        """The steps of segments, as (row of the segment, link, end)."""
        rows, place = segments.places()
        return rows, self.keys[place] % self.links, self.ends[place]
