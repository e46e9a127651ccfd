"""The likeliest new triples of a whole graph, in bounded memory, relation by relation.

For each relation both questions are asked: which tails of these heads, and which heads of these
tails. A triple's probability is the mean of both, so at least one of the two must reach what is
wanted; the other is looked up for those few. No (entities × entities) matrix is ever held: scores
live in tiles, and of each only what may be wanted is kept.

A model has never been taught that a currency has no capital. So unless all slots are wanted, a
head must be one of the relation in train, a tail likewise, and no triple relates an entity
to itself unless self-loops are a meaningful share of the relation in train
(`KnowledgeGraph.allows_self_answers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import check_no_nan
from fivestar.graph.queries import Queries
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import BATCH_SIZE, new_tiles, score_answers, score_tiles
from fivestar.models.similarity import TILE
from fivestar.prediction.predictor import Predictor

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
# Which entities may be heads and tails: those seen there in train, or all.
Slots = Literal["seen", "all"]
# An answer with less than this share of its question's softmax is never a likely one.
_LEAST_SHARE = 0.01
# What a score may lose by exp and log.
_SLACK = 1e-4


@dataclass(frozen=True)
class Goal:
    """What is wanted: all triples of at least a probability, or so many of the likeliest."""

    threshold: float | None = None
    top: int | None = None
    slots: Slots = "seen"

    def __post_init__(self) -> None:
        if (self.threshold is None) == (self.top is None):
            raise SettingsError("give either a threshold or how many (top)")
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise SettingsError(f"threshold must be above 0 and at most 1, not {self.threshold}")
        if self.top is not None and self.top < 1:
            raise SettingsError(f"top must be at least 1, not {self.top}")


@dataclass(frozen=True)
class Found:
    """New triples, the likeliest first."""

    triples: Triples
    probabilities: Numbers
    shares: Numbers  # the mean of log p over both questions, which orders what is equally likely

    @classmethod
    def of(cls, triples: Triples, probabilities: Numbers, shares: Numbers) -> Found:
        """Ordered, whatever the order given."""
        order = np.lexsort((-shares, -probabilities))
        rows = Triples(triples.heads[order], triples.relations[order], triples.tails[order])
        return cls(rows, probabilities[order], shares[order])

    def __len__(self) -> int:
        return len(self.triples)

    def best(self, goal: Goal) -> Found:
        """Those that are wanted."""
        end = len(self) if goal.top is None else goal.top
        if goal.threshold is not None:
            end = int((self.probabilities >= goal.threshold).sum())
        t = self.triples
        rows = Triples(t.heads[:end], t.relations[:end], t.tails[:end])
        return Found(rows, self.probabilities[:end], self.shares[:end])

    def __add__(self, other: Found) -> Found:
        return Found.of(
            self.triples + other.triples,
            np.concatenate([self.probabilities, other.probabilities]),
            np.concatenate([self.shares, other.shares]),
        )

    def as_arrow(self) -> pa.Table:
        """A table of ids."""
        t = self.triples
        columns = {"head": t.heads, "relation": t.relations, "tail": t.tails}
        return pa.table(columns | {"probability": self.probabilities, "share": self.shares})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Found:
        """What `as_arrow` gave."""
        h, r, t, p, s = (column.to_numpy() for column in table.columns)
        return cls(Triples(h, r, t), p, s)


NOTHING = Found(Triples.of([]), np.zeros(0), np.zeros(0))


class Completer:
    """Finds the likely new triples of relations, one relation after the other."""

    def __init__(self, predictor: Predictor, goal: Goal) -> None:
        self.predictor = predictor
        self.goal = goal
        self.model: Model = predictor.model
        self.graph = predictor.graph
        if goal.threshold is not None and predictor.calibration is None:
            raise SettingsError(
                "without validation facts there are no probabilities to compare a threshold with; "
                "ask for the likeliest with top instead"
            )

    def relation(self, number: int, best: Found, on_rows: Callable[[int], None]) -> Found:
        """The likely new triples of a relation, if `best` are those found before."""
        least = self._least_share(best)
        count = len(self.graph.relations)
        domain, range_, loops = self.slots(number)
        tail_queries = Queries.for_tails(domain, np.full(len(domain), number), count)
        head_queries = Queries.for_heads(range_, np.full(len(range_), number), count)
        tails = self._ask(tail_queries, range_, least, on_rows)
        heads = self._ask(head_queries, domain, least, on_rows)
        # As pairs (head, tail), from both sides.
        pairs = np.concatenate([tails.pairs, heads.pairs[:, ::-1]])
        pairs = np.unique(pairs[loops | (pairs[:, 0] != pairs[:, 1])], axis=0)
        relation = np.full(len(pairs), number)
        triples = Triples(*(c.astype(np.int32) for c in (pairs[:, 0], relation, pairs[:, 1])))
        new = ~triples.are_in(self.graph.facts)
        h, t = pairs[new].T
        relations = np.full(len(h), number)
        forward = self._shares(Queries.for_tails(h, relations, count), t, tails.totals)
        backward = self._shares(Queries.for_heads(t, relations, count), h, heads.totals)
        likely = [self.predictor.likely(x.astype(np.float32)) for x in (forward, backward)]
        # Without probabilities the softmax itself orders them.
        chances = [
            np.exp(x) if None in p else np.array(p, float)
            for x, p in zip((forward, backward), likely, strict=True)
        ]
        found = Found.of(
            Triples(triples.heads[new], triples.relations[new], triples.tails[new]),
            (chances[0] + chances[1]) / 2,
            (forward + backward) / 2,
        )
        return found.best(self.goal)

    def slots(self, number: int) -> tuple[Ids, Ids, bool]:
        """Who may be a head and who a tail of a relation, and whether both may be the same."""
        if self.goal.slots == "all":
            everyone = np.arange(len(self.graph.entities))
            return everyone, everyone, True
        train = self.graph.train
        here = train.relations == number
        heads, tails = train.heads[here], train.tails[here]
        domain, range_ = (np.unique(column).astype(np.int64) for column in (heads, tails))
        return domain, range_, bool(self.graph.allows_self_answers[number])

    def questions(self, number: int) -> int:
        """How many questions a relation takes."""
        domain, range_, _ = self.slots(number)
        return len(domain) + len(range_)

    def _least_share(self, best: Found) -> float:
        """The log share below which neither question's answer makes a wanted triple."""
        wanted = self.goal.threshold
        if wanted is None and self.goal.top is not None and len(best) >= self.goal.top:
            wanted = float(best.probabilities[self.goal.top - 1])
        floor = float(np.log(_LEAST_SHARE))
        if wanted is None:
            return floor
        if self.predictor.calibration is None:
            return max(floor, float(np.log(wanted)))
        grid = np.linspace(floor, 0, 2001)
        reached = np.flatnonzero(self.predictor.calibration(grid) >= wanted)
        # One step below, since the curve is known at these points only.
        return float(grid[max(reached[0] - 1, 0)]) if len(reached) else 1.0

    @torch.no_grad()
    def _ask(
        self, queries: Queries, answers: Ids, least: float, on_rows: Callable[[int], None]
    ) -> _Answers:
        """Return all likely answers to queries."""
        device, entities = self.model.entities.device, len(self.graph.entities)
        allowed = torch.zeros(entities, dtype=torch.bool, device=device)
        allowed[torch.as_tensor(answers, device=device)] = True
        totals = np.zeros(entities)
        pairs = [np.zeros((0, 2), np.int64)]
        for first in range(0, len(queries), BATCH_SIZE):
            some = queries[first : first + BATCH_SIZE]
            total, found = self._answers(some, least)
            totals[some.entity] = total.double().cpu().numpy()
            pairs.append(found[allowed[found[:, 1]]].cpu().numpy())
            on_rows(len(some))
        return _Answers(np.concatenate(pairs), totals)

    def _answers(self, queries: Queries, least: float) -> tuple[Tensor, Tensor]:
        model = self.model
        rows = torch.as_tensor(queries.entity, device=model.entities.device)
        share = float(np.exp(least))
        # The softmax so far: its terms are exp(score − high), and mass is their sum.
        high = model.entities.new_full((len(rows),), -torch.inf)
        mass = torch.zeros_like(high)
        kept: list[tuple[Tensor, Tensor, Tensor]] = []
        for start, scores in score_tiles(model, queries, new_tiles(model, len(rows), TILE)):
            peak = scores.amax(dim=1)
            higher = torch.maximum(high, peak)
            terms = scores.sub_(higher[:, None]).exp_()
            mass = mass * (high - higher).exp() + terms.sum(dim=1)
            high = higher
            # The mass only grows, so whatever is wanted in the end is among these.
            some = ((peak - high).exp() >= share * mass).nonzero()[:, 0]
            row, column = (terms[some] >= share * mass[some, None]).nonzero(as_tuple=True)
            kept.append(
                (some[row], column + start, terms[some[row], column].log() + high[some[row]])
            )
        total = high + mass.log()
        if not torch.isfinite(total.sum()):
            check_no_nan(total.cpu().numpy())
        row, column, value = (torch.cat(part) for part in zip(*kept, strict=True))
        wanted = value >= total[row] + least - _SLACK
        return total, torch.stack([rows[row[wanted]], column[wanted]], dim=1)

    def _shares(self, queries: Queries, answers: Ids, totals: Numbers) -> Numbers:
        """Return log p of one answer per query, from the log-sum-exp of each query."""
        scores = np.zeros(len(queries))
        for first in range(0, len(queries), BATCH_SIZE):
            some = slice(first, first + BATCH_SIZE)
            score = score_answers(self.model, queries[some], answers[some])
            scores[some] = score.double().cpu().numpy()
        return scores - totals[queries.entity]


@dataclass(frozen=True)
class _Answers:
    """Likely (given, answer) pairs, and the log of each question's softmax total."""

    pairs: Ids
    totals: Numbers
