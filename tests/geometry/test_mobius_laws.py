"""The laws of the Möbius group, in double precision and against 50 digits."""

from __future__ import annotations

import cmath
import math

import mpmath
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fivestar.geometry import circles, mobius
from fivestar.geometry.classification import (
    EXAMPLE_MULTIPLIERS,
    MobiusClass,
    classify,
    decompose,
    example_map,
    invariant,
)
from fivestar.geometry.fixed_points import (
    canonical_form,
    fixed_points,
    generator,
    multiplier,
    power,
    velocity,
)
from fivestar.geometry.mobius import (
    apply,
    chordal_distance,
    compose,
    distance,
    from_sphere,
    inverse,
    to_sphere,
)

WIDE = torch.complex128
INFINITY = complex("inf")
parts = st.floats(-8, 8).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
numbers = st.builds(complex, parts, parts)
points = st.one_of(numbers, st.just(INFINITY), numbers.map(lambda z: z * 1e9))
maps = st.lists(numbers, min_size=4, max_size=4).map(tuple)


def tensor(z):
    return torch.as_tensor(z, dtype=WIDE)


def map_of(entries, min_determinant=1e-3):
    """Return a map that is not nearly degenerate."""
    m = torch.tensor(entries, dtype=WIDE).reshape(2, 2)
    assume(float(mobius.norm(m)) > 1e-3)
    assume(float(mobius.relative_determinant(m)) > min_determinant)
    return m


def near(z, w, tolerance=1e-7):
    assert float(chordal_distance(tensor(z), tensor(w))) < tolerance


@given(maps, maps, maps, points)
def test_group(one, two, three, z):
    m, n, k = map_of(one), map_of(two), map_of(three)
    near(apply(compose(m, n), tensor(z)), apply(m, apply(n, tensor(z))), 1e-6)
    assert float(distance(compose(compose(m, n), k), compose(m, compose(n, k)))) < 1e-9
    assert float(distance(compose(m, inverse(m)), mobius.identity_like(m))) < 1e-9
    near(apply(inverse(m), apply(m, tensor(z))), z, 1e-6)
    near(apply(mobius.identity_like(m), tensor(z)), z)


@given(maps, maps, numbers)
def test_scaling_a_matrix_changes_no_map(one, two, factor):
    m, n = map_of(one), map_of(two)
    assume(abs(factor) > 1e-3)
    assert float(distance(m, factor * m)) < 1e-12
    assert float(distance(m, n)) == pytest.approx(float(distance(factor * m, n)), abs=1e-9)
    assert float(distance(m, n)) == pytest.approx(float(distance(n, m)), abs=1e-9)
    assert complex(invariant(m)) == pytest.approx(complex(invariant(factor * m)), rel=1e-6)
    one_again = mobius.normalize(m)
    assert complex(mobius.determinant(one_again)) == pytest.approx(1, abs=1e-9)
    assert float(distance(one_again, m)) < 1e-9


@pytest.mark.parametrize("factor", [1e-150, 1e150, 1e150j])
@given(entries=maps)
def test_the_scale_of_a_matrix_neither_overflows_nor_underflows(entries, factor):
    m = map_of(entries, 1e-2)
    assert float(distance(m, factor * m)) < 1e-9
    assert float(distance(mobius.normalize(factor * m), m)) < 1e-6
    sigma = complex(invariant(m))
    assume(abs(sigma - 4) > 1e-3 and abs(sigma.imag) > 1e-3)
    assert complex(multiplier(factor * m)) == pytest.approx(complex(multiplier(m)), rel=1e-6)
    for z, w in zip(fixed_points(factor * m), fixed_points(m), strict=True):
        near(z, w, 1e-6)
    form, by = canonical_form(factor * m)
    assert float(distance(compose(by, compose(form, inverse(by))), m)) < 1e-6


def test_the_largest_distance():
    swap = torch.tensor([[0, 1], [1, 0]], dtype=WIDE)
    for phase in (1, 1j, -3):
        found = distance(phase * mobius.identity_like(swap), swap)
        assert float(found) == pytest.approx(math.sqrt(2))


