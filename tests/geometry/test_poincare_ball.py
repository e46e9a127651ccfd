"""The laws of the Poincaré ball, in double precision; in the plane also by complex numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fivestar.geometry import poincare_ball as ball

SIZE = st.integers(1, 4)
seeds = st.integers(0, 2**32 - 1)


def random_points(seed, count, size, longest=0.95):
    """Return points (count, 2, 3, size) of norms below `longest`."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(count, 2, 3, size, dtype=torch.float64, generator=generator)
    lengths = longest * torch.rand(count, 2, 3, 1, dtype=torch.float64, generator=generator)
    return directions / directions.norm(dim=-1, keepdim=True) * lengths


def dot(x, y):
    return (x * y).sum(dim=-1)


def excess(x, y):
    return dot(x - y, x - y) / ((1 - dot(x, x)) * (1 - dot(y, y)))


def distance(x, y):
    """Return the distances by the textbook's formula."""
    return torch.acosh(1 + 2 * excess(x, y))


@given(seeds, SIZE)
def test_the_maps_at_the_origin_are_inverse_and_keep_directions(seed, size):
    (vector,) = random_points(seed, 1, size, longest=3)
    point = ball.expmap0(vector)
    torch.testing.assert_close(point.norm(dim=-1), vector.norm(dim=-1).tanh())
    torch.testing.assert_close(ball.logmap0(point), vector, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dot(point, vector), point.norm(dim=-1) * vector.norm(dim=-1))
    torch.testing.assert_close(distance(point, torch.zeros_like(point)), 2 * vector.norm(dim=-1))


def test_logarithms_at_the_boundary_are_those_of_the_margin():
    edge = torch.tensor([[1.0, 0], [0, 1 - ball.MARGIN]], dtype=torch.float64)
    furthest = torch.tensor(1 - ball.MARGIN, dtype=torch.float64).atanh()
    torch.testing.assert_close(ball.logmap0(edge).norm(dim=-1), furthest.expand(2))


@given(seeds, SIZE)
def test_projection_shortens_only_what_is_too_long(seed, size):
    (points,) = random_points(seed, 1, size, longest=2)
    found = ball.project(points)
    lengths = points.norm(dim=-1, keepdim=True)
    wanted = torch.where(lengths > 1 - ball.MARGIN, points / lengths * (1 - ball.MARGIN), points)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
    assert not ball.project(torch.zeros(2, size)).any()


@given(seeds, SIZE)
def test_the_sum_is_a_left_loop(seed, size):
    x, y = random_points(seed, 2, size)
    zero = torch.zeros_like(x)
    torch.testing.assert_close(ball.add(zero, y), y)
    torch.testing.assert_close(ball.add(x, zero), x)
    torch.testing.assert_close(ball.add(-x, ball.add(x, y)), y)
    # A left translation keeps distances.
    torch.testing.assert_close(
        distance(ball.add(x, y), ball.add(x, -y)), distance(y, -y), rtol=1e-5, atol=1e-5
    )


@given(seeds)
def test_the_sum_in_the_plane_is_a_mobius_map(seed):
    x, y = random_points(seed, 2, 2)
    z, w = (torch.view_as_complex(v) for v in (x, y))
    torch.testing.assert_close(torch.view_as_complex(ball.add(x, y)), (z + w) / (1 + z.conj() * w))


@given(seeds, SIZE)
def test_the_excess_of_a_sum_is_that_of_its_points(seed, size):
    x, r, t = random_points(seed, 3, size, longest=0.9)
    found = ball.excess_of_sum(dot(x, t), dot(r, t), dot(t, t), dot(x, x), dot(r, r), dot(x, r))
    torch.testing.assert_close(found, excess(x, ball.add(t, r)), rtol=1e-7, atol=1e-9)


@given(seeds, SIZE)
def test_distances_and_their_derivative(seed, size):
    x, y = random_points(seed, 2, size)
    values = excess(x, y).clamp_min(1e-9).requires_grad_()
    squares = ball.squared_distance(values)
    torch.testing.assert_close(squares.detach(), distance(x, y).square(), rtol=1e-6, atol=1e-8)
    (by_autograd,) = torch.autograd.grad(squares.sum(), values)
    torch.testing.assert_close(ball.squared_distance_grad(values.detach()), by_autograd)


@given(seeds, SIZE)
def test_the_map_at_a_point_goes_along_a_geodesic(seed, size):
    point, direction = random_points(seed, 2, size, longest=0.7)
    end = ball.expmap(point, direction)
    gap = 1 - dot(point, point)
    torch.testing.assert_close(distance(point, end), 2 * direction.norm(dim=-1) / gap)
    torch.testing.assert_close(
        ball.expmap(torch.zeros_like(point), direction), ball.expmap0(direction)
    )
    # Halfway in the tangent space is halfway on the ball.
    half = ball.expmap(point, direction / 2)
    torch.testing.assert_close(distance(point, half), distance(half, end))


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_points_outside_have_the_gap_of_the_margin(length):
    squares = torch.tensor([length, 0.25], dtype=torch.float64)
    assert ball.one_minus(squares).tolist() == [ball.MARGIN, 0.75]
    far = torch.tensor([[length, 0.0]], dtype=torch.float64)
    moved = ball.expmap(far, torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    assert moved.isfinite().all()
    assert float(moved.norm()) <= 1 - ball.MARGIN + 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_origin_is_its_own_image_and_has_a_gradient(dtype):
    for mapping in (ball.expmap0, ball.logmap0):
        origin = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
        image = mapping(origin)
        assert not image.any()
        image.sum().backward()
        torch.testing.assert_close(origin.grad, torch.ones_like(origin), rtol=1e-3, atol=0)
