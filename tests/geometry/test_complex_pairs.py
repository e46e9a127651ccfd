"""Arithmetic on pairs of real tensors is arithmetic on complex tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fivestar.geometry import complex_pairs as pairs
from fivestar.geometry.complex_pairs import Complex, Matrix

SHAPE = (2, 2, 3)
seeds = st.integers(0, 2**32 - 1)


def random_numbers(seed, count):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *SHAPE, dtype=torch.complex128, generator=generator)


def pair(z):
    return Complex(z.real.clone(), z.imag.clone())


def same(found, wanted):
    torch.testing.assert_close(torch.complex(found.real, found.imag), wanted)


@given(seeds)
def test_products_are_those_of_complex_tensors(seed):
    x, y, z = random_numbers(seed, 3)
    same(pairs.times(pair(x), pair(y)), x * y)
    same(pairs.times_conjugate(pair(x), pair(y)), x * y.conj())
    same(pairs.times_plus(pair(x), pair(y), pair(z)), x * y + z)
    same(pairs.conjugate(pair(x)), x.conj())
    same(pairs.scaled(pair(x), y.real), x * y.real)
    torch.testing.assert_close(pairs.squared_modulus(pair(x)), x.abs().square())


@given(seeds)
def test_a_row_holds_the_real_parts_and_then_the_imaginary_ones(seed):
    (x,) = random_numbers(seed, 1)
    row = pairs.to_row(pair(x))
    assert torch.equal(row, torch.cat([x.real, x.imag], dim=2))
    same(pairs.from_row(row), x)


@given(seeds, st.sampled_from([1e-3, 0.5]))
def test_maps_are_their_formulas(seed, epsilon):
    a, b, c, d, z = random_numbers(seed, 5)
    m = Matrix(*map(pair, (a, b, c, d)))
    over, under = a * z + b, c * z + d
    floor = epsilon * (c.abs().square() + d.abs().square())
    same(
        pairs.apply_softened(m, pair(z), epsilon),
        over * under.conj() / (under.abs().square() + floor),
    )
    same(pairs.apply_phase(m, pair(z)), over * under.conj() / under.abs())
    same(pairs.apply_affine(m, pair(z)), over)
    norms = sum(entry.abs().square() for entry in (a, b, c, d))
    torch.testing.assert_close(pairs.squared_norm(m), norms)


@pytest.mark.parametrize("softened", [True, False])
def test_a_denominator_of_0_has_the_value_0_and_a_finite_gradient(softened):
    zero = torch.zeros(3, requires_grad=True)
    one = torch.ones(3, requires_grad=True)
    m = Matrix(*(Complex(x, x) for x in (one, one, zero, zero)))
    point = Complex(one, zero)
    image = pairs.apply_softened(m, point, 1e-3) if softened else pairs.apply_phase(m, point)
    assert not image.real.any()
    assert not image.imag.any()
    (image.real + image.imag).sum().backward()
    assert zero.grad.isfinite().all()
    assert one.grad.isfinite().all()
