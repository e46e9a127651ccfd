"""What is minimised over all entities, at the speed of its matrix products.

Both objectives have the form Σ over all candidates of something − Σ of the scores of true tails, so
one row of scores serves all triples that share a query, exactly. The first part is done here by
hand, tile by tile of candidates, each tile while it is in the cache.

`softmax` is the cross-entropy of each true tail against all entities: n·logsumexp(s) − Σ s(tᵢ).
`bce` decides for each entity apart whether it is an answer: Σ log(1 + eˢ) − Σ s(tᵢ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.models.similarity import TILE, Similarity
from fivestar.training.candidates import NOT_DRAWN, Drawn
from fivestar.training.regularizers import Regularizer
from fivestar.training.relation_question import NOT_ASKED, RelationQuestion

# Scores are taken times log₂ e, since powers of 2 are computed twice as fast as powers of e.
_LOG2E = 1 / math.log(2)
# Candidates that are asked for a reference.
_FEW = 64
# Maxima this near to 0 need no reference, and sums above this need another: both far from the ends
# of float32, which are at 2^±126.
_NEAR = 40.0
_FAR = 2.0**60


class Workspace:
    """The buffer of scores, made once and used by every step."""

    def __init__(self, rows: int, candidates: int, like: Tensor) -> None:
        self.rows = rows
        self._buffer = like.new_empty(rows * candidates)

    def tiles(self, rows: int, candidates: int, drawn: int = 0) -> list[tuple[slice, Tensor]]:
        """For each tile of candidates: which they are, and its (rows, n) scores.

        No tile holds both the first `drawn` candidates and others.
        """
        found = []
        for first, last in ((0, drawn), (drawn, candidates)):
            for start in range(first, last, TILE):
                end = min(start + TILE, last)
                flat = self._buffer[rows * start : rows * end]
                found.append((slice(start, end), flat.view(rows, end - start)))
        return found


Tiles = list[tuple[slice, Tensor]]


@torch.no_grad()
def log_partition(
    query: Tensor,
    weight: Tensor,
    table: Tensor,
    similarity: Similarity,
    workspace: Workspace,
    table_gradient: Tensor,
    drawn: Drawn = NOT_DRAWN,
) -> tuple[Tensor, Tensor]:
    """Σ weightᵢ logsumexp(sᵢ) and its gradient by the query; adds its gradient by the table.

    Powers are taken relative to a reference a row that need only be near the row's maximum. A few
    candidates give one; only if a score turns out to be far above it, the maximum is looked for.
    """
    tiles = workspace.tiles(len(query), len(table), drawn.size)
    reference = _highest(query, table[:_FEW], similarity)
    total, query_gradient = _powers(query, table, similarity, tiles, reference, drawn)
    if not (total < _FAR).all():
        reference = _highest(query, table, similarity)
        total, query_gradient = _powers(query, table, similarity, tiles, reference, drawn)
    share = weight / total
    share_of_drawn = share * drawn.each
    for where, powers in tiles:
        some = share_of_drawn if where.start < drawn.size else share
        similarity.add_candidate_grad(query, some, table[where], powers, table_gradient[where])
    value = weight @ (reference + total.log2()) / _LOG2E
    return value, query_gradient.mul_(share[:, None])


def _highest(query: Tensor, table: Tensor, similarity: Similarity) -> Tensor:
    """The highest score of each row; 0 for all rows if all are near it."""
    highest = torch.full_like(query[:, 0], -torch.inf)
    for start in range(0, len(table), TILE):
        candidates = table[start : start + TILE]
        scores = query.new_empty(len(query), len(candidates))
        similarity.forward(query, candidates, scores, _LOG2E)
        torch.maximum(highest, scores.amax(dim=1), out=highest)
    return torch.zeros_like(highest) if highest.abs().max() < _NEAR else highest


def _powers(
    query: Tensor,
    table: Tensor,
    similarity: Similarity,
    tiles: Tiles,
    reference: Tensor,
    drawn: Drawn,
) -> tuple[Tensor, Tensor]:
    """Fill the tiles with the powers of the scores: their sum a row, and its gradient.

    All that needs the powers of a tile is done while they are in the cache.
    """
    total, query_gradient = torch.zeros_like(reference), torch.zeros_like(query)
    shifted = bool(reference.any())
    for where, scores in tiles:
        candidates = table[where]
        similarity.forward(query, candidates, scores, _LOG2E)
        if shifted:
            scores.sub_(reference[:, None])
        scores.exp2_()
        total += scores.sum(dim=1)
        similarity.prepare_score_grad(query, candidates, scores)
        similarity.add_query_grad(query, candidates, scores, query_gradient)
        if where.stop == drawn.size:
            total *= drawn.each
            query_gradient *= drawn.each
    return total, query_gradient


@torch.no_grad()
def log_odds(
    query: Tensor,
    weight: Tensor,
    table: Tensor,
    similarity: Similarity,
    workspace: Workspace,
    table_gradient: Tensor,
) -> tuple[Tensor, Tensor]:
    """Σ weightᵢ log(1 + e^sᵢⱼ) and its gradient by the query; adds its gradient by the table."""
    value, query_gradient = query.new_zeros(()), torch.zeros_like(query)
    for where, scores in workspace.tiles(len(query), len(table)):
        candidates = table[where]
        similarity.forward(query, candidates, scores)
        value += weight @ torch.nn.functional.softplus(scores).sum(dim=1)
        scores.sigmoid_()
        similarity.prepare_score_grad(query, candidates, scores)
        similarity.add_query_grad(query, candidates, scores, query_gradient)
        similarity.add_candidate_grad(query, weight, candidates, scores, table_gradient[where])
    return value, query_gradient.mul_(weight[:, None])


class Shares(NamedTuple):
    """How much of the loss is due to what."""

    row: Tensor  # (B,), to the first part of a query
    pair: float  # to the score of a true tail, negative
    uniform: Tensor  # (B,), to the score of every entity alike (label smoothing), negative


class Whole(NamedTuple):
    """The size of a batch, of which a part is being looked at."""

    queries: int
    triples: int
    entities: int


class Objective(NamedTuple):
    """The first part of a loss, and how it is weighed."""

    partition: Callable[..., tuple[Tensor, Tensor]]
    shares: Callable[[Tensor, Whole, float], Shares]


def _mean_of_triples(counts: Tensor, whole: Whole, smoothing: float) -> Shares:
    """A target is 1 − ε for the true tail and ε/N for all."""
    row = counts / whole.triples
    return Shares(row, (smoothing - 1) / whole.triples, row * (-smoothing / whole.entities))


def _mean_of_cells(counts: Tensor, whole: Whole, smoothing: float) -> Shares:
    """A target is 1 − ε for true tails, plus 1/N for all if there is smoothing, as published."""
    cell = 1 / (whole.queries * whole.entities)
    row = torch.full_like(counts, cell)
    uniform = row * (-1 / whole.entities if smoothing else 0.0)
    return Shares(row, (smoothing - 1) * cell, uniform)


OBJECTIVES = {
    "softmax": Objective(log_partition, _mean_of_triples),
    "bce": Objective(log_odds, _mean_of_cells),
}


@dataclass(frozen=True)
class Loss:
    """What is minimised: an objective, and the mean over triples of λ · penalty (λ is `reg`)."""

    regularizer: Regularizer | None = None
    reg: float = 0.0
    label_smoothing: float = 0.0
    objective: Objective = OBJECTIVES["softmax"]
    # Entities drawn a step to stand for all that answer none of its queries; 0: all.
    candidates: int = 0
    relation: RelationQuestion = NOT_ASKED
