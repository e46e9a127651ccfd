"""Filtered ranking: where does the true answer stand among all entities that are not known answers?

A rank is optimistic if the true answer wins its ties, pessimistic if it loses them, realistic in
the mean. Equal queries are scored once. The score of the true answer is taken from the same matrix
product as those of the others, so a tie is a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import NonFiniteScore
from fivestar.graph.known_answers import KnownAnswers, query_keys
from fivestar.models.base import Model
from fivestar.models.similarity import TILE

Numbers = npt.NDArray[np.int64]
# Bytes of scores held at once unless a budget says otherwise.
SCORE_BYTES = 64 << 20
Progress = Callable[[int, int], None]


class SelfCandidate(IntEnum):
    """How the query's own entity compares with the target, as a candidate answer."""

    EXCLUDED = 0  # it is the target or another known answer, so it is not ranked
    BELOW = 1
    TIED = 2
    ABOVE = 3


@dataclass(frozen=True)
class Ranks:
    """The ranks of some true answers, and how many candidates each was ranked among.

    `self_candidate` holds a `SelfCandidate` per rank.
    """

    optimistic: Numbers
    pessimistic: Numbers
    candidates: Numbers
    self_candidate: npt.NDArray[np.int8]

    @property
    def realistic(self) -> npt.NDArray[np.float64]:
        """The mean of both."""
        return (self.optimistic + self.pessimistic) / 2

    def __len__(self) -> int:
        return len(self.optimistic)

    def __add__(self, other: Ranks) -> Ranks:
        return Ranks(
            np.concatenate([self.optimistic, other.optimistic]),
            np.concatenate([self.pessimistic, other.pessimistic]),
            np.concatenate([self.candidates, other.candidates]),
            np.concatenate([self.self_candidate, other.self_candidate]),
        )

    def take(self, rows: npt.NDArray[np.bool_]) -> Ranks:
        """Some of them."""
        return Ranks(
            self.optimistic[rows],
            self.pessimistic[rows],
            self.candidates[rows],
            self.self_candidate[rows],
        )

    @property
    def self_answers(self) -> npt.NDArray[np.bool_]:
        """Return which queries rank their own entity, not a true answer, above the target."""
        above: npt.NDArray[np.bool_] = self.self_candidate == SelfCandidate.ABOVE
        return above

    def without_self(self, rows: npt.NDArray[np.bool_]) -> Ranks:
        """Return the ranks with the query's own entity removed from the candidates of these rows.

        The same ranks as if that entity had not been scored, so no second ranking is needed.
        """
        own = np.where(rows, self.self_candidate, SelfCandidate.EXCLUDED)
        return Ranks(
            self.optimistic - (own == SelfCandidate.ABOVE),
            self.pessimistic - (own >= SelfCandidate.TIED),
            self.candidates - (own != SelfCandidate.EXCLUDED),
            np.where(rows, np.int8(SelfCandidate.EXCLUDED), self.self_candidate),
        )


def refuse_nan(scores: npt.NDArray[np.floating]) -> None:
    """A NaN is an error, never a rank."""
    if np.isnan(scores).any():
        raise NonFiniteScore(
            "a score is not a number, so there are no ranks; the model has diverged: train again "
            "with a smaller learning rate or more regularisation"
        )


