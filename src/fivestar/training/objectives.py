"""Objectives over candidates that all queries share: functions from scores to (loss, score_grad).

`softmax` is the cross-entropy of each true answer: n·logsumexp(s) − Σ s(tᵢ) per query.
`bce` is the binary cross-entropy of each entity: Σ log(1 + eˢ) − Σ s(tᵢ) per query.
Both are Σ over all candidates of something − Σ of the scores of true answers, so one row of scores
serves all triples that share a query, exactly. `score_candidates` computes the first part tile by
tile of candidates, while a tile is in the cache, at the speed of its matrix products. Each worker
thread owns a range of candidates; they meet twice, after the scores and after the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fivestar.models.sharding import Shard
from fivestar.models.similarity import TILE, Similarity
from fivestar.plugins import OBJECTIVES
from fivestar.threads import run_parts, split_work
from fivestar.training.candidates import Candidates

# Scores are multiplied by log₂ e, because powers of 2 are twice as fast as powers of e.
_LOG2E = 1 / math.log(2)
# Number of candidates that a row's reference is estimated from.
_NUM_REFERENCE = 64
# Row maxima this close to 0 need no reference, and sums above the limit need a better one: both
# far from the limits of float32, 2^±126.
_NEAR_ZERO = 40.0
_SUM_LIMIT = 2.0**60


class BatchSize(NamedTuple):
    """The size of a batch, of which one part is computed at a time."""

    queries: int
    triples: float  # the sum of their weights, if they have some
    entities: int


class Weights(NamedTuple):
    """The weights of the terms of a loss."""

    query: Tensor  # (B,), of the sum over candidates of each query
    answer: float  # of the score of a true answer; negative
    uniform: Tensor  # (B,), of the score of every entity (label smoothing); negative


@dataclass(frozen=True)
class Objective:
    """A loss per query over a set of candidates shared by all queries.

    Args:
        scale: factor of all scores.
        is_relative: whether scores are taken relative to a reference near the maximum of each row.
        score_grad_: overwrites a tile of scores with their score_grad, up to a factor per row, and
            returns row sums (B,).
        finish: from the sums over all candidates (B,) and the weights of the queries (B,), returns
            the loss (B,) of each query and the factor of its score_grad.
        weights: returns the weights of a part of a batch, from the number of answers (B,) of each
            query (the sum of their weights), the size of the batch and the label smoothing.
        as_candidate: where each true answer counts once among the candidates, whatever its weight:
            from scores (T,), its part of that sum and the gradient (T,). A weight above 1 adds it
            once more per unit, so that the loss of the answer is w times as large.
    """

    scale: float
    is_relative: bool
    score_grad_: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    weights: Callable[[Tensor, BatchSize, float], Weights]
    as_candidate: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None


def _exp2_(scores: Tensor) -> Tensor:
    return scores.exp2_().sum(dim=1)


def _log2_sum(total: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return total.log2(), weight / total


def _mean_over_triples(counts: Tensor, size: BatchSize, smoothing: float) -> Weights:
    """Return weights for targets of 1 − ε for the true answer plus ε/N for all entities."""
    query = counts / size.triples
    return Weights(query, (smoothing - 1) / size.triples, query * (-smoothing / size.entities))


def _sigmoid_(scores: Tensor) -> Tensor:
    total = softplus(scores).sum(dim=1)
    scores.sigmoid_()
    return total


def _softplus_with_grad(scores: Tensor) -> tuple[Tensor, Tensor]:
    return softplus(scores), scores.sigmoid()


def _sum(total: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return total, weight


def _mean_over_cells(counts: Tensor, size: BatchSize, smoothing: float) -> Weights:
    """Return weights for targets of 1 − ε for true answers, plus 1/N for all if ε > 0.

    The target of ConvE's published code.
    """
    cell = 1 / (size.queries * size.entities)
    query = torch.full_like(counts, cell)
    uniform = query * (-1 / size.entities if smoothing else 0.0)
    return Weights(query, (smoothing - 1) * cell, uniform)


SOFTMAX = Objective(
    _LOG2E, is_relative=True, score_grad_=_exp2_, finish=_log2_sum, weights=_mean_over_triples
)
BCE = Objective(
    1.0,
    is_relative=False,
    score_grad_=_sigmoid_,
    finish=_sum,
    weights=_mean_over_cells,
    as_candidate=_softplus_with_grad,
)


@overload
def register_objective(name: str) -> Callable[[Objective], Objective]: ...
@overload
def register_objective(name: str, objective: Objective) -> Objective: ...
def register_objective(name: str, objective: Objective | None = None) -> Any:
    """Register an objective under a name, for the setting `objective` in this process.

    For the command line, declare it as an entry point of the group `fivestar.objectives` instead.

    Args:
        name: Lower-case letters, digits, - and _.
        objective: An instance of `fivestar.Objective`.

    Returns:
        The objective, or a decorator if none is given.

    Raises:
        RegistrationError: The name is taken, or the object is not an objective.
    """
    if objective is None:
        return lambda value: OBJECTIVES.register(name, value)
    return OBJECTIVES.register(name, objective)


class Workspace:
    """The buffer of scores, used by every step; it grows to what the largest one needs.

    Args:
        rows: rows of scores at once.
        like: a tensor of the type and device of the scores.
    """

    def __init__(self, rows: int, like: Tensor) -> None:
        self.rows = rows
        self._buffer = like.new_empty(0)

    def tiles(self, rows: int, candidates: int, sampled: int = 0) -> list[tuple[slice, Tensor]]:
        """Return for each tile the candidates it holds, and a tensor (rows, n) for its scores.

        No tile holds both the first `sampled` candidates and others.
        """
        if self._buffer.numel() < rows * candidates:
            self._buffer = self._buffer.new_empty(0)  # the former one is released first
            self._buffer = self._buffer.new_empty(rows * candidates)
        tiles = []
        for first, last in ((0, sampled), (sampled, candidates)):
            for start in range(first, last, TILE):
                end = min(start + TILE, last)
                flat = self._buffer[rows * start : rows * end]
                tiles.append((slice(start, end), flat.view(rows, end - start)))
        return tiles


def score_answers(
    objective: Objective,
    queries: tuple[Tensor, Tensor],
    answer: Tensor,
    fact_weights: Tensor | None,
    weights: Weights,
    similarity: Similarity,
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Compute the part of an objective that depends on true answers.

    Args:
        objective: softmax or bce.
        queries: (B, D) transformed heads, and (T,) the row of each answer's.
        answer: (T, D) the answers.
        fact_weights: (T,) the weights of the facts, if they have some.
        weights: the weights of the terms of the loss.
        similarity: how a query and a candidate give a score.

    Returns:
        The loss, and its gradients (T, D) with respect to the queries and the answers, up to a
        factor, which comes last.
    """
    query, rows = queries[0].index_select(0, queries[1]), queries[1]
    if fact_weights is None:
        score, query_grad, answer_grad = similarity.sum_pairs_with_grad(query, answer)
        return weights.answer * score, query_grad, answer_grad, weights.answer
    with torch.enable_grad():
        query, answer = query.detach().requires_grad_(), answer.detach().requires_grad_()
        scores = similarity.score_pairs(query, answer)
    score_grad = weights.answer * fact_weights
    loss = score_grad @ scores.detach()
    if objective.as_candidate is not None:
        more = (fact_weights - 1).clamp(min=0) * weights.query[rows]
        values, gradients = objective.as_candidate(scores.detach())
        loss = loss + more @ values
        score_grad = score_grad + more * gradients
    query_grad, answer_grad = torch.autograd.grad(scores, (query, answer), score_grad)
    return loss, query_grad, answer_grad, 1.0


