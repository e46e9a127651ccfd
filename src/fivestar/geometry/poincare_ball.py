"""The Poincaré ball of curvature −1: points of length below 1.

Lengths and inner products are all that sums and distances need, so these are given as such: that
is what lets a matrix product compare many points.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Points keep this far from the edge, where float32 cannot tell them apart.
EDGE = 1e-5
_TINY = 1e-15


def exp0(vector: Tensor) -> Tensor:
    """The point that a tangent vector at the origin leads to: tanh(‖v‖) v/‖v‖."""
    length = (vector.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    return vector * (length.tanh() / length)


def log0(point: Tensor) -> Tensor:
    """The tangent vector at the origin that leads to a point: artanh(‖x‖) x/‖x‖."""
    length = (point.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    return point * (length.clamp_max(1 - EDGE).atanh() / length)


def inside(point: Tensor) -> Tensor:
    """The point itself, or if it is too near the edge or beyond, the one below it that is not."""
    length = point.norm(dim=-1, keepdim=True).clamp_min(_TINY)
    return torch.where(length > 1 - EDGE, point * ((1 - EDGE) / length), point)


def add(x: Tensor, y: Tensor) -> Tensor:
    """The Möbius sum x ⊕ y."""
    xy = (x * y).sum(dim=-1, keepdim=True)
    xx, yy = (z.square().sum(dim=-1, keepdim=True) for z in (x, y))
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy).clamp_min(_TINY)


def squared_distance(xx: Tensor, yy: Tensor, xy: Tensor) -> Tensor:
    """d(x, y)² of squared lengths and the inner product; d = 2 artanh ‖(−x) ⊕ y‖."""
    apart = (xx - 2 * xy + yy).clamp_min(0)
    around = (1 - 2 * xy + xx * yy).clamp_min(_TINY)
    length = (apart / around + _TINY).sqrt().clamp_max(1 - EDGE)
    return 4 * length.atanh().square()


def lengths_of_sum(
    tt: Tensor, rr: Tensor, tr: Tensor, xt: Tensor, xr: Tensor
) -> tuple[Tensor, Tensor]:
    """‖t ⊕ r‖² and ⟨x, t ⊕ r⟩ of squared lengths and inner products."""
    under = (1 + 2 * tr + tt * rr).clamp_min(_TINY)
    return (tt + 2 * tr + rr) / under, ((1 + 2 * tr + rr) * xt + (1 - tt) * xr) / under


def walk(point: Tensor, vector: Tensor) -> Tensor:
    """Where a tangent vector at a point leads: the exponential map."""
    length = (vector.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    spread = (1 - point.square().sum(dim=-1, keepdim=True)).clamp_min(EDGE)
    return inside(add(point, vector * ((length / spread).tanh() / length)))
