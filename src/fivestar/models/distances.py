"""Distances as similarities: scores are negative distances.

Those that are matrix products come first. The others sum a function of each difference; they are
computed in blocks of (queries, dimensions, candidates) that stay in the cache, so that no (B, N, D)
tensor ever exists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from fivestar.models.products import add_product, product, write_product
from fivestar.models.similarity import Similarity, blocks

# Added to squared distances: keeps the root and its gradient finite where two points coincide.
_TINY = 1e-12
# Squared distances below this share of ‖q‖² + ‖t‖² have lost digits in the product.
_CANCELLATION = 1e-2
# Numbers per chunk of pairs whose distance is recomputed from the differences.
_RECOMPUTED = 1 << 20


class SquaredDistance(Similarity):
    """s = −‖q − t‖² through ‖q‖² + ‖t‖² − 2 q·t; close pairs are recomputed from differences."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute −‖q − t‖² of all pairs."""
        _squared_distances(query, candidates, out)
        out.mul_(-scale)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Compute 2 G."""
        score_grad.mul_(2)

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add Σⱼ Gᵢⱼ (tⱼ − qᵢ)."""
        add_product(score_grad, candidates, query_grad)
        query_grad.sub_(score_grad.sum(1)[:, None] * query)

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add Σᵢ wᵢ Gᵢⱼ (qᵢ − tⱼ)."""
        add_product(score_grad.T, query * weight[:, None], candidate_grad)
        candidate_grad.sub_((score_grad.T @ weight)[:, None] * candidates)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return −‖q − t‖² of each row."""
        return -(query - tails).square().sum(dim=-1)


class EuclideanDistance(SquaredDistance):
    """s = −‖q − t‖."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute −‖q − t‖ of all pairs."""
        _squared_distances(query, candidates, out)
        out.add_(_TINY).sqrt_().mul_(-scale)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Compute G / ‖q − t‖; the objective has overwritten the distances, so compute them too."""
        distance = torch.empty_like(score_grad)
        self.forward(query, candidates, distance, -1.0)
        score_grad.div_(distance)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return −‖q − t‖ of each row."""
        return -((query - tails).square().sum(dim=-1) + _TINY).sqrt()


class SquaredSineDistance(Similarity):
    """s = −Σ sin²((q − t)/2) = ½ Σ (cos q cos t + sin q sin t − 1), of angles."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute one product of points on circles."""
        points = _on_circles(candidates)
        write_product(_on_circles(query), points.T, out, scale / 2)
        out.sub_(scale * query.shape[1] / 2)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Compute ½ G."""
        score_grad.div_(2)

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add the gradient along the circles of the queries."""
        query_grad += _angle_grad(query, product(score_grad, _on_circles(candidates)))

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the gradient along the circles of the candidates."""
        point_grad = product(score_grad.T, _on_circles(query) * weight[:, None])
        candidate_grad += _angle_grad(candidates, point_grad)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return −Σ sin²((q − t)/2) of each row."""
        return -((query - tails) / 2).sin().square().sum(dim=-1)