@torch.no_grad()
def rank_tails(
    model: Model,
    heads: npt.NDArray[np.integer],
    relations: npt.NDArray[np.integer],
    tails: npt.NDArray[np.integer],
    known: KnownAnswers,
    score_bytes: int = SCORE_BYTES,
    progress: Progress | None = None,
) -> Ranks:
    """The rank of each tail as the answer to its query (head, relation).

    A relation r + R, where the model has only R relations, asks for the heads of (?, r, head).
    `progress` is called with (queries done, queries in all).
    `known` must hold the ranked facts themselves; its other answers are left out of the ranking.
    """
    # Ordered by relation, so that queries for the heads of a relation stand together.
    width = len(model.entities)
    keys, query_of = np.unique(query_keys(relations, heads, width), return_inverse=True)
    by_query = np.argsort(query_of, kind="stable")
    pair_start = np.searchsorted(query_of[by_query], np.arange(len(keys) + 1))
    scores = _Scores(model, score_bytes, len(keys))
    found = np.empty((3, len(tails)), np.int64)
    self_candidate = np.empty(len(tails), np.int8)
    for first in range(0, len(keys), scores.rows):
        some = keys[first : first + scores.rows]
        pairs = by_query[pair_start[first] : pair_start[first + len(some)]]
        hidden_row, hidden = known.of_queries(some % width, some // width)
        scores.fill(some % width, some // width)
        rows = query_of[pairs] - first
        goal = scores.at(rows, tails[pairs])
        scores.hide(hidden_row, hidden)
        # Hidden scores are NaN now, so known answers and the target compare as EXCLUDED.
        self_candidate[pairs] = _compare_self(scores.at(rows, heads[pairs]), goal)
        above, level = scores.compare(rows, goal)
        rivals = scores.entities - np.bincount(hidden_row, minlength=len(some))[rows]
        found[:, pairs] = above + 1, above + level + 1, rivals + 1
        if progress is not None:
            progress(first + len(some), len(keys))
    return Ranks(found[0], found[1], found[2], self_candidate)


def _compare_self(own: torch.Tensor, goal: torch.Tensor) -> npt.NDArray[np.int8]:
    """Return the `SelfCandidate` of each own score against its goal; NaN means excluded."""
    order = (~own.isnan()).to(torch.int8) + (own >= goal).to(torch.int8)
    return (order + (own > goal).to(torch.int8)).cpu().numpy()


class _Scores:
    """The scores of some queries with all entities, in tiles: one buffer, used again and again.

    Whatever is not to be counted is NaN there, which is neither above, below nor level with
    anything.
    """

    def __init__(self, model: Model, score_bytes: int, queries: int) -> None:
        self.model = model
        self.device = model.entities.device
        self.entities = len(model.candidates())
        self.width = min(TILE, self.entities)
        tiles = -(-self.entities // self.width)
        # A quarter is for what compares: a tile of rows, and the marks of where they are above.
        size = model.entities.element_size() * self.width
        self.rows = max(1, min(queries, score_bytes * 3 // 4 // (tiles * size)))
        self.pairs = max(1, score_bytes // 8 // size)
        self.buffer = model.entities.new_full((tiles, self.rows, self.width), torch.nan)

    def fill(self, heads: Numbers, relations: Numbers) -> None:
        """Compute the scores of these queries."""
        given, own = self._tensor(heads), len(self.model.relations)
        direct = int(np.searchsorted(relations, own))
        query = self.model.query(given[:direct], self._tensor(relations[:direct]))
        sides = _groups(relations[direct:], direct)
        for number, tile in enumerate(self.buffer):
            here = tile[: len(given), : self.entities - number * self.width]
            start = number * self.width
            if direct:
                self.model.score_tile(query, start, here[:direct])
            for relation, some in sides:
                self.model.score_head_tile(relation - own, given[some], start, here[some])
            # A sum is one quick pass; only if it is odd is each score looked at.
            if not torch.isfinite(here.sum()):
                refuse_nan(here.cpu().numpy())

    def at(self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]) -> torch.Tensor:
        """The scores of (row, entity) pairs."""
        return self.buffer.view(-1)[self._places(rows, entities)]

    def hide(self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]) -> None:
        """Count these pairs no more."""
        self.buffer.view(-1)[self._places(rows, entities)] = torch.nan

    def compare(self, rows: Numbers, goal: torch.Tensor) -> tuple[Numbers, Numbers]:
        """How many scores of each row are above, and how many level with, its goal."""
        found = np.empty((2, len(rows)), np.int64)
        for first in range(0, len(rows), self.pairs):
            some = slice(first, first + self.pairs)
            found[:, some] = self._compare(rows[some], goal[some, None])
        return found[0], found[1]

    def _compare(self, rows: Numbers, goal: torch.Tensor) -> Numbers:
        # Marks are floats, since torch adds floats much faster than truth values.
        marks = self.buffer.new_empty(len(rows), self.width)
        count = torch.zeros(2, len(rows), dtype=torch.int64, device=self.device)
        one_each = len(rows) == rows[-1] - rows[0] + 1  # rows are in order, without gaps
        chosen = self._tensor(rows)
        for tile in self.buffer:
            scores = tile[rows[0] : rows[-1] + 1] if one_each else tile[chosen]
            torch.gt(scores, goal, out=marks)
            count[0] += marks.sum(dim=1).long()
            torch.eq(scores, goal, out=marks)
            count[1] += marks.sum(dim=1).long()
        return count.cpu().numpy()

    def _places(
        self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]
    ) -> torch.Tensor:
        """Where pairs stand in the flat buffer."""
        tile, column = np.divmod(entities.astype(np.int64), self.width)
        return self._tensor((tile * self.rows + rows) * self.width + column)

    def _tensor(self, numbers: npt.NDArray[np.integer]) -> torch.Tensor:
        return torch.as_tensor(numbers, device=self.device)


def _groups(ordered: Numbers, first: int) -> list[tuple[int, slice]]:
    """Runs of equal numbers, and where they are, counted from `first`."""
    numbers, start = np.unique(ordered, return_index=True)
    ends = np.append(start, len(ordered))[1:]
    return [
        (int(number), slice(first + int(a), first + int(b)))
        for number, a, b in zip(numbers, start, ends, strict=True)
    ]
