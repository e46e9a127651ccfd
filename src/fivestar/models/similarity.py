"""How a moved head is compared with every candidate tail: a forward and a backward pass.

Forward turns queries (B, D) and a tile of candidates (n, D) into scores (B, n). Backward turns the
scores' gradient into those of the queries and the candidates; no autograd graph is ever built over
a (B, N) matrix. The scores' gradient is given as `slopes` times a weight a row, because a weight a
row can be folded into the small (B, D) factors instead of costing a pass over (B, N).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

# Added to squared distances: keeps the root and its gradient finite where two points coincide.
_CLOSE = 1e-12


class Similarity(Protocol):
    """A comparison of queries with candidates."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores (B, n)."""
        ...

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Turn ∂L/∂score, in place, into what the two gradients below need."""
        ...

    def query_gradient(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> Tensor:
        """∂L/∂query (B, D) of prepared slopes."""
        ...

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Add ∂L/∂candidates (n, D) of prepared slopes, row i of which counts `weight[i]` times."""
        ...

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """The score of each query with the tail of its own row, for autograd."""
        ...


class InnerProduct:
    """s = Σ qᵢ tᵢ: three matrix products in all."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Q Eᵀ."""
        torch.mm(query, candidates.T, out=out)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do: ∂s/∂q = t."""

    def query_gradient(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> Tensor:
        """G E."""
        return slopes @ candidates

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Gᵀ (w Q)."""
        into.addmm_(slopes.T, query * weight[:, None])

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Σ qᵢ tᵢ, row by row."""
        return (query * tails).sum(dim=-1)


class EuclideanDistance:
    """s = −‖q − t‖, through ‖q‖² + ‖t‖² − 2 q·t.

    Points that are close lose digits that way: the distance is right to about
    √(machine epsilon) · ‖q‖, and never NaN.
    """

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor) -> None:
        """−‖q − t‖ of all pairs."""
        torch.mm(query, candidates.T, out=out)
        out.mul_(-2).add_(query.square().sum(1)[:, None]).add_(candidates.square().sum(1))
        out.clamp_min_(0).add_(_CLOSE).sqrt_().neg_()

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """G / ‖q − t‖, with distances computed anew: the objective has overwritten them."""
        distance = torch.empty_like(slopes)
        self.forward(query, candidates, distance)
        slopes.div_(distance.neg_())

    def query_gradient(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> Tensor:
        """Σⱼ Gᵢⱼ (tⱼ − qᵢ)."""
        return slopes @ candidates - slopes.sum(1)[:, None] * query

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Σᵢ wᵢ Gᵢⱼ (qᵢ − tⱼ)."""
        into.addmm_(slopes.T, query * weight[:, None])
        into.sub_((slopes.T @ weight)[:, None] * candidates)

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """−‖q − t‖, row by row."""
        return -((query - tails).square().sum(dim=-1) + _CLOSE).sqrt()
