"""Ranks of true answers: optimistic, pessimistic and realistic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class SelfCandidate(IntEnum):
    """How the entity of a query compares with the target, as a candidate answer."""

    EXCLUDED = 0  # it is the target or another known answer, so it is not ranked
    BELOW = 1
    TIED = 2
    ABOVE = 3


@dataclass(frozen=True)
class Ranks:
    """Ranks of true answers, and the number of candidates that each was ranked among.

    `self_candidate` holds a `SelfCandidate` per rank.
    """

    optimistic: Numbers
    pessimistic: Numbers
    candidates: Numbers
    self_candidate: npt.NDArray[np.int8]

    @property
    def realistic(self) -> npt.NDArray[np.float64]:
        """Return the mean of optimistic and pessimistic ranks."""
        return (self.optimistic + self.pessimistic) / 2

    @classmethod
    def empty(cls, count: int) -> Ranks:
        """Return ranks to be set."""
        optimistic, pessimistic, candidates = np.empty((3, count), np.int64)
        return cls(optimistic, pessimistic, candidates, np.empty(count, np.int8))

    def set(
        self,
        rows: Numbers,
        compared: tuple[Numbers, Numbers],
        others: Numbers,
        self_candidate: npt.NDArray[np.int8],
    ) -> None:
        """Set the ranks of rows, given how many others are above and tied, and how many there are.

        Only while ranks are being made: they are immutable for everyone else.
        """
        above, tied = compared
        self.optimistic[rows] = above + 1
        self.pessimistic[rows] = above + tied + 1
        self.candidates[rows] = others + 1
        self.self_candidate[rows] = self_candidate

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
        """Return the ranks of the marked rows."""
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
