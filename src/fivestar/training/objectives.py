"""Softmax cross-entropy of every true tail against all entities, at the speed of its products.

The loss of all triples that share a query is n·logsumexp(s) − Σ s(tᵢ): one row of scores serves
them all, exactly. The first part is done here by hand, tile by tile of candidates, each tile while
it is in the cache; the second is small and left to autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.models.similarity import TILE, Similarity


class Workspace:
    """The buffer of scores, made once and used by every step."""

    def __init__(self, rows: int, candidates: int, like: Tensor) -> None:
        self.rows = rows
        self._buffer = like.new_empty(rows * candidates)

    def tiles(self, rows: int, candidates: int) -> list[tuple[slice, Tensor]]:
        """For each tile of candidates: which they are, and its (rows, n) scores."""
        found = []
        for start in range(0, candidates, TILE):
            end = min(start + TILE, candidates)
            flat = self._buffer[rows * start : rows * end]
            found.append((slice(start, end), flat.view(rows, end - start)))
        return found


@torch.no_grad()
def log_partition(
    query: Tensor,
    weight: Tensor,
    table: Tensor,
    similarity: Similarity,
    workspace: Workspace,
    table_gradient: Tensor,
) -> tuple[Tensor, Tensor]:
    """Σ weightᵢ logsumexp(sᵢ) and its gradient by the query; adds its gradient by the table.

    The maximum of a row is only known at the end, so each tile is exponentiated against the maximum
    so far; what is missing is a factor a row and tile, folded into the (B, D) factors.
    """
    top = torch.full_like(weight, -torch.inf)
    total = torch.zeros_like(weight)
    query_gradient = torch.zeros_like(query)
    tiles = workspace.tiles(len(query), len(table))
    tops = []
    for where, scores in tiles:
        candidates = table[where]
        similarity.forward(query, candidates, scores)
        higher = torch.maximum(top, scores.amax(dim=1))
        scores.sub_(higher[:, None]).exp_()
        shrink = torch.exp(top - higher)
        total.mul_(shrink).add_(scores.sum(dim=1))
        similarity.prepare(query, candidates, scores)
        part = similarity.query_gradient(query, candidates, scores)
        query_gradient.mul_(shrink[:, None]).add_(part)
        top = higher
        tops.append(higher)
    share = weight / total
    for (where, scores), tile_top in zip(tiles, tops, strict=True):
        factor = share * torch.exp(tile_top - top)
        similarity.add_candidate_gradient(
            query, factor, table[where], scores, table_gradient[where]
        )
    return weight @ (top + total.log()), query_gradient.mul_(share[:, None])
