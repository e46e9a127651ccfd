"""Find the most probable new facts of every relation with a bounded number of queries.

`complete` finds the best of all relations together; here each relation has its own. The result says
how much was searched.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fivestar.cancellation import check_cancelled
from fivestar.graph.triples import Triples
from fivestar.prediction.completion import NO_TRIPLES, Completer, Goal, NewTriples

if TYPE_CHECKING:
    from fivestar.prediction.trained_model import TrainedModel

_METADATA = b"searched"


@dataclass(frozen=True)
class Searched:
    """How much of a graph was searched.

    Attributes:
        relations: number of relations that were searched.
        num_relations: number of relations that have training triples.
        queries: number of queries answered: heads and tails of each relation.
        num_queries: number of queries that a full search would answer.
        num_candidates: number of pairs (head, tail), over all relations, that were candidates.
        num_second_answers: number of probable facts that were omitted: they would give an entity a
            second tail (or head) where nearly every other one has exactly one.
    """

    relations: int
    num_relations: int
    queries: int
    num_queries: int
    num_candidates: int
    num_second_answers: int

    @property
    def is_complete(self) -> bool:
        """Return whether nothing was skipped."""
        return self.queries == self.num_queries


@dataclass(frozen=True)
class ProbableFacts:
    """The most probable new facts of each relation, and how much of the graph was searched.

    Attributes:
        new: the facts of all relations by id, most probable first.
        searched: how much was searched.
    """

    new: NewTriples
    searched: Searched

    def of_relation(self, relation: int | None) -> NewTriples:
        """Return the facts of one relation by id, or of all if it is None."""
        if relation is None:
            return self.new
        return self.new.take(self.new.triples.relations == relation)

    def as_arrow(self) -> pa.Table:
        """Return a table of ids, with what was searched as metadata."""
        searched = json.dumps(asdict(self.searched)).encode()
        return self.new.as_arrow().replace_schema_metadata({_METADATA: searched})

    @classmethod
    def from_arrow(cls, table: pa.Table, num_entities: int, num_relations: int) -> ProbableFacts:
        """Read the table of `as_arrow`.

        Raises:
            ValueError: the table is not one of a graph of this size.
        """
        new = NewTriples.from_arrow(table)
        sizes = (num_entities, num_relations, num_entities)
        columns = (new.triples.heads, new.triples.relations, new.triples.tails)
        for ids, size in zip(columns, sizes, strict=True):
            if len(ids) and not 0 <= ids.min() <= ids.max() < size:
                raise ValueError("an id is not in the graph")
        return cls(new, Searched(**json.loads((table.schema.metadata or {})[_METADATA])))


def find_probable_facts(
    trained: TrainedModel,
    per_relation: int,
    max_queries: int,
    progress: Callable[[int, int], None] | None = None,
) -> ProbableFacts:
    """Return the most probable new facts of each relation, with at most `max_queries` queries.

    Heads and tails are those seen with the relation in train, as in `complete`, and an answer needs
    a softmax probability of at least 1 % in one of its two queries. A fact that would give an
    entity a second answer is omitted where nearly all others have exactly one.

    Args:
        trained: the model.
        per_relation: number of facts per relation.
        max_queries: number of queries in all.
        progress: called with (queries answered, queries in all).
    """
    trained.model.shard.require_whole()
    goal = Goal(top=per_relation, max_queries=max_queries, second_answers=False)
    completer = Completer(trained, goal)
    shares, needed = completer.limit_queries(range(len(trained.graph.relations)))
    chosen = np.flatnonzero(shares).tolist()
    total, done, num_candidates = int(shares.sum()), 0, 0
    parts = [NO_TRIPLES]

    def on_queries(queries: int) -> None:
        nonlocal done
        check_cancelled()
        done += queries
        if progress is not None:
            progress(done, total)

    for number in chosen:
        domain, range_, _ = completer.slots(number)
        num_candidates += len(domain) * len(range_)
        parts.append(completer.complete_relation(number, NO_TRIPLES, on_queries))
    searched = Searched(
        relations=len(chosen),
        num_relations=int((needed > 0).sum()),
        queries=total,
        num_queries=int(needed.sum()),
        num_candidates=num_candidates,
        num_second_answers=completer.num_second_answers,
    )
    return ProbableFacts(_joined(parts), searched)


def _joined(parts: list[NewTriples]) -> NewTriples:
    columns = zip(*(part.triples.array.T for part in parts), strict=True)
    heads, relations, tails = (np.concatenate(column) for column in columns)
    return NewTriples.of(
        Triples(heads, relations, tails),
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.log_probs for part in parts]),
    )