class L1Distance(Similarity):
    """s = −Σ |q − t|, by torch's own kernel, which builds no tensor of all differences either."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute −Σ |q − t| of all pairs."""
        torch.mul(torch.cdist(query, candidates, p=1.0), -scale, out=out)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add −Σⱼ Gᵢⱼ sign(q − t)."""
        query_grad.sub_(_l1_grad(score_grad, query, candidates))

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the same with the sides swapped."""
        candidate_grad.sub_(_l1_grad((score_grad * weight[:, None]).T, candidates, query))

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return −Σ |q − t| of each row."""
        return -(query - tails).abs().sum(dim=-1)


class ElementwiseDistance(Similarity):
    """s = Σₖ f(qₖ − tₖ)."""

    @abstractmethod
    def sum_values(self, difference: Tensor, dim: int) -> Tensor:
        """Return Σ f, over that dimension."""

    @abstractmethod
    def difference_grad(self, difference: Tensor, dim: int) -> Tensor:
        """Return the derivative of the sum by each difference; may overwrite `difference`."""

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute Σ f of all pairs, block by block."""
        for rows, columns, difference in _differences(query, candidates):
            out[rows, columns] = self.sum_values(difference, dim=1) * scale

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add Σⱼ Gᵢⱼ f′."""
        for rows, columns, difference in _differences(query, candidates):
            grad = self.difference_grad(difference, dim=1).mul_(score_grad[rows, None, columns])
            query_grad[rows] += grad.sum(dim=2)

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add −Σᵢ wᵢ Gᵢⱼ f′."""
        for rows, columns, difference in _differences(query, candidates):
            weighted = score_grad[rows, None, columns] * weight[rows, None, None]
            grad = self.difference_grad(difference, dim=1).mul_(weighted)
            candidate_grad[columns] -= grad.sum(dim=0).T

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return Σ f of each row."""
        return self.sum_values(query - tails, dim=-1)


class ModulusDistance(ElementwiseDistance):
    """s = −Σ |q − t| over ℂ, rows being [real | imaginary]."""

    def sum_values(self, difference: Tensor, dim: int) -> Tensor:
        """Return minus the sum of moduli."""
        return -self._moduli(difference, dim).sum(dim=dim)

    def difference_grad(self, difference: Tensor, dim: int) -> Tensor:
        """Return minus the unit vectors of the differences."""
        inverse = self._moduli(difference, dim).reciprocal_().neg_()
        for part in difference.chunk(2, dim=dim):
            part.mul_(inverse)
        return difference

    def _moduli(self, difference: Tensor, dim: int) -> Tensor:
        real, imag = difference.chunk(2, dim=dim)
        return torch.addcmul(torch.addcmul(real.new_tensor(_TINY), real, real), imag, imag).sqrt()


class SineDistance(ElementwiseDistance):
    """s = −Σ |sin((q − t)/2)|."""

    def sum_values(self, difference: Tensor, dim: int) -> Tensor:
        """Return minus the sum of half chords."""
        return -(difference / 2).sin().abs().sum(dim=dim)

    def difference_grad(self, difference: Tensor, dim: int) -> Tensor:
        """Return −½ cos with the sign of the sine."""
        half = difference / 2
        return half.cos() * half.sin().sign() * -0.5


def _squared_distances(query: Tensor, candidates: Tensor, out: Tensor) -> None:
    """Write ‖q − t‖² of all pairs, with full precision where points are close.

    A product has an error of about the machine precision times ‖q‖² + ‖t‖². Where that is more
    than a small share of the distance, it is recomputed from the differences.
    """
    size = query.square().sum(dim=1)[:, None] + candidates.square().sum(dim=1)
    write_product(query, candidates.T, out, -2)
    out.add_(size)
    close = torch.nonzero(out < size * _CANCELLATION)
    at_once = max(1, _RECOMPUTED // query.shape[1])
    for pairs in close.split(at_once):  # type: ignore[no-untyped-call]
        row, column = pairs.unbind(dim=1)
        out[row, column] = (query[row] - candidates[column]).square().sum(dim=1)


def _on_circles(angles: Tensor) -> Tensor:
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _angle_grad(angles: Tensor, point_grad: Tensor) -> Tensor:
    """Return the gradient by angles, given that by points on circles."""
    cos_grad, sin_grad = point_grad.chunk(2, dim=-1)
    return torch.addcmul(angles.cos() * sin_grad, angles.sin(), cos_grad, value=-1)


def _l1_grad(weights: Tensor, points: Tensor, others: Tensor) -> Tensor:
    """Return Σⱼ wᵢⱼ sign(pᵢ − oⱼ)."""
    # For the 1-norm, the kernel takes the distances as an argument but does not read them.
    weights = weights.contiguous()
    grad: Tensor = torch.ops.aten._cdist_backward(  # noqa: SLF001
        weights, points.contiguous(), others.contiguous(), 1.0, weights
    )
    return grad


def _differences(query: Tensor, candidates: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield the differences of all pairs, block by block, as (queries, dimensions, candidates)."""
    transposed = candidates.T.contiguous()
    for rows, columns in blocks(query, candidates):
        yield rows, columns, query[rows, :, None] - transposed[:, columns]
