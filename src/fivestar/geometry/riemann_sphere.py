"""The plane and the unit sphere: stereographic projection from the north pole, which is ∞."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.moebius import homogeneous, point


def to_sphere(z: Tensor) -> Tensor:
    """The points (…, 3) of the unit sphere; 0 is the south pole, the unit circle the equator."""
    x, y = homogeneous(z)
    across = 2 * x * y.conj()
    size, other = x.abs().square(), y.abs().square()
    whole = size + other
    return torch.stack([across.real / whole, across.imag / whole, (size - other) / whole], dim=-1)


def from_sphere(position: Tensor) -> Tensor:
    """The points of the plane that `to_sphere` takes there."""
    x, y, height = position.unbind(dim=-1)
    across = torch.complex(x, y)
    north = height > 0
    # (x + iy)/(1 − h) = (1 + h)/(x − iy): the one without cancellation.
    over = torch.where(north, torch.complex(1 + height, torch.zeros_like(height)), across)
    under = torch.where(north, across.conj(), torch.complex(1 - height, torch.zeros_like(height)))
    return point(over, under)


def chordal_distance(z: Tensor, w: Tensor) -> Tensor:
    """How far points are apart on the sphere, in a straight line: at most 2."""
    (x, y), (u, v) = homogeneous(z), homogeneous(w)
    sizes = (x.abs().square() + y.abs().square()) * (u.abs().square() + v.abs().square())
    return 2 * (x * v - y * u).abs() / sizes.sqrt()