def test_points_without_a_quotient_are_infinity():
    zero, nan = tensor(0), tensor(complex("nan"))
    assert complex(mobius.from_homogeneous(zero, zero)) == INFINITY
    assert complex(mobius.from_homogeneous(tensor(2j), zero)) == INFINITY
    assert complex(mobius.from_homogeneous(zero, tensor(1))) == 0
    assert mobius.from_homogeneous(nan, tensor(1)).isnan()


@given(numbers, numbers)
def test_elementary_maps(z, b):
    near(apply(mobius.translation(tensor(b)), tensor(z)), z + b)
    near(apply(mobius.scaling(tensor(b)), tensor(z)), b * z)
    near(apply(mobius.inversion(tensor(z)), tensor(z)), 1 / z if z else INFINITY)


@given(maps, maps)
def test_conjugation_changes_no_invariant(one, two):
    m, by = map_of(one, 1e-2), map_of(two, 1e-2)
    other = compose(by, compose(m, inverse(by)))
    assert complex(invariant(other)) == pytest.approx(complex(invariant(m)), rel=1e-6, abs=1e-6)


@given(maps)
def test_fixed_points_are_fixed_and_the_multiplier_is_the_derivative_there(entries):
    m = map_of(entries)
    attracting, repelling = fixed_points(m)
    # Near a parabolic map the two run into each other with the root of the rounding.
    for z in (attracting, repelling):
        near(apply(m, z), z, 1e-6)
    k = complex(multiplier(m))
    assert abs(k) >= 1 - 1e-9
    sigma = complex(invariant(m))
    assert k + 1 / k + 2 == pytest.approx(sigma, rel=1e-6, abs=1e-6)
    for z, derivative in ((attracting, 1 / k), (repelling, k)):
        if abs(complex(z)) < 1e6 and abs(sigma - 4) > 0.1:
            a, b, c, d = m.flatten().tolist()
            slope = (a * d - b * c) / (c * complex(z) + d) ** 2
            assert slope == pytest.approx(derivative, rel=1e-5)


def test_canonical_forms_of_many_maps_are_those_of_each():
    entries = torch.tensor([(1, 1, 0, 1), (3, 1, -1, 1), (2, 0, 0, 2), (1, 2j, 3, 4)], dtype=WIDE)
    form, conjugator = canonical_form(entries.reshape(2, 2, 2, 2))
    each = [canonical_form(m) for m in entries.reshape(4, 2, 2)]
    torch.testing.assert_close(form.reshape(4, 2, 2), torch.stack([x.form for x in each]))
    single = torch.stack([x.conjugator for x in each])
    torch.testing.assert_close(conjugator.reshape(4, 2, 2), single)


@pytest.mark.parametrize("factor", [1, 2j])
def test_fixed_points_of_the_identity_are_infinity_and_0(factor):
    m = factor * torch.eye(2, dtype=WIDE)
    assert [complex(z) for z in fixed_points(m)] == [INFINITY, 0]
    assert torch.equal(canonical_form(m).form, torch.eye(2, dtype=WIDE))
    assert torch.equal(canonical_form(m).conjugator, torch.eye(2, dtype=WIDE))


@given(maps)
@example((1, 1, 0, 1))  # parabolic, ∞ fixed
@example((1, 0, 1, 1))  # parabolic, 0 fixed
@example((2, 0, 0, 2))  # the identity
@example((0, 1, 1, 0))  # circular
@example((0, 1j, 1j, 0))
@example((3, 1, -1, 1))  # parabolic, elsewhere
def test_canonical_form(entries):
    m = map_of(entries, 1e-2)
    sigma = complex(invariant(m))
    assume(abs(sigma - 4) > 1e-3 or abs(sigma - 4) < 1e-14)
    form, by = canonical_form(m)
    assert float(distance(compose(by, compose(form, inverse(by))), m)) < 1e-6
    a, b, c, d = form.flatten().tolist()
    assert c == 0
    assert d == 1
    assert (b == 0) or (a == b == 1)


@given(maps, points)
@example((1, 2, 0, 3), 1 + 1j)
@example((1, 0, 0, 1), INFINITY)
def test_decomposition_recomposes(entries, z):
    m = map_of(entries, 1e-2)
    decomposition = decompose(m)
    assume(abs(entries[2]) > 1e-3 or entries[2] == 0)
    assert float(distance(decomposition.recompose(), m)) < 1e-8
    near(decomposition(tensor(z)), apply(m, tensor(z)), 1e-6)
    assert bool(decomposition.inverts) is (entries[2] != 0)
    polar = float(decomposition.homothety) * cmath.exp(1j * float(decomposition.rotation))
    assert polar == pytest.approx(complex(decomposition.factor))


