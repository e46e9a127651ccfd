"""The k best answers of many queries at once, in bounded memory: tile by tile of candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.evaluation.ranking import Progress, check_no_nan
from fivestar.graph.known_answers import KnownAnswers
from fivestar.graph.queries import Ids, Queries
from fivestar.graph.relation_candidates import RelationCandidates
from fivestar.models.base import Model
from fivestar.models.scoring import BATCH_SIZE, Tile, new_parts, score_parts
from fivestar.models.sharding import Shard
from fivestar.threads import coarse_threads

Scores = npt.NDArray[np.float32]
# Which answers to return: all, only those that are no facts of the graph, or only facts.
Which = Literal["all", "new", "known"]
# Columns whose largest score is computed first.
_BLOCK = 64


@dataclass(frozen=True)
class AnswerFilter:
    """Which entities may be answers.

    Args:
        known: the known answers of all queries.
        which: whether to return all answers, new ones or known ones.
        entities: (num_entities,) mask of allowed entities; None: all.
        allows_self: per relation, whether the entity of a query may be its answer; a known answer
            always may. None: always.
        candidates: the entities that may be answers, by relation and side; None: all.
    """

    known: KnownAnswers
    which: Which = "all"
    entities: npt.NDArray[np.bool_] | None = None
    allows_self: npt.NDArray[np.bool_] | None = None
    candidates: RelationCandidates | None = None


@dataclass(frozen=True)
class TopK:
    """The best answers (queries, k) of each query, best first; id −1 where there are fewer than k.

    `log_probs` are log p(answer | query), the log-softmax over all entities, filtered out or not.
    """

    ids: Ids
    scores: Scores
    log_probs: Scores
    known: npt.NDArray[np.bool_]


@torch.no_grad()
@coarse_threads()
def top_k(
    model: Model,
    queries: Queries,
    k: int,
    answer_filter: AnswerFilter,
    progress: Progress | None = None,
) -> TopK:
    """Return the k best answers of each query.

    Args:
        model: the model.
        queries: queries for heads or tails.
        k: number of answers per query.
        answer_filter: which entities may be answers.
        progress: called with (queries done, number of queries).

    Returns:
        Arrays of shape (queries, min(k, entities)).

    Raises:
        NonFiniteScore: if a score is NaN.
    """
    parts = []
    for first in range(0, len(queries), BATCH_SIZE):
        parts.append(_top_k(model, queries[first : first + BATCH_SIZE], k, answer_filter))
        if progress is not None:
            progress(min(first + BATCH_SIZE, len(queries)), len(queries))
    if not parts:
        empty = np.zeros((0, k), np.float32)
        return TopK(empty.astype(np.int64), empty, empty, empty.astype(bool))
    return TopK(*(np.concatenate([getattr(p, key) for p in parts]) for key in TopK.__annotations__))


@torch.no_grad()
@coarse_threads()
def answer_log_probs(model: Model, queries: Queries, answers: Ids) -> Scores:
    """Return log p(answer | query) of one answer per query, by a softmax over all entities.

    Args:
        model: the model.
        queries: B queries.
        answers: (B,) entity ids.
    """
    log_probs = [np.zeros(0, np.float32)]
    for first in range(0, len(queries), BATCH_SIZE):
        batch = slice(first, first + BATCH_SIZE)
        target = torch.as_tensor(answers[batch], device=model.entities.device)
        target_score = model.entities.new_zeros(len(target))
        parts = new_parts(model, len(target))
        own_rows = target - model.shard.start
        totals = score_parts(
            model, queries[batch], parts, partial(_log_total, own_rows, target_score)
        )
        log_total = log_sum(model.shard, reduce(torch.logaddexp, totals))
        target_score = model.shard.sum(target_score)
        log_probs.append((target_score - log_total).float().cpu().numpy())
    return np.concatenate(log_probs)


def _log_total(target: Tensor, target_score: Tensor, tiles: Iterator[Tile]) -> Tensor:
    """Return the log of the sum of exp(score) per row; write the scores of targets in these tiles.

    Args:
        target: (B,) rows of the entity table; those of other processes are outside of it.
        target_score: (B,) their scores; those of other tiles are not written.
        tiles: filled tiles.
    """
    log_total = target_score.new_full((len(target),), -torch.inf)
    for start, scores in tiles:
        log_total = torch.logaddexp(log_total, scores.logsumexp(dim=1))
        rows = ((target >= start) & (target < start + scores.shape[1])).nonzero()[:, 0]
        target_score[rows] = scores[rows, target[rows] - start]
    return log_total


def _top_k(model: Model, queries: Queries, k: int, answer_filter: AnswerFilter) -> TopK:
    device, num_entities = model.entities.device, model.num_entities
    known_rows, known_ids = answer_filter.known.of_queries(
        queries.entity, queries.reciprocal_relation
    )
    row, column = (
        torch.as_tensor(ids.astype(np.int64), device=device) for ids in (known_rows, known_ids)
    )
    allowed = None
    if answer_filter.entities is not None:
        allowed = torch.as_tensor(answer_filter.entities, device=device)
    without_self = _rows_without_self(
        queries, answer_filter.allows_self, known_rows, known_ids, num_entities
    )
    self_row, self_column = (
        torch.as_tensor(ids, device=device) for ids in (without_self, queries.entity[without_self])
    )
    k = min(k, num_entities)
    excluded = [
        (torch.as_tensor(rows, device=device), torch.as_tensor(~mask, device=device))
        for rows, mask in (
            answer_filter.candidates.by_relation(queries) if answer_filter.candidates else ()
        )
    ]

    def best_of(tiles: Iterator[Tile]) -> tuple[Tensor, Tensor, Tensor]:
        best = model.entities.new_full((len(queries), k), -torch.inf)
        ids = torch.full((len(queries), k), -1, device=device)
        log_total = best.new_full((len(queries),), -torch.inf)
        for first_row, scores in tiles:
            start = model.shard.start + first_row
            log_total = torch.logaddexp(log_total, scores.logsumexp(dim=1))
            here = (column >= start) & (column < start + scores.shape[1])
            _mask(scores, row[here], column[here] - start, answer_filter.which)
            here = (self_column >= start) & (self_column < start + scores.shape[1])
            scores[self_row[here], self_column[here] - start] = -torch.inf
            if allowed is not None:
                scores[:, ~allowed[start : start + scores.shape[1]]] = -torch.inf
            for rows, others in excluded:
                columns = others[start : start + scores.shape[1]].nonzero()[:, 0]
                scores[rows[:, None], columns] = -torch.inf
            tile_best, columns = _largest(scores, k)
            best, ids = _merge(best, ids, tile_best, columns + start)
        return best, ids, log_total

    (best, ids, log_total), *others = score_parts(
        model, queries, new_parts(model, len(queries)), best_of
    )
    for other_best, other_ids, other_total in others:
        best, ids = _merge(best, ids, other_best, other_ids)
        log_total = torch.logaddexp(log_total, other_total)
    best, ids = _merge_processes(model.shard, best, ids)
    log_total = log_sum(model.shard, log_total)
    check_no_nan(log_total.cpu().numpy())  # every score is part of it
    ids[best == -torch.inf] = -1
    answers = ids.cpu().numpy()
    log_probs = (best - log_total[:, None]).float().cpu().numpy()
    is_known = _are_known(answers, known_rows, known_ids, num_entities)
    return TopK(answers, best.float().cpu().numpy(), log_probs, is_known)


def _rows_without_self(
    queries: Queries,
    allows_self: npt.NDArray[np.bool_] | None,
    known_rows: npt.NDArray[np.int64],
    known_ids: npt.NDArray[np.int32],
    num_entities: int,
) -> Ids:
    """Return the queries whose own entity is not an answer."""
    if allows_self is None:
        return np.zeros(0, np.int64)
    self_known = _are_known(queries.entity[:, None], known_rows, known_ids, num_entities)[:, 0]
    return np.flatnonzero(~allows_self[queries.relation] & ~self_known)


def _mask(scores: Tensor, row: Tensor, column: Tensor, which: Which) -> None:
    """Set the scores of all candidates but new or known ones to −∞."""
    if which == "new":
        scores[row, column] = -torch.inf
    elif which == "known":
        known_scores = scores[row, column]
        scores.fill_(-torch.inf)
        scores[row, column] = known_scores


def _merge(
    best: Tensor, ids: Tensor, other_best: Tensor, other_ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the k best of those so far and of others, which have higher ids."""
    merged = torch.cat([best, other_best], dim=1)
    return _first(merged, torch.cat([ids, other_ids], dim=1), best.shape[1])


