"""Find the most probable new triples of a whole graph, in bounded memory, relation by relation.

For each relation both sides are queried: the tails of these heads and the heads of these tails. A
triple's probability is the mean of both, so at least one of the two must reach the threshold; the
other is scored only for those triples. No (entities × entities) matrix is held: scores are computed
in tiles, and only candidates above the threshold are kept. Processes that share the entity table
each score their own entities, and all find the same.

A model never learns that a currency has no capital. So with `slots="seen"` a head must be a head of
the relation in train, a tail likewise, and no triple relates an entity to itself unless self-loops
are common in the relation (`KnowledgeGraph.allows_self_answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import check_no_nan
from fivestar.evaluation.topk import log_sum
from fivestar.graph.queries import Queries
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.scoring import BATCH_SIZE, Tile, new_parts, score_answers, score_parts
from fivestar.prediction.evidence import are_second_answers
from fivestar.threads import coarse_threads

if TYPE_CHECKING:
    from fivestar.prediction.trained_model import TrainedModel

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
# Which entities may be heads and tails: those seen there in train, or all.
Slots = Literal["seen", "all"]
# The most probable triples are sought among answers with at least the first softmax probability;
# if these do not decide, with at least the next.
FLOORS = (1e-2, 1e-3)
# With fewer queries than these per relation, only the most frequent relations are searched.
_MIN_QUERIES = 20
# Rounding error of exp followed by log.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Goal:
    """Either all triples with at least `threshold` probability, or the `top` most probable.

    With `max_queries`, each relation gets an equal share of that many queries; one with more heads
    and tails than its share is searched among those with the most facts. Without `second_answers`,
    a triple is omitted if its head has another tail in train, or its tail another head, where
    nearly all others have exactly one.
    """

    threshold: float | None = None
    top: int | None = None
    slots: Slots = "seen"
    max_queries: int | None = None
    second_answers: bool = True

    def __post_init__(self) -> None:
        if (self.threshold is None) == (self.top is None):
            raise SettingsError("give either threshold or top")
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise SettingsError(f"threshold must be above 0 and at most 1, not {self.threshold}")
        if self.top is not None and self.top < 1:
            raise SettingsError(f"top must be at least 1, not {self.top}")
        if self.max_queries is not None and self.max_queries < 1:
            raise SettingsError(f"max_queries must be at least 1, not {self.max_queries}")


@dataclass(frozen=True)
class NewTriples:
    """New triples by id, most probable first."""

    triples: Triples
    probabilities: Numbers
    log_probs: Numbers  # mean of log p over both queries; breaks ties
    # If set, answers with a smaller softmax probability were not considered.
    floor: float | None = None
    # Number of queries that were not answered because of a limit.
    skipped: int = 0

    @classmethod
    def of(cls, triples: Triples, probabilities: Numbers, log_probs: Numbers) -> NewTriples:
        """Sort triples by probability."""
        order = np.lexsort((-log_probs, -probabilities))
        rows = Triples(triples.heads[order], triples.relations[order], triples.tails[order])
        return cls(rows, probabilities[order], log_probs[order])

    def __len__(self) -> int:
        return len(self.triples)

    def best(self, goal: Goal) -> NewTriples:
        """Keep the triples that satisfy the goal."""
        end = len(self) if goal.top is None else goal.top
        if goal.threshold is not None:
            end = int((self.probabilities >= goal.threshold).sum())
        return self.take(slice(end))

    def take(self, rows: slice | npt.NDArray[np.bool_]) -> NewTriples:
        """Keep some rows."""
        columns = (self.triples.heads, self.triples.relations, self.triples.tails)
        triples = Triples(*(column[rows] for column in columns))
        return NewTriples(triples, self.probabilities[rows], self.log_probs[rows])

    def __add__(self, other: NewTriples) -> NewTriples:
        return NewTriples.of(
            self.triples + other.triples,
            np.concatenate([self.probabilities, other.probabilities]),
            np.concatenate([self.log_probs, other.log_probs]),
        )

    def as_arrow(self) -> pa.Table:
        """Return a table of ids."""
        t = self.triples
        columns = {"head": t.heads, "relation": t.relations, "tail": t.tails}
        return pa.table(columns | {"probability": self.probabilities, "share": self.log_probs})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> NewTriples:
        """Read the table of `as_arrow`."""
        h, r, t, p, s = (column.to_numpy() for column in table.columns)
        return cls(Triples(h, r, t), p, s)


NO_TRIPLES = NewTriples(Triples.of([]), np.zeros(0), np.zeros(0))


class Completer:
    """Finds probable new triples, one relation after the other."""

    def __init__(self, trained: TrainedModel, goal: Goal, floor: float = FLOORS[0]) -> None:
        self.trained = trained
        self.goal = goal
        self.floor = floor
        # Number of queries per relation; relations that are not listed have no limit.
        self._max_queries: dict[int, int] = {}
        # Number of probable triples omitted so far.
        self.num_second_answers = 0
        self.model: Model = trained.model
        self.graph = trained.graph
        if goal.threshold is not None and trained.calibration is None:
            raise SettingsError(
                "without validation triples there are no calibrated probabilities to compare a "
                "threshold with; give top instead"
            )
        if goal.threshold is not None and self._calibrated_min_log_prob(goal.threshold) == -np.inf:
            assert trained.calibration is not None  # noqa: S101  (checked above)
            least = float(trained.calibration(-np.inf))
            raise SettingsError(
                f"any answer has a calibrated probability of at least {least:.3g}, so a threshold "
                f"of {goal.threshold:g} would return every triple; choose a larger one"
            )

    def complete_relation(
        self, number: int, best: NewTriples, on_queries: Callable[[int], None]
    ) -> NewTriples:
        """Return the probable new triples of a relation, given the best of earlier relations."""
        min_log_prob = self._min_log_prob(best)
        count = len(self.graph.relations)
        domain, range_, loops = self.slots(number)
        tail_queries = Queries.for_tails(domain, np.full(len(domain), number), count)
        head_queries = Queries.for_heads(range_, np.full(len(range_), number), count)
        tails = self._query(tail_queries, range_, min_log_prob, on_queries)
        heads = self._query(head_queries, domain, min_log_prob, on_queries)
        # As pairs (head, tail), from both queries.
        pairs = np.concatenate([tails.pairs, heads.pairs[:, ::-1]])
        pairs = np.unique(pairs[loops | (pairs[:, 0] != pairs[:, 1])], axis=0)
        relation = np.full(len(pairs), number)
        triples = Triples(*(c.astype(np.int32) for c in (pairs[:, 0], relation, pairs[:, 1])))
        new = ~triples.are_in(self.graph.facts)
        if not self.goal.second_answers:
            facts = self.graph.train.take(self._train_rows(number))
            is_second = are_second_answers(facts, triples.heads, triples.tails)
            self.num_second_answers += int((new & is_second).sum())
            new &= ~is_second
        h, t = pairs[new].T
        relations = np.full(len(h), number)
        forward = self._log_probs(Queries.for_tails(h, relations, count), t, tails.totals)
        backward = self._log_probs(Queries.for_heads(t, relations, count), h, heads.totals)
        calibrated = [self.trained.calibrated(x.astype(np.float32)) for x in (forward, backward)]
        # Without calibration, order by softmax probability.
        probabilities = [
            np.exp(x) if None in p else np.array(p, float)
            for x, p in zip((forward, backward), calibrated, strict=True)
        ]
        return NewTriples.of(
            Triples(triples.heads[new], triples.relations[new], triples.tails[new]),
            (probabilities[0] + probabilities[1]) / 2,
            (forward + backward) / 2,
        ).best(self.goal)

    def limit_queries(self, relations: Sequence[int]) -> tuple[Ids, Ids]:
        """Share the queries of the goal among relations.

        Returns:
            The number of queries of each relation that will be answered, and that it has.
        """
        needed = np.array([self.num_queries(number) for number in relations], np.int64)
        if self.goal.max_queries is None:
            return needed, needed
        frequency = np.bincount(self.graph.train.relations, minlength=len(self.graph.relations))
        shares = _shares(needed, frequency[list(relations)], self.goal.max_queries)
        self._max_queries = dict(zip(relations, shares.tolist(), strict=True))
        return shares, needed

    def slots(self, number: int) -> tuple[Ids, Ids, bool]:
        """Return the allowed heads and tails of a relation, and whether self-loops are allowed."""
        if self.goal.slots == "all":
            domain = range_ = np.arange(len(self.graph.entities))
        else:
            train, rows = self.graph.train, self._train_rows(number)
            domain, range_ = (
                np.unique(column[rows]).astype(np.int64) for column in (train.heads, train.tails)
            )
        most = self._max_queries.get(number)
        if most is not None and len(domain) + len(range_) > most:
            num_heads = min(len(domain), max(most // 2, most - len(range_)))
            domain = self._most_frequent(domain, num_heads)
            range_ = self._most_frequent(range_, most - num_heads)
        allows_self = self.goal.slots == "all" or bool(self.graph.allows_self_answers[number])
        return domain, range_, allows_self

    def num_queries(self, number: int) -> int:
        """Return the number of queries of a relation."""
        domain, range_, _ = self.slots(number)
        return len(domain) + len(range_)

    def _train_rows(self, number: int) -> Ids:
        """Return the training triples of a relation."""
        order, first = self._rows_by_relation
        return order[first[number] : first[number + 1]]

    @cached_property
    def _rows_by_relation(self) -> tuple[Ids, Ids]:
        """Return the training triples by relation, and where those of each relation begin."""
        relations = self.graph.train.relations
        order = np.argsort(relations, kind="stable")
        return order, np.searchsorted(relations[order], np.arange(len(self.graph.relations) + 1))

    def _most_frequent(self, entities: Ids, count: int) -> Ids:
        """Return the entities with the most training triples, in the order of their ids."""
        order = np.argsort(-self._triples_per_entity[entities], kind="stable")
        return np.sort(entities[order[:count]])

    @cached_property
    def _triples_per_entity(self) -> Ids:
        train = self.graph.train
        ends = np.concatenate([train.heads, train.tails])
        return np.bincount(ends, minlength=len(self.graph.entities))

    def _min_log_prob(self, best: NewTriples) -> float:
        """Return the log p that one of the two answers must reach for the triple to qualify.

        A triple's probability is the mean of both answers', so one of them is as large.
        """
        if self.goal.threshold is not None:
            return self._calibrated_min_log_prob(self.goal.threshold)
        floor = float(np.log(self.floor))
        if self.goal.top is None or len(best) < self.goal.top:
            return floor
        return max(floor, self._calibrated_min_log_prob(float(best.probabilities[-1])))

    def _calibrated_min_log_prob(self, probability: float) -> float:
        calibration = self.trained.calibration
        if calibration is None:
            return float(np.log(probability))
        return calibration.min_log_prob(probability)

    def is_exact(self, best: NewTriples) -> bool:
        """Return whether no triple below the floor can belong to the best."""
        if self.goal.top is None:
            return True
        if len(best) < self.goal.top:
            return False
        calibration = self.trained.calibration
        below = self.floor if calibration is None else float(calibration(np.log(self.floor)))
        return bool(best.probabilities[-1] > below)

    @torch.no_grad()
    @coarse_threads()
    def _query(
        self,
        queries: Queries,
        answers: Ids,
        min_log_prob: float,
        on_queries: Callable[[int], None],
    ) -> _Answers:
        """Return the probable answers to queries, among the allowed `answers`."""
        device, entities = self.model.entities.device, len(self.graph.entities)
        allowed = torch.zeros(entities, dtype=torch.bool, device=device)
        allowed[torch.as_tensor(answers, device=device)] = True
        totals = np.zeros(entities)
        pairs = [np.zeros((0, 2), np.int64)]
        for first in range(0, len(queries), BATCH_SIZE):
            batch = queries[first : first + BATCH_SIZE]
            total, probable = self._answers(batch, min_log_prob)
            totals[batch.entity] = total.double().cpu().numpy()
            pairs.append(probable[allowed[probable[:, 1]]].cpu().numpy())
            on_queries(len(batch))
        return _Answers(np.concatenate(pairs), totals)

    def _answers(self, queries: Queries, min_log_prob: float) -> tuple[Tensor, Tensor]:
        """Return the log of the softmax denominator per query, and (given, answer) pairs."""
        model, shard = self.model, self.model.shard
        rows = torch.as_tensor(queries.entity, device=model.entities.device)
        min_prob = float(np.exp(min_log_prob))

        def probable_of(tiles: Iterator[Tile]) -> tuple[Tensor, list[_Candidates]]:
            # Running softmax: terms are exp(score − high), and mass is their sum.
            high = model.entities.new_full((len(rows),), -torch.inf)
            mass = torch.zeros_like(high)
            candidates: list[_Candidates] = []
            for start, scores in tiles:
                peak = scores.amax(dim=1)
                higher = torch.maximum(high, peak)
                terms = scores.sub_(higher[:, None]).exp_()
                mass = mass * (high - higher).exp() + terms.sum(dim=1)
                high = higher
                # The mass only grows, so all final answers are among these.
                active = ((peak - high).exp() >= min_prob * mass).nonzero()[:, 0]
                probable = terms[active] >= min_prob * mass[active, None]
                row, column = probable.nonzero(as_tuple=True)
                value = terms[active[row], column].log() + high[active[row]]
                candidates.append((active[row], column + shard.start + start, value))
            return high + mass.log(), candidates

        parts = score_parts(model, queries, new_parts(model, len(rows)), probable_of)
        total = log_sum(shard, reduce(torch.logaddexp, (part for part, _ in parts)))
        if not torch.isfinite(total.sum()):
            check_no_nan(total.cpu().numpy())
        candidates = [found for _, part in parts for found in part]
        row, column, value = (torch.cat(part) for part in zip(*candidates, strict=True))
        is_probable = value >= total[row] + min_log_prob - _TOLERANCE
        pairs = torch.stack([rows[row[is_probable]], column[is_probable]], dim=1)
        return total, shard.gather(pairs)

    def _log_probs(self, queries: Queries, answers: Ids, totals: Numbers) -> Numbers:
        """Return log p of one answer per query, given the log denominator of each query."""
        scores = np.zeros(len(queries))
        for first in range(0, len(queries), BATCH_SIZE):
            batch = slice(first, first + BATCH_SIZE)
            score = score_answers(self.model, queries[batch], answers[batch])
            scores[batch] = score.double().cpu().numpy()
        return scores - totals[queries.entity]


def _shares(needed: Ids, frequency: npt.NDArray[np.integer], max_queries: int) -> Ids:
    """Return the number of queries per relation.

    All have the same share, and what small relations do not need goes to the others. If that is
    too little for all, only the most frequent relations have one.
    """
    chosen = np.argsort(-frequency, kind="stable")[: max(1, max_queries // _MIN_QUERIES)]
    chosen = chosen[np.argsort(needed[chosen], kind="stable")]
    shares = np.zeros_like(needed)
    left = max_queries
    for position, number in enumerate(chosen.tolist()):
        share = min(int(needed[number]), left // (len(chosen) - position))
        # A head and a tail at least.
        shares[number] = share if share > 1 else 0
        left -= int(shares[number])
    return shares


# Row, answer and score of probable answers.
_Candidates = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class _Answers:
    """Probable (given, answer) pairs, and the log of the softmax denominator per query."""

    pairs: Ids
    totals: Numbers