@given(maps, st.floats(-2, 2), st.floats(-2, 2))
def test_flows_are_one_parameter_groups(entries, s, t):
    m = map_of(entries, 1e-2)
    # Beyond σ < 0 there are two roots as near as each other, and m^s jumps from one to the other.
    both = compose(power(m, s), power(m, t))
    assert float(distance(both, power(m, s + t))) < 1e-6
    assert float(distance(power(m, 0.0), mobius.identity_like(m))) < 1e-9
    assert float(distance(power(m, 1.0), m)) < 1e-9
    assert float(distance(power(m, 2.0), compose(m, m))) < 1e-7


@given(points)
def test_the_sphere_and_back(z):
    position = to_sphere(tensor(z))
    assert float(position.norm()) == pytest.approx(1)
    near(from_sphere(position), z, 1e-9)
    assert float(chordal_distance(tensor(z), tensor(INFINITY))) == pytest.approx(
        float((position - torch.tensor([0.0, 0, 1], dtype=torch.float64)).norm()), abs=1e-9
    )


def test_the_coordinates_on_the_sphere_are_the_last_dimension():
    z = torch.tensor([[0, 1], [1j, -1], [-1j, INFINITY]], dtype=WIDE)
    east, north = [[0, 0, -1], [1, 0, 0]], [[0, -1, 0], [0, 0, 1]]
    wanted = torch.tensor([east, [[0, 1, 0], [-1, 0, 0]], north], dtype=torch.float64)
    torch.testing.assert_close(to_sphere(z), wanted)


grid = st.builds(complex, st.integers(-5, 5), st.integers(-5, 5)) | st.just(INFINITY)


@given(maps, st.lists(grid, min_size=4, max_size=4, unique=True))
def test_the_cross_ratio_is_invariant(entries, four):
    m = map_of(entries, 1e-2)
    zs = [tensor(z) for z in four]
    before = circles.cross_ratio(*zs)
    after = circles.cross_ratio(*(apply(m, z) for z in zs))
    near(after, before, 1e-5)


@given(maps, numbers, st.floats(0.1, 5), st.floats(0, 2 * math.pi))
def test_circles_and_lines_are_mapped_to_generalized_circles(entries, center, radius, angle):
    m = map_of(entries, 1e-2)
    direction = complex(math.cos(angle), math.sin(angle))
    circle = circles.circle(tensor(center), torch.tensor(radius, dtype=torch.float64))
    line = circles.line(tensor(center), tensor(direction))
    for curve, on in (
        (circle, [center + radius * direction * turn for turn in (1, 1j, -1, -1j, 0.6 + 0.8j)]),
        (line, [center + direction * step for step in (-3, -1, 0, 2, 50)] + [INFINITY]),
    ):
        for z in on:
            assert float(circles.residual(curve, tensor(z))) < 1e-9
            assert float(circles.residual(circles.image(m, curve), apply(m, tensor(z)))) < 1e-6
    assert bool(circles.is_line(line))
    assert not bool(circles.is_line(circle))
    assert complex(circles.center(circle)) == pytest.approx(center)
    assert float(circles.curvature(circle)) == pytest.approx(1 / radius)


@given(st.lists(grid, min_size=3, max_size=3, unique=True))
@example([0.5 + 0.25j, -0.25, 0.5j])  # within the unit circle
def test_three_points_define_a_circle(three):
    zs = [tensor(z) for z in three]
    circle = circles.circle_through(*zs)
    for z in zs:
        assert float(circles.residual(circle, z)) < 1e-9


@given(maps, numbers, st.floats(0, 2 * math.pi), st.floats(0, 2 * math.pi))
def test_angles_are_preserved(entries, z, first, second):
    """Numerically: the angle between two short steps, before and after."""
    m = map_of(entries, 1e-2)
    _, _, c, d = entries
    assume(abs(c * z + d) > 0.1)
    step = 1e-6
    ways = [complex(math.cos(x), math.sin(x)) for x in (first, second)]
    moved = [complex(apply(m, tensor(z + step * w)) - apply(m, tensor(z))) for w in ways]
    assume(min(map(abs, moved)) > 1e-9)
    turn = (moved[1] / moved[0]) / abs(moved[1] / moved[0])
    assert turn == pytest.approx(ways[1] / ways[0], abs=1e-3)


