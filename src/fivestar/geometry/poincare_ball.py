"""The Poincaré ball of curvature −1: points of norm below 1.

Distances are functions of squared norms and inner products, so a matrix product compares many
points at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Points stay this far from the boundary, where float32 cannot distinguish them.
MARGIN = 1e-5
_TINY = 1e-15


def expmap0(vector: Tensor) -> Tensor:
    """Return the exponential map at the origin: tanh(‖v‖) v/‖v‖."""
    norm = (vector.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    return vector * (norm.tanh() / norm)


def logmap0(point: Tensor) -> Tensor:
    """Return the logarithmic map at the origin: artanh(‖x‖) x/‖x‖."""
    norm = (point.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    return point * (norm.clamp_max(1 - MARGIN).atanh() / norm)


def project(point: Tensor) -> Tensor:
    """Return the points (…, d), scaled to norm 1 − `MARGIN` where they are longer."""
    norm = point.norm(dim=-1, keepdim=True).clamp_min(_TINY)
    return torch.where(norm > 1 - MARGIN, point * ((1 - MARGIN) / norm), point)


def add(x: Tensor, y: Tensor) -> Tensor:
    """Return the Möbius sum x ⊕ y."""
    xy = (x * y).sum(dim=-1, keepdim=True)
    xx, yy = (z.square().sum(dim=-1, keepdim=True) for z in (x, y))
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy).clamp_min(_TINY)


def excess_of_sum(xt: Tensor, rt: Tensor, tt: Tensor, xx: Tensor, rr: Tensor, xr: Tensor) -> Tensor:
    """Return ‖x − y‖²/((1 − xx)(1 − yy)) for y = t ⊕ r.

    Args:
        xt: inner products ⟨x, t⟩.
        rt: inner products ⟨r, t⟩.
        tt: squared norms ‖t‖².
        xx: squared norms ‖x‖².
        rr: squared norms ‖r‖².
        xr: inner products ⟨x, r⟩.
    """
    numerator = (1 + xx) * (1 + tt * rr) - (1 - tt) * (2 * xr + 1 - rr)
    numerator = numerator + 2 * (1 + xx) * rt - (2 * (1 + rr) + 4 * rt) * xt
    return (numerator / (one_minus(tt) * (one_minus(xx) * one_minus(rr)))).clamp_min(_TINY)


def one_minus(squared_norm: Tensor) -> Tensor:
    """Return 1 − ‖x‖², at least `MARGIN`."""
    return (1 - squared_norm).clamp_min(MARGIN)


def squared_distance(excess: Tensor) -> Tensor:
    """Return d(x, y)² with d = 2 arsinh √excess, excess = ‖x − y‖²/((1 − xx)(1 − yy))."""
    return 4 * _half_distance(excess.sqrt(), (1 + excess).sqrt()).square()


def squared_distance_grad(excess: Tensor) -> Tensor:
    """Return the derivative of `squared_distance`."""
    root, hypotenuse = excess.sqrt(), (1 + excess).sqrt()
    return 4 * _half_distance(root, hypotenuse) / (root * hypotenuse)


def _half_distance(root: Tensor, hypotenuse: Tensor) -> Tensor:
    """Return arsinh(root), many times faster than torch's; hypotenuse is √(1 + root²)."""
    return (root + root * root / (1 + hypotenuse)).log1p()


def expmap(point: Tensor, vector: Tensor) -> Tensor:
    """Return the exponential map of a tangent vector at a point."""
    norm = (vector.square().sum(dim=-1, keepdim=True) + _TINY).sqrt()
    gap = (1 - point.square().sum(dim=-1, keepdim=True)).clamp_min(MARGIN)
    return project(add(point, vector * ((norm / gap).tanh() / norm)))
