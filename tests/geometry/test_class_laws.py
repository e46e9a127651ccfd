"""The class of a map: which changes of the map keep it, and that it is scale-free."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from fivestar.geometry.classification import (
    MobiusClass,
    classify,
    distance_to_boundary,
    example_map,
)
from fivestar.geometry.fixed_points import (
    fixed_point_distance,
    fixed_points,
    log_multiplier,
    multiplier,
)
from fivestar.geometry.mobius import (
    chordal_distance,
    compose,
    identity_like,
    inverse,
    relative_determinant,
)

TOLERANCE = 0.2
COUNT = 200
seeds = st.integers(0, 10**6)
sizes = st.floats(-9, 0).map(lambda exponent: 10.0**exponent)
factors = st.complex_numbers(min_magnitude=1e-3, max_magnitude=1e3)


def random_matrices(seed, count=COUNT):
    generator = torch.Generator().manual_seed(seed)
    return torch.complex(*torch.randn(2, count, 2, 2, generator=generator, dtype=torch.float64))


def maps_of_every_class(seed, size):
    """Return maps near the boundaries of classes: a known class, and a perturbation by `size`."""
    examples = [example_map(c) for c in MobiusClass if c > MobiusClass.IDENTITY]
    exact = torch.stack(examples).repeat(COUNT // len(examples), 1, 1)
    by = random_matrices(seed, len(exact))
    by = by[relative_determinant(by) > 0.2]
    exact = exact[: len(by)]
    return compose(by, compose(exact, inverse(by))) + size * random_matrices(seed + 1, len(by))


def assert_same_classes(m, other, ignored=None):
    """Compare the classes that rounding cannot change."""
    first, second = (classify(each, TOLERANCE) for each in (m, other))
    sure = classify(m, TOLERANCE * 0.999) == classify(m, TOLERANCE * 1.001)
    if ignored is not None:
        sure &= (first != int(ignored)) & (second != int(ignored))
    assert sure.any()
    assert torch.equal(first[sure], second[sure])


@given(seeds, sizes, factors)
def test_scaling_and_inversion_keep_every_class(seed, size, factor):
    m = maps_of_every_class(seed, size)
    assert_same_classes(m, factor * m)
    assert_same_classes(m, inverse(m))


@given(seeds, sizes)
def test_rotations_of_the_sphere_keep_every_class(seed, size):
    m = maps_of_every_class(seed, size)
    by, _ = torch.linalg.qr(random_matrices(seed + 2, len(m)))
    assert_same_classes(m, compose(by, compose(m, inverse(by))))


@given(seeds, sizes)
def test_conjugation_keeps_every_class_but_parabolic(seed, size):
    m = maps_of_every_class(seed, size)
    by = random_matrices(seed + 2, len(m))
    by = torch.where((relative_determinant(by) > 0.1)[:, None, None], by, identity_like(by))
    other = compose(by, compose(m, inverse(by)))
    # A parabolic map has no direction of λ: it is rounding that decides.
    clear = (log_multiplier(m).abs() > 1e-3) & (log_multiplier(other).abs() > 1e-3)
    assert_same_classes(m[clear], other[clear], ignored=MobiusClass.PARABOLIC)


def test_no_criterion_for_parabolic_maps_is_conjugation_invariant():
    """Conjugates of one hyperbolic map approach a parabolic one."""
    grow = torch.diag(torch.tensor([1.01, 1], dtype=torch.complex128))
    for shear, expected in ((0, MobiusClass.HYPERBOLIC), (1e6, MobiusClass.PARABOLIC)):
        by = torch.tensor([[1, shear], [0, 1]], dtype=torch.complex128)
        assert int(classify(compose(by, compose(grow, inverse(by))), 0.05)) == expected


@given(seeds, st.floats(1e-4, 0.1))
def test_a_map_has_the_class_of_its_flow(seed, step):
    """The maps exp(sX) of a flow have one class, from the identity to a rotation by π."""
    x = random_matrices(seed)
    m, short = torch.matrix_exp(x), torch.matrix_exp(step * x)
    turn = torch.linalg.eigvals(x)
    is_short = (turn[:, 0] - turn[:, 1]).imag.abs() < math.pi - TOLERANCE
    assume(is_short.sum() > 10)
    assert_same_classes(m[is_short], short[is_short])


@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_random_maps_near_the_identity_have_the_same_classes_at_every_distance(tolerance):
    """A tolerance on tr²/det calls nearly all of them parabolic."""
    noise = random_matrices(0, 20_000) / math.sqrt(2)
    shares = []
    for size in (0.5, 0.05, 0.005):
        classes = classify(torch.eye(2, dtype=torch.complex128) + size * noise, tolerance)
        shares.append(torch.bincount(classes, minlength=len(MobiusClass)) / len(classes))
    expected = math.asin(tolerance) * 2 / math.pi  # the direction of λ is uniform
    for share in shares[1:]:
        torch.testing.assert_close(share, shares[-1], rtol=0, atol=0.005)
        for name in (MobiusClass.ELLIPTIC, MobiusClass.HYPERBOLIC):
            assert float(share[name]) == pytest.approx(expected, abs=0.005)
        assert float(share[MobiusClass.PARABOLIC]) < 0.005
    # I + G/2 is not exp(G/2), so the directions of its λ are not quite uniform.
    torch.testing.assert_close(shares[0], shares[-1], rtol=0, atol=0.03)
    assert shares[0][MobiusClass.PARABOLIC] == shares[-1][MobiusClass.PARABOLIC]


@given(seeds, sizes)
def test_the_quantities_of_the_criterion(seed, size):
    m = torch.eye(2, dtype=torch.complex128) + size * random_matrices(seed)
    m = m[relative_determinant(m) > 1e-2]
    atol = 1e-14 / size
    ends = chordal_distance(*fixed_points(m)) / 2
    torch.testing.assert_close(fixed_point_distance(m), ends, rtol=1e-6, atol=1e-6 + atol)
    k, exponent = multiplier(m).log(), log_multiplier(m)
    torch.testing.assert_close(exponent.real, k.real, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(exponent.imag.abs(), k.imag.abs(), rtol=1e-9, atol=1e-7)


def test_the_identity_has_no_distance_of_fixed_points():
    m = torch.eye(2, dtype=torch.complex128).repeat(2, 1, 1)
    m[1] *= 3j
    assert not fixed_point_distance(m).any()


@given(seeds, sizes)
def test_the_distance_to_the_boundary_is_where_loxodromic_ends(seed, size):
    m = maps_of_every_class(seed, size)
    m = m[:20]
    limits = distance_to_boundary(m)
    is_lox = [
        (classify(each, float(limit) * factor) == int(MobiusClass.LOXODROMIC)).item()
        for each, limit in zip(m, limits, strict=True)
        if limit > 1e-6
        for factor in (0.99, 1.01)
    ]
    assert is_lox == [True, False] * (len(is_lox) // 2)