@given(numbers, numbers)
def test_a_half_turn_is_the_involution_with_these_fixed_points(p, q):
    assume(float(chordal_distance(tensor(p), tensor(q))) > 0.01)
    m = mobius.half_turn(tensor(p), tensor(q))
    assert int(classify(m)) == MobiusClass.CIRCULAR
    assert float(distance(m, inverse(m))) < 1e-9
    for z in (p, q):
        near(apply(m, tensor(z)), z)


@given(maps)
def test_a_map_is_its_own_inverse_exactly_if_its_trace_is_0(entries):
    m = map_of(entries)
    is_own = float(distance(m, inverse(m))) < 1e-9
    is_circular = abs(complex(mobius.trace(m))) < 1e-9 * float(mobius.norm(m))
    is_identity = float(distance(m, mobius.identity_like(m))) < 1e-9
    assert is_own is (is_circular or is_identity)
    turned = torch.tensor([entries[0], entries[1], entries[2], -entries[0]], dtype=WIDE)
    turned = turned.reshape(2, 2)
    assume(float(mobius.relative_determinant(turned)) > 1e-3)
    assert float(distance(turned, inverse(turned))) < 1e-9


CLASSES = {
    MobiusClass.IDENTITY: (2j, 0, 0, 2j),
    MobiusClass.PARABOLIC: (1, 3 + 1j, 0, 1),
    MobiusClass.CIRCULAR: (0, 2, 1j, 0),
    MobiusClass.ELLIPTIC: (complex(math.cos(1), math.sin(1)), 0, 0, 1),
    MobiusClass.HYPERBOLIC: (2, 0, 0, 0.5),
    MobiusClass.LOXODROMIC: (2j, 0, 0, 1),
    MobiusClass.DEGENERATE: (1, 2, 2, 4),
}


@pytest.mark.parametrize(("mobius_class", "entries"), CLASSES.items())
def test_classes(mobius_class, entries):
    m = torch.tensor(entries, dtype=WIDE).reshape(2, 2)
    assert int(classify(m, 1e-9)) == mobius_class
    batch = torch.stack([m, torch.eye(2, dtype=WIDE)])
    assert classify(batch, 1e-9).tolist() == [mobius_class, MobiusClass.IDENTITY]


def test_reflection_reverses_angles_so_it_is_not_a_mobius_map():
    z = tensor(1 + 2j)
    assert complex(mobius.reflect(z)) == 1 - 2j
    assert complex(mobius.reflect(tensor(INFINITY))) == INFINITY
    # A Möbius map is fixed by three points; this one keeps all real ones, so it would be z ↦ z.
    assert all(complex(mobius.reflect(tensor(x))) == x for x in (0, 1, 2))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_gradients_are_finite_where_the_value_is(dtype):
    m = torch.tensor([[1, 2], [3, 4j]], dtype=dtype, requires_grad=True)
    z = torch.tensor([1 + 1j, 5, 0], dtype=dtype, requires_grad=True)
    apply(m, z).abs().sum().backward()
    assert torch.isfinite(torch.view_as_real(m.grad)).all()
    assert torch.isfinite(torch.view_as_real(z.grad)).all()


def exact(entries):
    return mpmath.matrix([[entries[0], entries[1]], [entries[2], entries[3]]])


