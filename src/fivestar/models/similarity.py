"""How a moved head is compared with every candidate tail: a forward and a backward pass.

Forward turns queries (B, D) and a tile of candidates (n, D) into scores (B, n). Backward turns the
scores' gradient into those of the queries and the candidates; no autograd graph is ever built over
a (B, N) matrix. The scores' gradient is given as `slopes` times a weight a row, because a weight a
row can be folded into the small (B, D) factors instead of costing a pass over (B, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

# Candidates compared at once: small enough that a tile of scores stays in the cache, and no power
# of two, since rows of 4,096 bytes all fall on the same few places of the cache.
TILE = 960
# Added to squared distances: keeps the root and its gradient finite where two points coincide.
_CLOSE = 1e-12
# Squared distances below this part of ‖q‖² + ‖t‖² have lost digits in the product.
_CANCELS = 1e-2
# Numbers taken at once to find them anew.
_PAIRS = 1 << 20


class Similarity(ABC):
    """A comparison of queries with candidates."""

    @abstractmethod
    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Write the scores (B, n), times `scale`."""

    @abstractmethod
    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Turn ∂L/∂score, in place, into what the two gradients below need."""

    @abstractmethod
    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Add ∂L/∂query (B, D) of prepared slopes."""

    @abstractmethod
    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Add ∂L/∂candidates (n, D) of prepared slopes, row i of which counts `weight[i]` times."""

    @abstractmethod
    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """The score of each query with the tail of its own row, for autograd."""

    def sum_of_all(
        self, query: Tensor, weight: Tensor, table: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Σᵢ wᵢ Σⱼ sᵢⱼ and its gradient by the query; adds its gradient by the table."""
        value, query_gradient = query.new_zeros(()), torch.zeros_like(query)
        for start in range(0, len(table), TILE):
            candidates = table[start : start + TILE]
            scores = query.new_empty(len(query), len(candidates))
            self.forward(query, candidates, scores)
            value += weight @ scores.sum(dim=1)
            self.prepare(query, candidates, scores.fill_(1))
            self.add_query_gradient(query, candidates, scores, query_gradient)
            part = into[start : start + TILE]
            self.add_candidate_gradient(query, weight, candidates, scores, part)
        return value, query_gradient.mul_(weight[:, None])

    def pairs(self, query: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Σ of the scores of rows, and its gradients by the queries and by the tails."""
        with torch.enable_grad():
            query, tails = query.detach().requires_grad_(), tails.detach().requires_grad_()
            value = self.rows(query, tails).sum()
            by_query, by_tails = torch.autograd.grad(value, (query, tails))
        return value.detach(), by_query, by_tails


class InnerProduct(Similarity):
    """s = Σ qᵢ tᵢ: three matrix products in all."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Q Eᵀ."""
        torch.addmm(out, query, candidates.T, beta=0, alpha=scale, out=out)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do: ∂s/∂q = t."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """G E."""
        into.addmm_(slopes, candidates)

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Gᵀ (w Q)."""
        into.addmm_(slopes.T, query * weight[:, None])

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Σ qᵢ tᵢ, row by row."""
        return (query * tails).sum(dim=-1)

    def sum_of_all(
        self, query: Tensor, weight: Tensor, table: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(Σ wᵢ qᵢ) · (Σ tⱼ): no pass over all pairs."""
        total, moved = table.sum(dim=0), weight @ query
        into += moved
        return moved @ total, weight[:, None] * total

    def pairs(self, query: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient by the one is the other."""
        return query.reshape(-1) @ tails.reshape(-1), tails, query


class RoundedInnerProduct(InnerProduct):
    """The inner product with its factors rounded to bfloat16; all else stays as it was."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Q Eᵀ."""
        out.copy_((scale * query).bfloat16() @ candidates.bfloat16().T)

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """G E."""
        into += slopes.bfloat16() @ candidates.bfloat16()

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Gᵀ (w Q)."""
        into += slopes.T.bfloat16() @ (query * weight[:, None]).bfloat16()


class SquaredDistance(Similarity):
    """s = −‖q − t‖², through ‖q‖² + ‖t‖² − 2 q·t; pairs that are close are computed anew."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """−‖q − t‖² of all pairs."""
        _squared_distances(query, candidates, out)
        out.mul_(-scale)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """2 G."""
        slopes.mul_(2)

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Σⱼ Gᵢⱼ (tⱼ − qᵢ)."""
        into.addmm_(slopes, candidates).sub_(slopes.sum(1)[:, None] * query)

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Σᵢ wᵢ Gᵢⱼ (qᵢ − tⱼ)."""
        into.addmm_(slopes.T, query * weight[:, None])
        into.sub_((slopes.T @ weight)[:, None] * candidates)

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """−‖q − t‖², row by row."""
        return -(query - tails).square().sum(dim=-1)


class EuclideanDistance(SquaredDistance):
    """s = −‖q − t‖."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """−‖q − t‖ of all pairs."""
        _squared_distances(query, candidates, out)
        out.add_(_CLOSE).sqrt_().mul_(-scale)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """G / ‖q − t‖, with distances computed anew: the objective has overwritten them."""
        distance = torch.empty_like(slopes)
        self.forward(query, candidates, distance, -1.0)
        slopes.div_(distance)

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """−‖q − t‖, row by row."""
        return -((query - tails).square().sum(dim=-1) + _CLOSE).sqrt()


class CosineSum(Similarity):
    """s = −Σ sin²((q − t)/2) = ½ Σ (cos q cos t + sin q sin t − 1), of angles."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """One product of points on circles."""
        points = _on_circles(candidates)
        torch.addmm(out, _on_circles(query), points.T, beta=0, alpha=scale / 2, out=out)
        out.sub_(scale * query.shape[1] / 2)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """½ G."""
        slopes.div_(2)

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Along the circles of the queries."""
        into += _along_circles(query, slopes @ _on_circles(candidates))

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Along the circles of the candidates."""
        into += _along_circles(candidates, slopes.T @ (_on_circles(query) * weight[:, None]))

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return -((query - tails) / 2).sin().square().sum(dim=-1)


def _squared_distances(query: Tensor, candidates: Tensor, out: Tensor) -> None:
    """‖q − t‖² of all pairs, without losing the digits of those that are close.

    A product leaves an error of about the machine's precision times ‖q‖² + ‖t‖². Where that is
    more than a small part of the distance, the differences themselves are taken.
    """
    size = query.square().sum(dim=1)[:, None] + candidates.square().sum(dim=1)
    torch.addmm(size, query, candidates.T, alpha=-2, out=out)
    pairs = torch.nonzero(out < size * _CANCELS)
    for some in pairs.split(max(1, _PAIRS // query.shape[1])):  # type: ignore[no-untyped-call]
        row, column = some.unbind(dim=1)
        out[row, column] = (query[row] - candidates[column]).square().sum(dim=1)


def _on_circles(angles: Tensor) -> Tensor:
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _along_circles(angles: Tensor, gradient: Tensor) -> Tensor:
    """The gradient by angles of a gradient by points on circles."""
    by_cos, by_sin = gradient.chunk(2, dim=-1)
    return torch.addcmul(angles.cos() * by_sin, angles.sin(), by_cos, value=-1)
