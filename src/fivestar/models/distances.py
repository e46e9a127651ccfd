"""Distances that are no matrix product: sums of a function of each difference.

They are computed in blocks of (rows, candidates, dimensions) that stay in the cache, so that no
(B, N, D) tensor ever exists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from fivestar.models.similarity import Similarity

# Numbers in a block.
_BLOCK = 1 << 18
# Candidates in a block; enough to be read in one go, few enough for several queries.
_WIDE = 256
# Added to squared moduli: keeps the root and its gradient finite where two points coincide.
_CLOSE = 1e-12


class DifferenceSum(Similarity):
    """s = Σₖ f(qₖ − tₖ)."""

    @abstractmethod
    def values(self, difference: Tensor, dim: int) -> Tensor:
        """Σ f, over that dimension."""

    @abstractmethod
    def slopes_of(self, difference: Tensor, dim: int) -> Tensor:
        """The derivative of the sum by each difference; may be written over them."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Block by block."""
        for some, few, difference in _blocks(query, candidates):
            out[some, few] = self.values(difference, dim=1) * scale

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Σⱼ Gᵢⱼ f′."""
        for some, few, difference in _blocks(query, candidates):
            by_difference = self.slopes_of(difference, dim=1).mul_(slopes[some, None, few])
            into[some] += by_difference.sum(dim=2)

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """−Σᵢ wᵢ Gᵢⱼ f′."""
        for some, few, difference in _blocks(query, candidates):
            weighted = slopes[some, None, few] * weight[some, None, None]
            by_difference = self.slopes_of(difference, dim=1).mul_(weighted)
            into[few] -= by_difference.sum(dim=0).T

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return self.values(query - tails, dim=-1)


class AbsoluteSum(Similarity):
    """s = −Σ |q − t|, by torch's own kernel, which makes no tensor of all differences either."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Of all pairs."""
        torch.mul(torch.cdist(query, candidates, p=1.0), -scale, out=out)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """−Σⱼ Gᵢⱼ sign(q − t)."""
        into.sub_(_slopes_of_norm(slopes, query, candidates))

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """The same with the sides exchanged."""
        into.sub_(_slopes_of_norm((slopes * weight[:, None]).T, candidates, query))

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return -(query - tails).abs().sum(dim=-1)


def _slopes_of_norm(weights: Tensor, points: Tensor, others: Tensor) -> Tensor:
    """Σⱼ wᵢⱼ sign(pᵢ − oⱼ)."""
    # Of the 1-norm, the kernel takes the distances but does not look at them.
    weights = weights.contiguous()
    slopes: Tensor = torch.ops.aten._cdist_backward(  # noqa: SLF001
        weights, points.contiguous(), others.contiguous(), 1.0, weights
    )
    return slopes


class ModulusSum(DifferenceSum):
    """s = −Σ |q − t| over ℂ, rows being [real | imaginary]."""

    def values(self, difference: Tensor, dim: int) -> Tensor:
        """The sum of moduli."""
        return -self._moduli(difference, dim).sum(dim=dim)

    def slopes_of(self, difference: Tensor, dim: int) -> Tensor:
        """Directions."""
        inverse = self._moduli(difference, dim).reciprocal_().neg_()
        for part in difference.chunk(2, dim=dim):
            part.mul_(inverse)
        return difference

    def _moduli(self, difference: Tensor, dim: int) -> Tensor:
        real, imag = difference.chunk(2, dim=dim)
        return torch.addcmul(torch.addcmul(real.new_tensor(_CLOSE), real, real), imag, imag).sqrt()


class SineSum(DifferenceSum):
    """s = −Σ |sin((q − t)/2)|."""

    def values(self, difference: Tensor, dim: int) -> Tensor:
        """The sum of half chords."""
        return -(difference / 2).sin().abs().sum(dim=dim)

    def slopes_of(self, difference: Tensor, dim: int) -> Tensor:
        """−½ cos, with the sign of the sine."""
        half = difference / 2
        return half.cos() * half.sin().sign() * -0.5


def _blocks(query: Tensor, candidates: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """The differences of all pairs, block by block, as (rows, dimensions, candidates)."""
    columns = max(1, min(len(candidates), _WIDE, _BLOCK // query.shape[1]))
    rows = max(1, _BLOCK // (query.shape[1] * columns))
    turned = candidates.T.contiguous()
    for first in range(0, len(query), rows):
        some = slice(first, first + rows)
        for start in range(0, len(candidates), columns):
            few = slice(start, start + columns)
            yield some, few, query[some, :, None] - turned[:, few]
