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
# Added to squared moduli: keeps the root and its gradient finite where two points coincide.
_CLOSE = 1e-12


class DifferenceSum(Similarity):
    """s = Σₖ f(qₖ − tₖ)."""

    @abstractmethod
    def values(self, difference: Tensor) -> Tensor:
        """Σ f, over the last dimension."""

    @abstractmethod
    def slopes_of(self, difference: Tensor) -> Tensor:
        """The derivative of the sum by each difference."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Block by block."""
        for some, few, difference in _blocks(query, candidates):
            out[some, few] = self.values(difference) * scale

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """Σⱼ Gᵢⱼ f′."""
        for some, few, difference in _blocks(query, candidates):
            into[some] += torch.einsum("bn,bnd->bd", slopes[some, few], self.slopes_of(difference))

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """−Σᵢ wᵢ Gᵢⱼ f′."""
        for some, few, difference in _blocks(query, candidates):
            weighted = slopes[some, few] * weight[some, None]
            into[few] -= torch.einsum("bn,bnd->nd", weighted, self.slopes_of(difference))

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return self.values(query - tails)


class AbsoluteSum(DifferenceSum):
    """s = −Σ |q − t|."""

    def values(self, difference: Tensor) -> Tensor:
        """The 1-norm."""
        return -difference.abs().sum(dim=-1)

    def slopes_of(self, difference: Tensor) -> Tensor:
        """Signs."""
        return -difference.sign()


class ModulusSum(DifferenceSum):
    """s = −Σ |q − t| over ℂ, rows being [real | imaginary]."""

    def values(self, difference: Tensor) -> Tensor:
        """The sum of moduli."""
        return -self._moduli(difference).sum(dim=-1)

    def slopes_of(self, difference: Tensor) -> Tensor:
        """Directions."""
        inverse = self._moduli(difference).reciprocal_().neg_()
        return difference * torch.cat([inverse, inverse], dim=-1)

    def _moduli(self, difference: Tensor) -> Tensor:
        real, imag = difference.chunk(2, dim=-1)
        return torch.addcmul(torch.addcmul(real.new_tensor(_CLOSE), real, real), imag, imag).sqrt()


class SineSum(DifferenceSum):
    """s = −Σ |sin((q − t)/2)|."""

    def values(self, difference: Tensor) -> Tensor:
        """The sum of half chords."""
        return -(difference / 2).sin().abs().sum(dim=-1)

    def slopes_of(self, difference: Tensor) -> Tensor:
        """−½ cos, with the sign of the sine."""
        half = difference / 2
        return half.cos() * half.sin().sign() * -0.5


def _blocks(query: Tensor, candidates: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """The differences of all pairs, block by block."""
    width = max(1, _BLOCK // query.shape[1])
    columns = min(len(candidates), max(16, int(width**0.5)))
    rows = max(1, width // columns)
    for first in range(0, len(query), rows):
        some = slice(first, first + rows)
        for start in range(0, len(candidates), columns):
            few = slice(start, start + columns)
            yield some, few, query[some, None] - candidates[None, few]
