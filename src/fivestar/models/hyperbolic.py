"""Models on the Poincaré ball."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.poincare_ball import exp0, inside, lengths_of_sum, log0, squared_distance
from fivestar.models.similarity import TILE, Similarity
from fivestar.models.translation import MuRE


class ShiftedBallDistance(Similarity):
    """s = −d(x, t ⊕ r)², a query being [x | r].

    The distance needs only lengths and the inner products x·t and r·t, so two matrix products do
    it; what is done with them is left to autograd, tile by tile.
    """

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """Of all pairs."""
        out.copy_(_scores(*_products(query, candidates))).mul_(scale)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """By x·t and r·t, and by the lengths of x and r."""
        by_xt, by_rt, _, by_xx, by_rr, by_xr = _gradients(query, candidates, slopes)
        (x, r), (into_x, into_r) = query.chunk(2, dim=1), into.chunk(2, dim=1)
        into_x.addmm_(by_xt, candidates).add_(2 * by_xx * x + by_xr * r)
        into_r.addmm_(by_rt, candidates).add_(2 * by_rr * r + by_xr * x)

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """By x·t and r·t, and by the length of t."""
        by_xt, by_rt, by_tt, *_ = _gradients(query, candidates, slopes * weight[:, None])
        x, r = query.chunk(2, dim=1)
        into.addmm_(by_xt.T, x).addmm_(by_rt.T, r).add_(2 * by_tt[:, None] * candidates)

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        x, r = query.chunk(2, dim=-1)
        return _scores(
            (x * tails).sum(dim=-1),
            (r * tails).sum(dim=-1),
            tails.square().sum(dim=-1),
            x.square().sum(dim=-1),
            r.square().sum(dim=-1),
            (x * r).sum(dim=-1),
        )


class MuRP(MuRE):
    """s = −d(exp(R ∘ log h), t ⊕ r)² + b_h + b_t on the ball (Balažević et al., NeurIPS 2019).

    MuRE with its points on a Poincaré ball: d + 2 reals an entity ([t | b_t | b_h]) and 2d a
    relation ([R | r]). The relation moves the tail, so the comparison itself knows it; hyperbolic
    translation and a stretch of tangent vectors. Made for hierarchies.
    """

    comparison = ShiftedBallDistance

    @property
    def scratch(self) -> int:
        """What autograd holds of a tile."""
        return super().scratch + 48 * TILE

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """[exp(R ∘ log h) | r | b_h]."""
        stretch, shift = relation.chunk(2, dim=-1)
        moved = inside(exp0(stretch * log0(inside(head[..., :-2]))))
        return torch.cat([moved, inside(shift), head[..., -1:]], dim=-1)

    def on_balls(self, entities: Tensor, relations: Tensor) -> tuple[Tensor, ...]:
        """The columns of the tables that are points of a ball."""
        return entities[:, :-2], relations.chunk(2, dim=1)[1]

    def point_sizes(self, points: Tensor) -> Tensor:
        """Squares, without the bias (and, of a query, without the shift)."""
        dim = self.entities.shape[1] - 2
        return points[..., :dim].square()


def _products(query: Tensor, candidates: Tensor) -> tuple[Tensor, ...]:
    """x·t and r·t (B, n), t·t (n,), and x·x, r·r, x·r (B, 1)."""
    x, r = query.chunk(2, dim=1)
    small = (part.sum(dim=1, keepdim=True) for part in (x.square(), r.square(), x * r))
    return x @ candidates.T, r @ candidates.T, candidates.square().sum(dim=1), *small


def _scores(xt: Tensor, rt: Tensor, tt: Tensor, xx: Tensor, rr: Tensor, xr: Tensor) -> Tensor:
    yy, xy = lengths_of_sum(tt, rr, rt, xt, xr)
    return -squared_distance(xx, yy, xy)


def _gradients(query: Tensor, candidates: Tensor, slopes: Tensor) -> tuple[Tensor, ...]:
    """The gradients by all products, of slopes of the scores."""
    with torch.enable_grad():
        products = [part.detach().requires_grad_() for part in _products(query, candidates)]
        return torch.autograd.grad(_scores(*products), products, slopes)
