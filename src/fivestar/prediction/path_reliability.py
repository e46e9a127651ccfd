"""How often two entities that are joined by a sequence of links have a relation as well.

The confidence of a sequence is the share of the pairs joined by it in train that have the relation
there too. Beginnings are taken in random order until enough pairs are seen, so the work is bounded;
if all were seen, it is exact. The asked pair itself does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fivestar.graph.steps import Numbers, Steps
from fivestar.graph.triples import Ids, Triples
from fivestar.prediction.paths import Asked

# Pairs after which no more are looked at; for each, so many steps are taken at once, at most.
ENOUGH_PAIRS = 3000
STEPS_A_PAIR = 20
# Beginnings taken together at first; each time twice as many.
_FIRST_BATCH = 64
# So many pairs without the relation are added before sequences are compared, as AnyBURL does
# (Meilicke et al., IJCAI 2019): one pair of one is less sure than 90 of 100.
_UNSURE = 5


@dataclass(frozen=True)
class Reliability:
    """Of `pairs` joined pairs that were looked at, `supported` have the relation."""

    pairs: int
    supported: int
    exact: bool

    @property
    def confidence(self) -> float | None:
        """The share, or None if only the asked pair is joined so."""
        return self.supported / self.pairs if self.pairs else None

    @property
    def cautious(self) -> float:
        """The confidence for comparisons, lower the fewer pairs it is of."""
        return self.supported / (self.pairs + _UNSURE)


class _Frontier(NamedTuple):
    """Which entities have been reached from which beginnings.

    `lowest` and `highest` are the least and greatest first entity on the way to each: if they
    differ, a path can end at either of them without visiting it twice.
    """

    begin: Numbers
    here: Numbers
    lowest: Numbers
    highest: Numbers


class PathReliability:
    """Judges sequences of links by the facts of one relation."""

    def __init__(self, steps: Steps, train: Triples, entities: int, asked: Asked) -> None:
        self.steps = steps
        self.train = train
        self.entities = entities
        self.asked = asked
        facts = train.take(np.flatnonzero(train.relations == asked.relation))
        self.related = np.sort(self._pair_keys(facts.heads, facts.tails))
        self.own_key = self._pair_keys(np.array([asked.head]), np.array([asked.tail]))[0]

    def of(self, sequence: tuple[int, ...], enough: int = ENOUGH_PAIRS) -> Reliability:
        """How reliable a sequence is, by about so many pairs."""
        most_steps = STEPS_A_PAIR * enough
        begins = np.random.default_rng(0).permutation(self._beginnings(sequence[0]))
        pairs, supported, exact = 0, 0, True
        done, size = 0, min(_FIRST_BATCH, max(1, enough // 20))
        while done < len(begins) and pairs < enough:
            keys, complete = self._joined(begins[done : done + size], sequence, most_steps)
            keys = keys[keys != self.own_key]
            pairs += len(keys)
            supported += int(_is_in(keys, self.related).sum())
            exact &= complete
            done, size = done + size, 2 * size
        return Reliability(pairs, supported, exact and done >= len(begins))

    def _pair_keys(self, heads: npt.NDArray[np.integer], tails: npt.NDArray[np.integer]) -> Numbers:
        return heads.astype(np.int64) * self.entities + tails

    def _beginnings(self, link: int) -> Ids:
        relations = self.steps.links // 2
        facts = self.train.take(np.flatnonzero(self.train.relations == link % relations))
        return np.unique(facts.heads if link < relations else facts.tails)

    def _joined(
        self, begins: Ids, sequence: tuple[int, ...], most_steps: int
    ) -> tuple[Numbers, bool]:
        """The distinct pairs that a sequence joins, and whether these are all."""
        start = begins.astype(np.int64)
        reached = _Frontier(start, start, np.full_like(start, -1), np.full_like(start, -1))
        all_complete = True
        for number, link in enumerate(sequence):
            place = {"is_first": number == 0, "is_last": number == len(sequence) - 1}
            reached, complete = self._advance(reached, link, most_steps, **place)
            all_complete &= complete
        if self.asked.is_loop and len(sequence) == 2:
            there, back = sequence
            if back == self.steps.opposite(np.array(there)):  # along one fact, twice
                return start[:0], all_complete
        return self._pair_keys(reached.begin, reached.here), all_complete

    def _advance(
        self, reached: _Frontier, link: int, most_steps: int, *, is_first: bool, is_last: bool
    ) -> tuple[_Frontier, bool]:
        """One step further, to entities that are not on the way already."""
        segments = self.steps.along(reached.here, link)
        total = int(segments.count.sum())
        if total > most_steps:
            shuffled = np.random.default_rng(0).permutation(len(reached.here))
            reached = _Frontier(*(column[shuffled] for column in reached))
            segments = self.steps.along(reached.here, link).at_most(most_steps)
        row, _, ends = self.steps.walk(segments)
        end, begin = ends.astype(np.int64), reached.begin[row]
        low, high = (end, end) if is_first else (reached.lowest[row], reached.highest[row])
        if is_last and self.asked.is_loop:
            good = end == begin
        else:
            good = (end != begin) & (end != reached.here[row])
        if not is_first:
            good &= (low != end) | (high != end)
        columns = (begin[good], end[good], low[good], high[good])
        return _distinct(_Frontier(*columns), self.entities), total <= most_steps


def _distinct(reached: _Frontier, entities: int) -> _Frontier:
    """Each (beginning, entity) once."""
    keys = reached.begin * entities + reached.here
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if not len(first):
        return reached
    lowest = np.minimum.reduceat(reached.lowest[order], first)
    highest = np.maximum.reduceat(reached.highest[order], first)
    chosen = order[first]
    return _Frontier(reached.begin[chosen], reached.here[chosen], lowest, highest)


def _is_in(keys: Numbers, ordered: Numbers) -> npt.NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(keys), bool)
    found: npt.NDArray[np.bool_] = (
        ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys
    )
    return found
