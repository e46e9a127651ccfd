"""Score queries for either side, tile by tile of candidates.

Tail queries (h, r, ?) compare the transformed head with every entity. Head queries (?, r, t) are
tail queries of the reciprocal relation where the model has reciprocal relations; else every entity
is transformed by the relation and compared with the tail (exhaustive head scoring), because a
transformation need not be invertible or linear. `relation_rows` alone decides which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.cancellation import check_cancelled
from fivestar.graph.queries import Ids, Queries, Side
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.similarity import TILE
from fivestar.threads import run_parts, split_work

T = TypeVar("T")
# The id of the first entity of a tile, and a tensor (B, n) for its scores.
Tile = tuple[int, Tensor]

# Rows of scores at once; with fewer rows, tiles are wider.
BATCH_SIZE = 512
# Triples at once.
_TRIPLES = 4096


class RelationRows(NamedTuple):
    """How each query is scored: by which row of the relation table, and in which direction."""

    row: Ids  # (B,)
    exhaustive: npt.NDArray[np.bool_]  # (B,), by exhaustive head scoring


def relation_rows(queries: Queries, num_rows: int) -> RelationRows:
    """Decide how a model scores queries.

    Args:
        queries: B queries.
        num_rows: number of rows of the model's relation table.

    Returns:
        The row of the relation table per query, and whether the query needs exhaustive head
        scoring because there are no reciprocal relations.
    """
    if num_rows > queries.num_relations:
        return RelationRows(queries.reciprocal_relation, np.zeros(len(queries), bool))
    return RelationRows(queries.relation, queries.side == Side.HEAD)


def has_reciprocals(model: Model, num_relations: int) -> bool:
    """Return whether a model has reciprocal relations, for a graph of this many relations."""
    return len(model.relations) > num_relations


@torch.no_grad()
def score_answers(model: Model, queries: Queries, answers: npt.NDArray[np.integer]) -> Tensor:
    """Return the score (B,) of one answer per query.

    Args:
        model: the model.
        queries: B queries.
        answers: (B,) entity ids.
    """
    rows, exhaustive = relation_rows(queries, len(model.relations))
    heads = np.where(exhaustive, answers, queries.entity)
    tails = np.where(exhaustive, queries.entity, answers)
    device = model.entities.device
    columns = (ids.astype(np.int64, copy=False) for ids in (heads, rows, tails))
    return model.score(*(torch.as_tensor(ids, device=device) for ids in columns))


def triple_scores(model: Model, triples: Triples, num_relations: int) -> npt.NDArray[np.float32]:
    """Return the score (T,) of each triple.

    Args:
        model: the model.
        triples: T triples.
        num_relations: number of relations of the graph, without reciprocals.

    Returns:
        The score of (h, r, t); if the model has reciprocal relations, its mean with the score of
        (t, r⁻¹, h).
    """
    scores = [np.zeros(0, np.float32)]
    for first in range(0, len(triples), _TRIPLES):
        batch = triples.take(np.arange(first, min(first + _TRIPLES, len(triples))))
        queries = Queries.for_tails(batch.heads, batch.relations, num_relations)
        score = score_answers(model, queries, batch.tails)
        if has_reciprocals(model, num_relations):
            queries = Queries.for_heads(batch.tails, batch.relations, num_relations)
            score = (score + score_answers(model, queries, batch.heads)) / 2
        scores.append(score.cpu().numpy())
    return np.concatenate(scores)


@torch.no_grad()
def score_parts(
    model: Model,
    queries: Queries,
    parts: Sequence[Iterable[Tile]],
    work: Callable[[Iterator[Tile]], T],
) -> list[T]:
    """Score all queries with all candidates; several threads share the work, part by part.

    Args:
        model: the model.
        queries: B queries.
        parts: tiles to write into, a part for each range of candidates; `new_parts` makes them. If
            several processes share the entity table, these are rows of this process.
        work: called once per part with an iterator that fills its tiles, one after the other; it
            may write to nothing that other parts use.

    Returns:
        What `work` has returned for each part, in the order of the parts.
    """
    groups = _group(model, queries)

    def run(part: Iterable[Tile]) -> T:
        return work(_fill(groups, part))

    return run_parts([partial(run, part) for part in parts], model.entities.device)


def _fill(groups: list[tuple[Rows, WriteScores]], tiles: Iterable[Tile]) -> Iterator[Tile]:
    """Yield tiles, each filled with scores."""
    for start, scores in tiles:
        check_cancelled()
        for rows, write in groups:
            if isinstance(rows, slice):
                write(start, scores[rows])
            else:
                part = scores.new_empty(len(rows), scores.shape[1])
                write(start, part)
                scores[rows] = part
        yield start, scores


def new_parts(model: Model, num_queries: int) -> list[Iterator[Tile]]:
    """Return tiles for `score_parts`, those of a part in one buffer, wider ones for few queries."""
    num_entities = len(model.entities)
    num_tiles = -(-num_entities // TILE)
    ranges = split_work(num_tiles, num_queries * num_entities, model.entities.device)
    return [
        _new_tiles(model, num_queries, each.start * TILE, min(each.stop * TILE, num_entities))
        for each in ranges
    ]


def _new_tiles(model: Model, num_queries: int, first: int, last: int) -> Iterator[Tile]:
    width = TILE * max(1, BATCH_SIZE // max(1, num_queries))
    buffer = model.entities.new_empty(num_queries, min(width, last - first))
    for start in range(first, last, width):
        yield start, buffer[:, : last - start]


Rows = slice | Tensor
WriteScores = Callable[[int, Tensor], None]


def _group(model: Model, queries: Queries) -> list[tuple[Rows, WriteScores]]:
    """Return which queries are scored together, and how."""
    device = model.entities.device
    relation, exhaustive = relation_rows(queries, len(model.relations))
    entity = torch.as_tensor(queries.entity, device=device)
    groups: list[tuple[Rows, WriteScores]] = []
    if not exhaustive.all():
        rows = _rows(~exhaustive, device)
        transformed = model.query(
            entity[rows], torch.as_tensor(relation[~exhaustive], device=device)
        )
        groups.append((rows, lambda start, out: model.score_tile(transformed, start, out)))
    for number in np.unique(relation[exhaustive]).tolist():
        rows = _rows(exhaustive & (relation == number), device)
        groups.append((rows, _exhaustive(model, number, entity[rows])))
    return groups


def _exhaustive(model: Model, relation: int, tails: Tensor) -> WriteScores:
    tail = model.shard.rows(model.candidates().detach(), tails)
    return lambda start, out: model.score_head_tile(relation, tail, start, out)


def _rows(mask: npt.NDArray[np.bool_], device: torch.device) -> Rows:
    """Return the marked rows, as a slice where they are contiguous: nothing is copied then."""
    rows = np.flatnonzero(mask)
    if rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return torch.as_tensor(rows, device=device)
