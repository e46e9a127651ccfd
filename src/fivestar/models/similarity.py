"""Similarities: how a query (the transformed head) is compared with every candidate tail.

`forward` turns queries (B, D) and a tile of candidates (n, D) into scores (B, n). The backward pass
turns the gradient of the scores into those of the queries and of the candidates; no autograd graph
is ever built over a (B, N) matrix. The gradient of the scores is given as `score_grad` times one
weight per row, since a weight per row can be folded into the small (B, D) factors instead of
costing a pass over (B, N).

A similarity needs only its formula: subclass `AutogradSimilarity` and define `score_pairs`. Those
below and in `distances` have gradients by hand, because they are faster; tests compare the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from fivestar.models.products import add_product, write_product

# Candidates per tile: few enough that a tile of scores stays in the cache, and not a power of two,
# since rows of 4,096 bytes all map to the same few cache lines.
TILE = 960
# Numbers per block of (queries, candidates, dimensions): a block stays in the cache.
BLOCK = 1 << 18
# Candidates per block: enough for one contiguous read, few enough for several queries.
_BLOCK_CANDIDATES = 256


class Similarity(ABC):
    """A comparison of queries with candidates, with its backward pass."""

    @abstractmethod
    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Write the scores (B, n), times `scale`, to `out`."""

    @abstractmethod
    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Turn ∂L/∂score, in place, into the form that the two methods below take."""

    @abstractmethod
    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add ∂L/∂query to `query_grad` (B, D), given a prepared `score_grad` (B, n)."""

    @abstractmethod
    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add ∂L/∂candidates to `candidate_grad` (n, D), with row i of `score_grad` × weight[i]."""

    @abstractmethod
    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return the score of each query with the tail of the same row, differentiable.

        Args:
            query: (..., D) queries.
            tails: (..., D) candidates; the leading dimensions broadcast.

        Returns:
            (...) scores.
        """

    def sum_all_with_grad(
        self, query: Tensor, weight: Tensor, table: Tensor, table_grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return Σᵢ wᵢ Σⱼ sᵢⱼ and its gradient by the query; add that by the table."""
        value, query_grad = query.new_zeros(()), torch.zeros_like(query)
        for start in range(0, len(table), TILE):
            candidates = table[start : start + TILE]
            scores = query.new_empty(len(query), len(candidates))
            self.forward(query, candidates, scores)
            value += weight @ scores.sum(dim=1)
            self.prepare_score_grad(query, candidates, scores.fill_(1))
            self.add_query_grad(query, candidates, scores, query_grad)
            tile_grad = table_grad[start : start + TILE]
            self.add_candidate_grad(query, weight, candidates, scores, tile_grad)
        return value, query_grad.mul_(weight[:, None])

    def sum_pairs_with_grad(self, query: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sum of `score_pairs` and its gradients by the queries and by the tails."""
        with torch.enable_grad():
            query, tails = query.detach().requires_grad_(), tails.detach().requires_grad_()
            value = self.score_pairs(query, tails).sum()
            query_grad, tail_grad = torch.autograd.grad(value, (query, tails))
        return value.detach(), query_grad, tail_grad


class AutogradSimilarity(Similarity):
    """A similarity that defines only `score_pairs`; its gradients come from autograd.

    All pairs are scored block by block, so memory stays bounded: a block has about 2¹⁸ numbers,
    and the autograd graph of one block is released before the next one is built.
    """

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Score all pairs, block by block."""
        with torch.no_grad():
            for rows, columns in blocks(query, candidates):
                scores = self.score_pairs(query[rows, None], candidates[None, columns])
                torch.mul(scores, scale, out=out[rows, columns])

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing: autograd takes ∂L/∂score itself."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add the gradient by autograd, block by block."""
        for rows, columns in blocks(query, candidates):
            with torch.enable_grad():
                leaf = query[rows].detach().requires_grad_()
                scores = self.score_pairs(leaf[:, None], candidates[None, columns].detach())
            query_grad[rows] += torch.autograd.grad(scores, leaf, score_grad[rows, columns])[0]

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the gradient by autograd, block by block."""
        for rows, columns in blocks(query, candidates):
            with torch.enable_grad():
                leaf = candidates[columns].detach().requires_grad_()
                scores = self.score_pairs(query[rows, None].detach(), leaf[None])
            weighted = score_grad[rows, columns] * weight[rows, None]
            candidate_grad[columns] += torch.autograd.grad(scores, leaf, weighted)[0]


class InnerProduct(Similarity):
    """s = Σ qᵢ tᵢ: three matrix products in all."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute Q Eᵀ."""
        write_product(query, candidates.T, out, scale)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing: ∂s/∂q = t."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add G E."""
        add_product(score_grad, candidates, query_grad)

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add Gᵀ (w Q)."""
        add_product(score_grad.T, query * weight[:, None], candidate_grad)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return Σ qᵢ tᵢ of each row."""
        return (query * tails).sum(dim=-1)

    def sum_all_with_grad(
        self, query: Tensor, weight: Tensor, table: Tensor, table_grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return (Σ wᵢ qᵢ) · (Σ tⱼ) and its gradient, without a pass over all pairs."""
        table_sum, query_sum = table.sum(dim=0), weight @ query
        table_grad += query_sum
        return query_sum @ table_sum, weight[:, None] * table_sum

    def sum_pairs_with_grad(self, query: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sum and its gradients: that by the one is the other."""
        return query.reshape(-1) @ tails.reshape(-1), tails, query


class Bfloat16InnerProduct(InnerProduct):
    """The inner product with its factors rounded to bfloat16; everything else is unchanged."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute Q Eᵀ."""
        out.copy_((scale * query).bfloat16() @ candidates.bfloat16().T)

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add G E."""
        query_grad += score_grad.bfloat16() @ candidates.bfloat16()

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add Gᵀ (w Q)."""
        candidate_grad += score_grad.T.bfloat16() @ (query * weight[:, None]).bfloat16()


class Biased(Similarity):
    """Another similarity plus two biases: the last columns of the query and of the candidate."""

    def __init__(self, inner: Similarity) -> None:
        self.inner = inner

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute the inner score and add both biases."""
        self.inner.forward(query[:, :-1], candidates[:, :-1], out, scale)
        out.add_(query[:, -1:], alpha=scale).add_(candidates[:, -1], alpha=scale)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing: the biases need the gradient as it is, so the inner one gets a copy."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add the inner gradient, and row sums for the bias."""
        query_grad[:, -1] += score_grad.sum(dim=1)
        points, others = query[:, :-1], candidates[:, :-1]
        inner_grad = score_grad.clone()
        self.inner.prepare_score_grad(points, others, inner_grad)
        self.inner.add_query_grad(points, others, inner_grad, query_grad[:, :-1])

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the inner gradient, and column sums for the bias."""
        candidate_grad[:, -1] += score_grad.T @ weight
        points, others = query[:, :-1], candidates[:, :-1]
        inner_grad = score_grad.clone()
        self.inner.prepare_score_grad(points, others, inner_grad)
        self.inner.add_candidate_grad(points, weight, others, inner_grad, candidate_grad[:, :-1])

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return the inner score plus both biases of each row."""
        inner = self.inner.score_pairs(query[..., :-1], tails[..., :-1])
        return inner + query[..., -1] + tails[..., -1]


class Transposed(Similarity):
    """Another similarity with swapped sides: tails as queries, transformed heads as candidates."""

    def __init__(self, inner: Similarity) -> None:
        self.inner = inner

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute the transpose of the inner scores."""
        scores = out.new_empty(len(candidates), len(query))
        self.inner.forward(candidates, query, scores, scale)
        out.copy_(scores.T)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Prepare the transpose."""
        transposed = score_grad.T.contiguous()
        self.inner.prepare_score_grad(candidates, query, transposed)
        score_grad.copy_(transposed.T)

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add the gradient of the inner candidates."""
        ones, transposed = score_grad.new_ones(len(candidates)), score_grad.T.contiguous()
        self.inner.add_candidate_grad(candidates, ones, query, transposed, query_grad)

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the gradient of the inner queries."""
        weighted = (score_grad * weight[:, None]).T.contiguous()
        self.inner.add_query_grad(candidates, query, weighted, candidate_grad)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return the inner score of each row."""
        return self.inner.score_pairs(tails, query)


def blocks(query: Tensor, candidates: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield slices of queries and of candidates that have at most `BLOCK` numbers together."""
    width = query.shape[1]
    columns = max(1, min(len(candidates), _BLOCK_CANDIDATES, BLOCK // width))
    rows = max(1, BLOCK // (width * columns))
    for first in range(0, len(query), rows):
        for start in range(0, len(candidates), columns):
            yield slice(first, first + rows), slice(start, start + columns)