@torch.no_grad()
def score_candidates(
    objective: Objective,
    query: Tensor,
    weight: Tensor,
    candidates: Candidates,
    similarity: Similarity,
    workspace: Workspace,
) -> tuple[Tensor, Tensor]:
    """Compute the part of an objective that depends on all candidates.

    Args:
        objective: softmax or bce.
        query: (B, D) transformed heads.
        weight: (B,) weight of each query.
        candidates: N candidates; their gradient is added to `candidates.table_grad`. Processes that
            share the entity table each have their own.
        similarity: how a query and a candidate give a score.
        workspace: for at least (B, N) scores.

    Returns:
        The weighted loss, and its gradient (B, D) with respect to the query: the part of this
        process, to be summed over all.
    """
    table, shard = candidates.table, candidates.model.shard
    tiles = workspace.tiles(len(query), len(table), candidates.sampled.size)
    scores = _TiledScores(objective, query, candidates, similarity, tiles)
    reference = query.new_zeros(len(query))
    if objective.is_relative:
        reference = _row_maxima(query, table[:_NUM_REFERENCE], similarity, shard)
    total, query_grad = scores.forward(reference)
    if objective.is_relative and not (total < _SUM_LIMIT).all():
        rows = torch.nonzero(~(total < _SUM_LIMIT)).squeeze(1)
        reference[rows] = highest = _row_maxima(query[rows], table, similarity, shard)
        total[rows], query_grad[rows] = scores.forward(highest, rows)
    loss, row_weight = objective.finish(total, weight)
    scores.backward(row_weight)
    return weight @ (reference + loss) / objective.scale, query_grad.mul_(row_weight[:, None])