def _first(scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores and their ids; of equal scores those that came before."""
    ordered, order = scores.sort(dim=1, descending=True, stable=True)
    return ordered[:, :k], ids.gather(1, order[:, :k])


def _merge_processes(shard: Shard, best: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the k best of all processes that share the entity table."""
    if shard.is_whole:
        return best, ids
    return _first(shard.concatenate(best, 1), shard.concatenate(ids, 1), best.shape[1])


def log_sum(shard: Shard, log_total: Tensor) -> Tensor:
    """Return log Σ exp over all processes that share the entity table."""
    if shard.is_whole:
        return log_total
    return shard.concatenate(log_total[:, None], 1).logsumexp(dim=1)


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row, and their columns.

    They are in the k blocks with the largest maxima, so most columns are read only once.
    """
    blocks = scores.shape[1] // _BLOCK
    if blocks < 4 * k:
        return scores.topk(min(k, scores.shape[1]), dim=1)
    whole = scores[:, : blocks * _BLOCK].reshape(len(scores), blocks, _BLOCK)
    # In order of column, so that of equal scores the first come first.
    chosen = whole.amax(dim=2).topk(k, dim=1).indices.sort(dim=1).values
    inside = whole.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    rest = scores[:, blocks * _BLOCK :]
    best, position = torch.cat([inside, rest], dim=1).topk(k, dim=1)
    is_inside = position < inside.shape[1]
    block = chosen.gather(1, (position // _BLOCK).clamp(max=k - 1))
    offset = torch.where(is_inside, block * _BLOCK, blocks * _BLOCK - inside.shape[1])
    return best, offset + torch.where(is_inside, position % _BLOCK, position)


def _are_known(
    ids: Ids,
    known_rows: npt.NDArray[np.int64],
    known_ids: npt.NDArray[np.int32],
    num_entities: int,
) -> npt.NDArray[np.bool_]:
    """Return which of the ids (queries, k) are among the known (row, answer) pairs."""
    known_keys = np.sort(known_rows * num_entities + known_ids)
    if not len(known_keys):
        return np.zeros(ids.shape, bool)
    keys = np.arange(len(ids))[:, None] * num_entities + ids
    # A binary search: np.isin would sort all keys again.
    nearest = known_keys[np.minimum(np.searchsorted(known_keys, keys), len(known_keys) - 1)]
    is_known: npt.NDArray[np.bool_] = (nearest == keys) & (ids >= 0)
    return is_known
