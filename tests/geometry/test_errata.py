"""Errors of the paper: a law or a counterexample for each entry of docs/errata.md."""

from __future__ import annotations

import cmath
import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.geometry.test_mobius_laws import map_of, maps, numbers, tensor

from fivestar.geometry import mobius
from fivestar.geometry.classification import MobiusClass, classify, invariant
from fivestar.geometry.fixed_points import fixed_points, multiplier
from fivestar.geometry.mobius import apply, chordal_distance, compose, inverse
from fivestar.models.registry import make_model


def m(*entries):
    return torch.tensor(entries, dtype=torch.complex128).reshape(2, 2)


@given(maps, maps, numbers)
def test_a_path_beside_a_loop_cannot_be_fitted_exactly(one, two, start):
    """tᵢ = M₂ hᵢ, tᵢ₊₁ = M₃ tᵢ, hᵢ₊₁ = M₁ hᵢ force M₁ = M₂⁻¹ M₃ M₂, so the path closes as well."""
    across = map_of(one, 1e-2)
    turn = cmath.exp(2j * math.pi / 5)  # a loop of five: M₃⁵ is the identity
    around = map_of(two, 1e-2)
    loop = compose(around, compose(m(turn, 0, 0, 1), inverse(around)))
    path = compose(inverse(across), compose(loop, across))
    h = apply(inverse(across), tensor(start))
    first = h
    for _ in range(5):
        h = apply(path, h)
    assert float(chordal_distance(h, first)) < 1e-5


@pytest.mark.parametrize(("across", "commutes"), [(m(2j, 0, 0, 1), True), (m(1, 1, 0.5, 2), False)])
def test_a_closed_path_shows_only_in_its_own_relation(across, commutes):
    """M₁ closes the path; M₃ does so only where the maps commute, as rotations do."""
    loop = m(cmath.exp(2j * math.pi / 5), 0, 0, 1)
    path = compose(inverse(across), compose(loop, across))
    first = last = tensor(0.3 + 0.4j)
    for _ in range(4):
        last = apply(path, last)
    assert float(chordal_distance(apply(path, last), first)) < 1e-9
    assert (float(chordal_distance(apply(loop, last), first)) < 1e-9) == commutes


def test_the_determinant_is_not_the_scale():
    """diag(2, ½) has determinant 1 and multiplies by 4; the multiplier is the scale."""
    grow = m(2, 0, 0, 0.5)
    assert complex(mobius.determinant(grow)) == 1
    assert complex(apply(grow, tensor(1))) == 4
    assert complex(multiplier(grow)) == pytest.approx(4)
    assert float(mobius.relative_determinant(grow)) == pytest.approx(2 / 4.25)


@given(maps, numbers)
def test_every_map_preserves_orientation(entries, z):
    """Small triangles keep their orientation, whatever the determinant."""
    mapping = map_of(entries, 1e-2)
    _, _, c, d = entries
    assume(abs(c * z + d) > 0.1)
    corners = [apply(mapping, tensor(z + step)) for step in (0, 1e-5, 1e-5j)]
    one, other = (complex(corner - corners[0]) for corner in corners[1:])
    assume(abs(one) > 1e-9)
    assert (other / one).imag > 0


def test_inversion_and_reflection_come_together():
    """A lone inversion, 1/conj(z), and a lone reflection, conj(z), reverse angles."""
    for lone in (lambda z: 1 / z.conjugate(), lambda z: z.conjugate()):
        z = 1 + 2j
        one, other = (lone(z + step) - lone(z) for step in (1e-6, 1e-6j))
        assert (other / one).imag < 0
    assert complex(apply(mobius.inversion(tensor(0)), tensor(1 + 2j))) == 1 / (1 + 2j)


def test_positive_premises_do_not_imply_a_positive_conclusion():
    """With the inner product, (h, r₁, t₁) > 0 and (t₁, r₂, t₂) > 0, yet (h, r₂∘r₁, t₂) < 0."""
    turn = cmath.exp(0.3j * math.pi)
    h, r1, r2 = 1, m(turn, 0, 0, 1), m(turn, 0, 0, 1)

    def score(r, x, y):
        return (complex(apply(r, tensor(x))) * complex(y).conjugate()).real

    t1 = cmath.exp(0.6j * math.pi)
    t2 = cmath.exp(1.2j * math.pi)
    assert score(r1, h, t1) > 0
    assert score(r2, t1, t2) > 0
    assert score(compose(r2, r1), h, t2) < 0


@given(numbers, numbers, st.complex_numbers(max_magnitude=5), st.integers(-4, 4))
def test_a_map_that_fixes_three_points_is_the_identity(p, q, k, extra):
    """So a relation that is reflexive for all entities is the identity or has few points."""
    assume(float(chordal_distance(tensor(p), tensor(q))) > 0.05)
    assume(abs(k) > 0.1)
    assume(abs(k - 1) > 0.1)
    third = tensor(p + extra + 0.5j)
    assume(min(float(chordal_distance(third, tensor(z))) for z in (p, q)) > 0.05)
    # z ↦ k z about p and q instead of 0 and ∞: every map that fixes both.
    to_both = m(q, p, 1, 1)
    mapping = compose(to_both, compose(m(k, 0, 0, 1), inverse(to_both)))
    for z in (p, q):
        assert float(chordal_distance(apply(mapping, tensor(z)), tensor(z))) < 1e-7
    assert float(chordal_distance(apply(mapping, third), third)) > 1e-4


