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


def excess_of_sum(xt: Tensor, rt: Tensor, tt: Tensor, xx: Tensor, rr: Tensor, xr: Tensor) -> Tensor:
    """‖x − y‖²/((1 − xx)(1 − yy)) for y = t ⊕ r, of squared lengths and inner products."""
    over = (1 + xx) * (1 + tt * rr) - (1 - tt) * (2 * xr + 1 - rr)
    over = over + 2 * (1 + xx) * rt - (2 * (1 + rr) + 4 * rt) * xt
    return (over / (to_edge(tt) * (to_edge(xx) * to_edge(rr)))).clamp_min(_TINY)


def to_edge(squared_length: Tensor) -> Tensor:
    """1 − ‖x‖², never 0."""
    return (1 - squared_length).clamp_min(EDGE)


def squared_distance(excess: Tensor) -> Tensor:
    """d(x, y)², d being 2 arsinh √(‖x − y‖²/((1 − xx)(1 − yy)))."""
    return 4 * _half_distance(excess.sqrt(), (1 + excess).sqrt()).square()


def slope_of_squared_distance(excess: Tensor) -> Tensor:
    """The derivative of `squared_distance`."""
    root, hypotenuse = excess.sqrt(), (1 + excess).sqrt()
    return 4 * _half_distance(root, hypotenuse) / (root * hypotenuse)


def _half_distance(root: Tensor, hypotenuse: Tensor) -> Tensor:
    """arsinh(root), many times faster than torch's; hypotenuse is √(1 + root²)."""
    return (root + root * root / (1 + hypotenuse)).log1p()


def walk(point: Tensor, vector: Tensor) -> Tensor:
    """Where a tangent vector at a point leads: the exponential map."""
    length = (vector.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    spread = (1 - point.square().sum(dim=-1, keepdim=True)).clamp_min(EDGE)
    return inside(add(point, vector * ((length / spread).tanh() / length)))
