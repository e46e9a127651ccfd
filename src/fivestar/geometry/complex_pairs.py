"""Complex numbers as pairs of real tensors, and Möbius maps of them as they are used in training.

On the processors measured, arithmetic on pairs is faster than on complex tensors, and a matrix
product needs real numbers anyway. A multiplication with an addition is fused into one operation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Keeps 0/0 finite where c = d = 0, in value and gradient; far below every |c z + d|² that occurs
# (1e-6 with the smallest initialization).
_TINY = 1e-18


class Complex(NamedTuple):
    """A complex tensor as its real and its imaginary part."""

    real: Tensor
    imag: Tensor


def times(x: Complex, y: Complex) -> Complex:
    """Return x y."""
    return Complex(
        torch.addcmul(x.real * y.real, x.imag, y.imag, value=-1),
        torch.addcmul(x.real * y.imag, x.imag, y.real),
    )


def times_conjugate(x: Complex, y: Complex) -> Complex:
    """Return x conj(y)."""
    return Complex(
        torch.addcmul(x.real * y.real, x.imag, y.imag),
        torch.addcmul(x.imag * y.real, x.real, y.imag, value=-1),
    )


def times_plus(x: Complex, y: Complex, z: Complex) -> Complex:
    """Return x y + z."""
    return Complex(
        torch.addcmul(torch.addcmul(z.real, x.real, y.real), x.imag, y.imag, value=-1),
        torch.addcmul(torch.addcmul(z.imag, x.real, y.imag), x.imag, y.real),
    )


def conjugate(x: Complex) -> Complex:
    """Return conj(x)."""
    return Complex(x.real, -x.imag)


def squared_modulus(x: Complex) -> Tensor:
    """Return |x|², which has a gradient at 0, unlike |x|."""
    return torch.addcmul(x.real.square(), x.imag, x.imag)


def scaled(x: Complex, factor: Tensor) -> Complex:
    """Return x times a real factor."""
    return Complex(x.real * factor, x.imag * factor)


def from_row(row: Tensor) -> Complex:
    """Return a row (…, 2d) as d complex numbers: first all real, then all imaginary parts."""
    real, imag = row.chunk(2, dim=-1)
    return Complex(real, imag)


def to_row(x: Complex) -> Tensor:
    """Return the row (…, 2d) of complex numbers: the inverse of `from_row`."""
    return torch.cat([x.real, x.imag], dim=-1)


class Matrix(NamedTuple):
    """Matrices [[a, b], [c, d]] with complex tensors as entries."""

    a: Complex
    b: Complex
    c: Complex
    d: Complex


def apply_softened(m: Matrix, z: Complex, epsilon: float) -> Complex:
    """Return the images under maps without a pole.

    (a z + b) · conj(c z + d) / (|c z + d|² + ε(|c|² + |d|²))

    Since ε is scaled by the matrix, m and λ m are the same map; the value at the pole is 0.

    Args:
        m: maps with entries (…, d).
        z: points (…, d).
        epsilon: ε > 0.
    """
    numerator, denominator = _fraction(m, z)
    modulus = squared_modulus(denominator)
    floor = epsilon * (squared_modulus(m.c) + squared_modulus(m.d)) + _TINY
    return scaled(times_conjugate(numerator, denominator), 1 / (modulus + floor))


def apply_phase(m: Matrix, z: Complex) -> Complex:
    """Return (a z + b) · conj(c z + d) / |c z + d|: only the phase of the denominator acts.

    This is not a Möbius map; it is what the released code of 5★E trains.
    """
    numerator, denominator = _fraction(m, z)
    inverse_modulus = (squared_modulus(denominator) + _TINY).rsqrt()
    return scaled(times_conjugate(numerator, denominator), inverse_modulus)


def apply_affine(m: Matrix, z: Complex) -> Complex:
    """Return the affine part a z + b: translation, rotation and homothety only."""
    return times_plus(m.a, z, m.b)


def squared_norm(m: Matrix) -> Tensor:
    """Return |a|² + |b|² + |c|² + |d|²."""
    return sum((squared_modulus(entry) for entry in m[1:]), squared_modulus(m.a))


def _fraction(m: Matrix, z: Complex) -> tuple[Complex, Complex]:
    return times_plus(m.a, z, m.b), times_plus(m.c, z, m.d)