@dataclass(frozen=True)
class _TiledScores:
    """The scores of queries with all candidates, in tiles; each worker owns a range of tiles."""

    objective: Objective
    query: Tensor
    candidates: Candidates
    similarity: Similarity
    tiles: list[tuple[slice, Tensor]]

    def forward(self, reference: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Fill the tiles with score_grad; return row sums and the gradient of the query.

        Args:
            reference: what is subtracted from the scores of each row.
            rows: the rows to fill and to return (None: all).
        """
        forward = partial(self._forward, reference, rows, is_shifted=bool(reference.any()))
        parts = [partial(forward, tiles) for tiles in self._parts()]
        (total, query_grad), *others = run_parts(parts, self.query.device)
        for other_total, other_grad in others:  # always in the order of the candidates
            total += other_total
            query_grad += other_grad
        return self.candidates.model.shard.sum(total), query_grad

    def backward(self, row_weight: Tensor) -> None:
        """Add the gradient of the candidates, given filled tiles and the factor of each row."""
        backward = partial(self._backward, row_weight, row_weight * self.candidates.sampled.weight)
        run_parts([partial(backward, tiles) for tiles in self._parts()], self.query.device)

    def _parts(self) -> list[list[tuple[slice, Tensor]]]:
        numbers = len(self.query) * len(self.candidates.table)
        parts = split_work(len(self.tiles), numbers, self.query.device)
        # Of a small sample, a process may have no candidate.
        return [self.tiles[part] for part in parts] or [[]]

    def _forward(
        self,
        reference: Tensor,
        rows: Tensor | None,
        tiles: list[tuple[slice, Tensor]],
        *,
        is_shifted: bool,
    ) -> tuple[Tensor, Tensor]:
        """Fill some tiles: everything that needs a tile is done while it is in the cache."""
        query = self.query if rows is None else self.query[rows]
        similarity, sampled = self.similarity, self.candidates.sampled
        total, query_grad = torch.zeros_like(reference), torch.zeros_like(query)
        last_sampled = min(sampled.size, max((columns.stop for columns, _ in tiles), default=0))
        for columns, tile in tiles:
            candidates = self.candidates.table[columns]
            scores = tile if rows is None else tile.new_empty(len(rows), tile.shape[1])
            similarity.forward(query, candidates, scores, self.objective.scale)
            if is_shifted:
                scores.sub_(reference[:, None])
            total += self.objective.score_grad_(scores)
            similarity.prepare_score_grad(query, candidates, scores)
            similarity.add_query_grad(query, candidates, scores, query_grad)
            if rows is not None:
                tile.index_copy_(0, rows, scores)
            if columns.stop == last_sampled:
                total *= sampled.weight
                query_grad *= sampled.weight
        return total, query_grad

    def _backward(
        self, row_weight: Tensor, sampled_weight: Tensor, tiles: list[tuple[slice, Tensor]]
    ) -> None:
        """Add the gradient of the candidates of some tiles."""
        for columns, score_grad in tiles:
            weight = sampled_weight if columns.start < self.candidates.sampled.size else row_weight
            candidates = self.candidates.table[columns]
            grad = self.candidates.table_grad[columns]
            self.similarity.add_candidate_grad(self.query, weight, candidates, score_grad, grad)


def _row_maxima(query: Tensor, table: Tensor, similarity: Similarity, shard: Shard) -> Tensor:
    """Return the highest score of each row; 0 for all rows if all of them are close to 0.

    Processes that share the entity table get the same, that of all their tables.
    """
    highest = torch.full_like(query[:, 0], -torch.inf)
    for start in range(0, len(table), TILE):
        candidates = table[start : start + TILE]
        scores = query.new_empty(len(query), len(candidates))
        similarity.forward(query, candidates, scores, _LOG2E)
        torch.maximum(highest, scores.amax(dim=1), out=highest)
    highest = shard.max(highest)
    return torch.zeros_like(highest) if highest.abs().max() < _NEAR_ZERO else highest
