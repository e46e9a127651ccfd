"""Möbius maps z ↦ (a z + b)/(c z + d), as they are used in training: without poles."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fivestar.geometry.complex_pairs import (
    Complex,
    scaled,
    squared_modulus,
    times_conjugate,
    times_plus,
)

# Keeps 0/0 finite where c = d = 0, in value and gradient; far below every |c z + d|² that occurs
# (1e-6 at the smallest start).
_TINY = 1e-18


class Matrix(NamedTuple):
    """[[a, b], [c, d]], each entry a complex tensor."""

    a: Complex
    b: Complex
    c: Complex
    d: Complex


def apply_softened(m: Matrix, z: Complex, epsilon: float) -> Complex:
    """The map, with the pole softened.

    (a z + b) · conj(c z + d) / (|c z + d|² + ε(|c|² + |d|²))

    Scaling ε by the matrix keeps the map unchanged under m → λ m; the value at the pole is 0.
    """
    numerator, denominator = _halves(m, z)
    size = squared_modulus(denominator)
    floor = epsilon * (squared_modulus(m.c) + squared_modulus(m.d)) + _TINY
    return scaled(times_conjugate(numerator, denominator), 1 / (size + floor))


def apply_phase(m: Matrix, z: Complex) -> Complex:
    """(a z + b) · conj(c z + d) / |c z + d|: only the phase of the denominator acts.

    This is no Möbius map; it is what the released code of 5★E trains.
    """
    numerator, denominator = _halves(m, z)
    inverse_modulus = (squared_modulus(denominator) + _TINY).rsqrt()
    return scaled(times_conjugate(numerator, denominator), inverse_modulus)


def apply_affine(m: Matrix, z: Complex) -> Complex:
    """The affine part a z + b: translation, rotation and homothety only."""
    return times_plus(m.a, z, m.b)


def squared_norm(m: Matrix) -> Tensor:
    """|a|² + |b|² + |c|² + |d|²."""
    return sum((squared_modulus(entry) for entry in m[1:]), squared_modulus(m.a))


def _halves(m: Matrix, z: Complex) -> tuple[Complex, Complex]:
    return times_plus(m.a, z, m.b), times_plus(m.c, z, m.d)
