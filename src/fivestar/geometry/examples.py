"""A typical map of each kind, with its fixed points in sight: −1 repels and 1 attracts."""

from __future__ import annotations

import cmath
import math

import torch
from torch import Tensor

from fivestar.geometry.classification import Kind
from fivestar.geometry.moebius import compose, inverse, matrix, scaling

# Its multiplier; a parabolic map has none but 1.
MULTIPLIERS = {
    Kind.CIRCULAR: complex(-1),
    Kind.ELLIPTIC: cmath.exp(1j * math.pi / 3),
    Kind.HYPERBOLIC: complex(math.e),
    Kind.LOXODROMIC: cmath.exp(0.6 + 1.2j),
    Kind.PARABOLIC: complex(1),
}


def typical(kind: Kind) -> Tensor:
    """A map of this kind, in double precision; the parabolic one fixes 0."""
    one, zero = torch.tensor([1, 0], dtype=torch.complex128)
    if kind is Kind.PARABOLIC:
        return matrix(one, zero, one, one)
    # Takes 0 to −1 and ∞ to 1.
    there = matrix(one, -one, one, one)
    return compose(there, compose(scaling(one * MULTIPLIERS[kind]), inverse(there)))