HARD = {
    "determinant near 0": (1, 2, 2, 4 + 1e-9),
    "c near 0": (1 + 1j, 2, 1e-13, 3),
    "near parabolic": (1, 1, 1e-12, 1),
    "far and near": (1e-8, 1e8, 1, 1e-8),
    "near the identity": (1 + 1e-10, 1e-10j, -1e-10, 1),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_against_50_digits(name):
    """Points, invariants and multipliers as near to the truth as the problem itself allows."""
    entries = HARD[name]
    m = torch.tensor(entries, dtype=WIDE).reshape(2, 2)
    with mpmath.workdps(50):
        a, b, c, d = (mpmath.mpmathify(x) for x in entries)
        det = a * d - b * c
        sigma = (a + d) ** 2 / det
        for z in (0.3 + 0.2j, 1e6, -1e-6j):
            wanted = complex((a * z + b) / (c * z + d))
            condition = float(abs(c * z) + abs(d)) / float(abs(c * z + d))
            near(apply(m, tensor(z)), wanted, 1e-13 * (1 + condition))
        spread = float((abs(a * d) + abs(b * c)) / abs(det))
        assert complex(invariant(m)) == pytest.approx(complex(sigma), rel=1e-14 * (10 + spread))
        root = mpmath.sqrt((a - d) ** 2 + 4 * b * c)
        k = (a + d + root) / (a + d - root)
        k = k if abs(k) >= 1 else 1 / k
        assert complex(multiplier(m)) == pytest.approx(complex(k), rel=1e-13 * (100 + spread))


@given(maps, numbers)
@example((1, 1, 0, 1), 0.5j)
@example((1, 0, 0, 1), 0.5j)
def test_the_generator_is_the_derivative_of_the_flow(entries, z):
    """m^s = 1 + s g + O(s²), and points move with its velocity."""
    m, step = map_of(entries, 1e-2), 1e-5
    slope = (power(m, step) - power(m, -step)) / (2 * step)
    torch.testing.assert_close(slope, generator(m), rtol=1e-6, atol=1e-7)
    there, back = (apply(power(m, s), tensor(z)) for s in (step, -step))
    speed = complex(velocity(m, tensor(z)))
    assume(abs(speed) < 1e3)
    assert complex((there - back) / (2 * step)) == pytest.approx(speed, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("theta", [1e-9, 8e-5, 8e-5j, 2e-4, 0.3 + 0.2j])
@pytest.mark.parametrize("s", [-1.0, 0.5, 3.0])
def test_flows_near_parabolic_maps_against_50_digits(theta, s):
    """[[cosh θ, 1], [sinh² θ, cosh θ]] has the eigenvalues e^±θ."""
    with mpmath.workdps(50):
        x = mpmath.mpmathify(theta)
        entries = [[mpmath.cosh(x), 1], [mpmath.sinh(x) ** 2, mpmath.cosh(x)]]
        m = torch.tensor([[complex(entry) for entry in row] for row in entries], dtype=WIDE)
        weight = complex(mpmath.sinh(s * x) / mpmath.sinh(x))
        slope = complex(x / mpmath.sinh(x))
    assert complex(power(m, s)[0, 1]) == pytest.approx(weight, rel=1e-11)
    assert complex(generator(m)[0, 1]) == pytest.approx(slope, rel=1e-11)


@pytest.mark.parametrize("mobius_class", EXAMPLE_MULTIPLIERS)
def test_example_maps_are_of_their_class(mobius_class):
    m = example_map(mobius_class)
    assert int(classify(m)) == mobius_class
    assert complex(multiplier(m)) == pytest.approx(EXAMPLE_MULTIPLIERS[mobius_class], abs=1e-7)
    ends = (0, 0) if mobius_class is MobiusClass.PARABOLIC else (1, -1)
    points = fixed_points(m)
    # A half-turn goes either way round: none of its fixed points is the first.
    points = (
        points[::-1]
        if mobius_class is MobiusClass.CIRCULAR and complex(points[0]).real < 0
        else points
    )
    for z, wanted in zip(points, ends, strict=True):
        near(z, wanted)


@given(maps, points)
def test_images_against_50_digits(entries, z):
    m = map_of(entries, 1e-2)
    assume(z != INFINITY)
    with mpmath.workdps(50):
        a, b, c, d = (mpmath.mpmathify(x) for x in entries)
        under = c * z + d
        assume(abs(under) > 0)
        wanted = complex((a * z + b) / under)
    near(apply(m, tensor(z)), wanted, 1e-11)


@given(maps, maps, st.floats(-4, 4))
def test_the_distance_of_maps_is_that_of_unit_matrices_in_the_best_phase(one, two, angle):
    m, n = (x / mobius.norm(x) for x in (map_of(one), map_of(two)))
    found = float(distance(m, n))
    assert found <= float(mobius.norm(n - cmath.exp(1j * angle) * m)) + 1e-9
    inner = abs(complex((m.conj() * n).sum()))
    assert found**2 == pytest.approx(2 - 2 * inner, abs=1e-9)