def test_the_classes_are_not_groups():
    """The product of two half-turns is hyperbolic, that of two parabolic maps loxodromic."""
    turns = (
        mobius.half_turn(tensor(0), tensor(complex("inf"))),
        mobius.half_turn(tensor(1), tensor(3)),
    )
    assert [int(classify(turn, 1e-9)) for turn in turns] == [MobiusClass.CIRCULAR] * 2
    assert int(classify(compose(*turns), 1e-9)) == MobiusClass.HYPERBOLIC
    shifts = m(1, 1, 0, 1), m(1, 0, 1j, 1)
    assert [int(classify(shift, 1e-9)) for shift in shifts] == [MobiusClass.PARABOLIC] * 2
    assert int(classify(compose(*shifts), 1e-9)) == MobiusClass.LOXODROMIC


@given(numbers, numbers)
def test_a_circular_map_has_two_fixed_points(p, q):
    """Circular is tr² = 0, the half-turn; Δ = 0 (one fixed point) is parabolic."""
    assume(float(chordal_distance(tensor(p), tensor(q))) > 0.05)
    turn = mobius.half_turn(tensor(p), tensor(q))
    assert abs(complex(invariant(turn))) < 1e-9
    points = fixed_points(turn)
    assert float(chordal_distance(points.attracting, points.repelling)) > 0.04


@given(st.floats(0.1, 2), st.floats(-3, 3))
def test_the_modulus_of_k_expands_and_its_argument_rotates(alpha, beta):
    k = cmath.exp(complex(alpha, beta))
    measured = complex(multiplier(m(k, 0, 0, 1)))
    assert abs(measured) == pytest.approx(math.exp(alpha))
    assert cmath.phase(measured) == pytest.approx(cmath.phase(k))


def test_the_matrix_of_one_relation_and_then_another():
    """r₁ and then r₂ is the product 𝔍₂ 𝔍₁."""
    first, second = m(1, 1, 0, 1), m(2, 0, 0, 1)  # add 1, then double
    assert complex(apply(compose(second, first), tensor(3))) == 8
    assert complex(apply(first @ second, tensor(3))) == 7


def test_hyperbolic_maps_are_not_loxodromic_here():
    """tr² ∉ [0, 4] alone would hold for hyperbolic maps too, which are the real case above 4."""
    grow = m(3, 0, 0, 1)
    assert invariant(grow).real > 4
    assert int(classify(grow, 1e-9)) == MobiusClass.HYPERBOLIC
    # k < 0 turns by 180° as it stretches: loxodromic, though tr²/det is real.
    assert int(classify(m(-3, 0, 0, 1), 1e-9)) == MobiusClass.LOXODROMIC


def test_the_released_code_does_not_compute_the_equation():
    """`phase` divides by |c h + d|, not by c h + d: scaling a matrix changes it."""
    generator = torch.Generator().manual_seed(0)
    for form, scales in (("mobius", False), ("phase", True)):
        model = make_model("fivestar", 3, 1, 4, denominator=form)
        model.reset_parameters(generator)
        with torch.no_grad():
            model.entities.normal_(generator=generator)
            model.relations.normal_(generator=generator)
        ids = torch.tensor([0]), torch.tensor([0])
        before = model.query(*ids).detach()
        with torch.no_grad():
            model.relations.mul_(2)
        ratio = (model.query(*ids).detach() / before).mean()
        assert float(ratio) == pytest.approx(2 if scales else 1, rel=1e-4)


@given(maps, maps, numbers, numbers, st.floats(0.1, 10), st.floats(0.1, 10))
def test_entities_are_points_of_lines_not_of_one_projective_space(one, two, x, y, first, second):
    """Each dimension has its own homogeneous scale and its own ∞: (ℂℙ¹)ᵈ, not ℂℙᵈ."""
    both = torch.stack([map_of(one, 1e-2), map_of(two, 1e-2)])
    h = torch.tensor([[x, 1], [y, 1]], dtype=torch.complex128)
    scale = torch.tensor([[first], [second]])
    assume(float((both @ h.unsqueeze(-1)).abs().amin()) > 1e-3)
    images = [(both @ z.unsqueeze(-1)).squeeze(-1) for z in (h, scale * h)]
    plain, scaled = (image[:, 0] / image[:, 1] for image in images)
    torch.testing.assert_close(plain, scaled)
    # (∞, 0) and (∞, 1) are two points, as their images show.
    infinity = torch.full((), complex("inf"), dtype=torch.complex128)
    ends = [apply(both, torch.stack([infinity, tensor(z)])) for z in (0, 1)]
    assert float(chordal_distance(*ends).max()) > 0


def test_the_printed_equations_of_rotate_are_not_a_loop():
    """t₃ ∘ r₃ = h₁ gives r₃³ = r₂⁻¹; the loop needs t₃ ∘ r₃ = t₁, that is r₃³ = 1."""
    h1, r2 = 1.0, 1j
    r3 = r2 ** (-1 / 3)
    t1 = h1 * r2
    t3 = t1 * r3 * r3
    assert t3 * r3 == pytest.approx(h1)
    assert abs(t3 * r3 - t1) > 1
    closing = cmath.exp(2j * math.pi / 3)
    assert t1 * closing**3 == pytest.approx(t1)
