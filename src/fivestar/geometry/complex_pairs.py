"""Complex numbers as pairs (real, imaginary) of real tensors.

On the processors we measured, arithmetic on pairs is faster than on complex tensors, and a matrix
product needs real numbers anyway. A multiplication with an addition is one operation, not two.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Complex(NamedTuple):
    """A complex tensor, as its real and its imaginary part."""

    real: Tensor
    imag: Tensor


def times(x: Complex, y: Complex) -> Complex:
    """The product x y."""
    return Complex(
        torch.addcmul(x.real * y.real, x.imag, y.imag, value=-1),
        torch.addcmul(x.real * y.imag, x.imag, y.real),
    )


def times_conjugate(x: Complex, y: Complex) -> Complex:
    """The product of x with the conjugate of y."""
    return Complex(
        torch.addcmul(x.real * y.real, x.imag, y.imag),
        torch.addcmul(x.imag * y.real, x.real, y.imag, value=-1),
    )


def times_plus(x: Complex, y: Complex, z: Complex) -> Complex:
    """The sum x y + z."""
    return Complex(
        torch.addcmul(torch.addcmul(z.real, x.real, y.real), x.imag, y.imag, value=-1),
        torch.addcmul(torch.addcmul(z.imag, x.real, y.imag), x.imag, y.real),
    )


def conjugate(x: Complex) -> Complex:
    """The mirror image in the real axis."""
    return Complex(x.real, -x.imag)


def squared_modulus(x: Complex) -> Tensor:
    """|x|²: unlike |x|, it has a gradient at 0."""
    return torch.addcmul(x.real.square(), x.imag, x.imag)


def scaled(x: Complex, factor: Tensor) -> Complex:
    """The product of x with a real factor."""
    return Complex(x.real * factor, x.imag * factor)


def from_row(row: Tensor) -> Complex:
    """A row (…, 2d) whose first half is real and whose second half is imaginary."""
    real, imag = row.chunk(2, dim=-1)
    return Complex(real, imag)


def to_row(x: Complex) -> Tensor:
    """The row (…, 2d) that `from_row` reads."""
    return torch.cat([x.real, x.imag], dim=-1)
