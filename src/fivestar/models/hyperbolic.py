"""Models on the Poincaré ball."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.poincare_ball import (
    excess_of_sum,
    expmap0,
    logmap0,
    one_minus,
    project,
    squared_distance,
    squared_distance_grad,
)
from fivestar.models.products import add_product, product
from fivestar.models.similarity import TILE, Similarity
from fivestar.models.translation import MuRE


class ShiftedBallDistance(Similarity):
    """s = −d(x, t ⊕ r)², a query being [x | r].

    Since 1 − ‖t ⊕ r‖² = (1 − tt)(1 − rr)/(1 + 2rt + tt·rr), the distance is a function of a
    polynomial in x·t, r·t and lengths, over (1 − xx)(1 − tt)(1 − rr): two matrix products.
    """

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Compute −d(x, t ⊕ r)² of all pairs."""
        torch.mul(squared_distance(_Products(query, candidates).excess()), -scale, out=out)

    def prepare_score_grad(self, query: Tensor, candidates: Tensor, score_grad: Tensor) -> None:
        """Do nothing."""

    def add_query_grad(
        self, query: Tensor, candidates: Tensor, score_grad: Tensor, query_grad: Tensor
    ) -> None:
        """Add the gradients through x·t and r·t, and through the lengths of x and r."""
        p = _Products(query, candidates)
        by_over, by_excess = p.gradients(score_grad)
        total, of_tt = by_over.sum(dim=1, keepdim=True), (by_over @ p.tt)[:, None]
        of_xt, of_rt = (torch.einsum("bn,bn->b", by_over, z)[:, None] for z in (p.xt, p.rt))
        under = by_excess.sum(dim=1, keepdim=True)
        by_xx = total + p.rr * of_tt + 2 * of_rt + under / one_minus(p.xx)
        by_rr = total + p.xx * of_tt - 2 * of_xt + under / one_minus(p.rr)
        by_xr = 2 * (of_tt - total)
        x_grad, r_grad = query_grad.chunk(2, dim=1)
        add_product(p.by_xt(by_over), candidates, x_grad)
        add_product(p.by_rt(by_over), candidates, r_grad)
        x_grad.add_(2 * by_xx * p.x + by_xr * p.r)
        r_grad.add_(2 * by_rr * p.r + by_xr * p.x)

    def add_candidate_grad(
        self,
        query: Tensor,
        weight: Tensor,
        candidates: Tensor,
        score_grad: Tensor,
        candidate_grad: Tensor,
    ) -> None:
        """Add the gradients through x·t and r·t, and through the length of t."""
        p = _Products(query, candidates)
        by_over, by_excess = p.gradients(score_grad)
        of_tt = ((1 + p.xx) * p.rr + 2 * p.xr + 1 - p.rr).squeeze(1)
        by_tt = (weight * of_tt) @ by_over + weight @ by_excess / one_minus(p.tt)
        weight = weight[:, None]
        add_product(p.by_xt(by_over).T, weight * p.x, candidate_grad)
        add_product(p.by_rt(by_over).T, weight * p.r, candidate_grad)
        candidate_grad.add_(2 * by_tt[:, None] * candidates)

    def score_pairs(self, query: Tensor, tails: Tensor) -> Tensor:
        """Return −d(x, t ⊕ r)² of each row."""
        x, r = query.chunk(2, dim=-1)
        xt, rt, tt = ((z * tails).sum(dim=-1) for z in (x, r, tails))
        xx, rr, xr = ((y * z).sum(dim=-1) for y, z in ((x, x), (r, r), (x, r)))
        return -squared_distance(excess_of_sum(xt, rt, tt, xx, rr, xr))


class MuRP(MuRE):
    """s = −d(exp(R ∘ log h), t ⊕ r)² + b_h + b_t on the ball (Balažević et al., NeurIPS 2019).

    MuRE on a Poincaré ball: d + 2 reals per entity ([t | b_t | b_h]) and 2d per relation
    ([R | r]). The relation translates the tail, so the similarity takes r as part of the query;
    hyperbolic translation and a scaling of tangent vectors. Made for hierarchies.
    """

    distance = ShiftedBallDistance

    @property
    def scratch_per_query(self) -> int:
        """The intermediate results of a tile of scores."""
        return super().scratch_per_query + 16 * TILE

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return [exp(R ∘ log h) | r | b_h]."""
        scale, shift = relation.chunk(2, dim=-1)
        point = project(expmap0(scale * logmap0(project(head[..., :-2]))))
        return torch.cat([point, project(shift), head[..., -1:]], dim=-1)

    def manifold_parameters(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, ...]:
        """Return the columns of h and of r."""
        return entities[:, :-2], relations.chunk(2, dim=1)[1]

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return squares, without the bias (and, of a query, without the shift)."""
        dim = self.entities.shape[1] - 2
        return points[..., :dim].square()


class _Products:
    """x·t and r·t of all pairs (B, n), t·t (n,), and x·x, r·r, x·r (B, 1)."""

    def __init__(self, query: Tensor, candidates: Tensor) -> None:
        self.x, self.r = query.chunk(2, dim=1)
        self.xt, self.rt = (product(z, candidates.T) for z in (self.x, self.r))
        self.tt = candidates.square().sum(dim=1)
        self.xx, self.rr, self.xr = (
            (y * z).sum(dim=1, keepdim=True)
            for y, z in ((self.x, self.x), (self.r, self.r), (self.x, self.r))
        )

    def excess(self) -> Tensor:
        """Return the excess, which the distance is a function of."""
        return excess_of_sum(self.xt, self.rt, self.tt, self.xx, self.rr, self.xr)

    def gradients(self, score_grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients by the polynomial, and by the excess (times the excess)."""
        excess = self.excess()
        by_excess = squared_distance_grad(excess).mul_(score_grad).neg_()
        by_over = by_excess / one_minus(self.tt)
        by_over.div_(one_minus(self.xx) * one_minus(self.rr))
        return by_over, by_excess.mul_(excess)

    def by_xt(self, by_over: Tensor) -> Tensor:
        """Return the gradient by x·t."""
        return (self.rt * -4).sub_(2 + 2 * self.rr).mul_(by_over)

    def by_rt(self, by_over: Tensor) -> Tensor:
        """Return the gradient by r·t."""
        return (self.xt * -4).add_(2 + 2 * self.xx).mul_(by_over)
