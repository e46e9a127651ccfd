"""The contract of all models: all ways of scoring agree, and nothing is ever NaN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made

from fivestar.errors import SettingsError
from fivestar.models.registry import make_model

forms = pytest.mark.parametrize("form", FORMS)


def as_complex(row):
    real, imag = row.chunk(2)
    return torch.complex(real, imag)


def five_star(model, form, head, relation, tail):
    head, tail = as_complex(head), as_complex(tail)
    a, b, c, d = (as_complex(part) for part in relation.chunk(4))
    _, denominator, pairing, score = form.split()
    over, under = a * head + b, c * head + d
    if denominator == "mobius":
        floor = model.epsilon * (c.abs() ** 2 + d.abs() ** 2)
        over = over * under.conj() / (under.abs() ** 2 + floor)
    elif denominator == "phase":
        over = over * under.conj() / under.abs()
    if pairing == "bilinear":
        over = over.conj()
    difference = over - tail
    return {
        "inner": (over * tail.conj()).sum().real,
        "distance": -difference.norm(),
        "l1": -(difference.real.abs().sum() + difference.imag.abs().sum()),
        "modulus": -difference.abs().sum(),
    }[score]


def quaternion(h, r, t):
    """By the matrices of left multiplication."""
    a, b, c, d = h.chunk(4)
    p, q, s, u = (x / r.view(4, -1).norm(dim=0) for x in r.chunk(4))
    left = [[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]]
    product = [sum(x * y for x, y in zip(row, (p, q, s, u), strict=True)) for row in left]
    return (torch.cat(product) * t).sum()


def simple(h, r, t):
    (h1, h2), (r1, r2), (t1, t2) = h.chunk(2), r.chunk(2), t.chunk(2)
    return ((h1 * r1 * t2).sum() + (t1 * r2 * h2).sum()) / 2


def mure(h, r, t):
    scale, shift = r.chunk(2)
    return -((scale * h[:-2] - (t[:-2] + shift)).norm() ** 2) + h[-1] + t[-2]


def murp(h, r, t):
    """Step by step on the ball, as in the paper."""
    scale, shift = r.chunk(2)
    tangent = torch.atanh(h[:-2].norm()) * h[:-2] / h[:-2].norm() * scale
    point = torch.tanh(tangent.norm()) * tangent / tangent.norm()
    distance = mobius_sum(-point, mobius_sum(t[:-2], shift)).norm()
    return -((2 * torch.atanh(distance)) ** 2) + h[-1] + t[-2]


def mobius_sum(x, y):
    over = (1 + 2 * x @ y + y @ y) * x + (1 - x @ x) * y
    return over / (1 + 2 * x @ y + (x @ x) * (y @ y))


def rotation_error(h, r, t):
    return as_complex(h) * torch.polar(torch.ones_like(r), r) - as_complex(t)


NAIVE = {
    "distmult": lambda h, r, t: (h * r * t).sum(),
    "complex": lambda h, r, t: (as_complex(h) * as_complex(r) * as_complex(t).conj()).sum().real,
    "cp": lambda h, r, t: (h.chunk(2)[0] * r * t.chunk(2)[1]).sum(),
    "simple": simple,
    "rescal": lambda h, r, t: h @ r.view(len(h), len(h)) @ t,
    "quate": quaternion,
    "transe l1": lambda h, r, t: -(h + r - t).abs().sum(),
    "transe l2": lambda h, r, t: -(h + r - t).norm(),
    "mure": mure,
    "murp": murp,
    "rotate": lambda h, r, t: -rotation_error(h, r, t).abs().sum(),
    "rotate l2": lambda h, r, t: -rotation_error(h, r, t).norm(),
    "protate l1": lambda h, r, t: -((h + r - t) / 2).sin().abs().sum(),
    "protate l2": lambda h, r, t: -((h + r - t) / 2).sin().square().sum(),
}


def normal(layer, x):
    """Batch normalization with running statistics of 0 and 1."""
    return x / (1 + layer.eps) ** 0.5 * layer.weight + layer.bias


def tucker(model, h, r, t):
    query = torch.einsum("kij,k,i->j", model.core, r, normal(model.head_norm, h))
    return normal(model.moved_norm, query) @ t


def conve(model, h, r, t):
    image = normal(model.picture_norm, torch.cat([h[:-1].view(2, 2), r.view(2, 2)]))
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
    maps = []
    for k, omega in enumerate(model.convolution.weight[:, 0]):
        cells = [(padded[i : i + 3, j : j + 3] * omega).sum() for i in range(4) for j in range(2)]
        cells = torch.stack(cells) + model.convolution.bias[k]
        norm = model.feature_norm
        maps.append((cells / (1 + norm.eps) ** 0.5 * norm.weight[k] + norm.bias[k]).relu())
    dense = model.dense.weight @ torch.cat(maps) + model.dense.bias
    return normal(model.moved_norm, dense).relu() @ t[:-1] + t[-1]


def naive_score(form, model, h, r, t):
    """The formula of one triple."""
    rows = model.entities[h], model.relations[r], model.entities[t]
    if form.startswith("fivestar"):
        return five_star(model, form, *rows)
    if form in {"tucker", "conve"}:
        return {"tucker": tucker, "conve": conve}[form](model, *rows)
    return NAIVE[form](*rows)


@forms
def test_score_equals_the_formula(form):
    model = made(form)
    for h, r, t in [(0, 0, 1), (3, 2, 3), (6, 1, 0)]:
        score = model.score(*(torch.tensor([x]) for x in (h, r, t)))
        assert score.item() == pytest.approx(naive_score(form, model, h, r, t).item(), rel=1e-5)


@forms
def test_scores_of_all_tails_of_tiles_and_of_triples_agree(form):
    model = made(form)
    heads, relations = torch.tensor([0, 5, 5]), torch.tensor([2, 0, 1])
    whole = model.score_tails(heads, relations)
    query = model.query(heads, relations).detach()
    torch.testing.assert_close(torch.cat(list(model.score_tiles(query, 2)), dim=1), whole)
    for t in range(7):
        one = model.score(heads, relations, torch.full((3,), t))
        torch.testing.assert_close(one.detach(), whole[:, t], rtol=1e-5, atol=1e-5)


@forms
def test_transform_passes_gradcheck(form):
    model = made(form, dim=2)
    head = model.entities.detach()[:3].requires_grad_()
    relation = model.relations.detach()[:3].requires_grad_()
    assert torch.autograd.gradcheck(model.transform, (head, relation))


@forms
def test_backward_pass_of_the_similarity_equals_autograd(form):
    model = made(form)
    generator = torch.Generator().manual_seed(2)
    query = model.query(torch.arange(3), torch.arange(3)).detach().requires_grad_()
    table = model.candidates().detach().clone().requires_grad_()
    score_grad = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    weight = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    scores = model.similarity.score_pairs(query[:, None], table[None])
    (scores * score_grad * weight[:, None]).sum().backward()
    prepared = score_grad.clone()
    with torch.no_grad():
        model.similarity.prepare_score_grad(query, table, prepared)
        query_grad = torch.zeros_like(query)
        model.similarity.add_query_grad(query, table, prepared, query_grad)
        query_grad *= weight[:, None]
        table_grad = torch.zeros_like(table)
        model.similarity.add_candidate_grad(query, weight, table, prepared, table_grad)
    torch.testing.assert_close(query_grad, query.grad, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(table_grad, table.grad, rtol=1e-5, atol=1e-8)


EXTREME = st.sampled_from([0.0, 1e-30, 1e-12, 1e-3, 1.0, -1.0, 30.0, 1e4, -1e4])


@forms
@given(row=st.lists(EXTREME, min_size=16, max_size=16), data=st.data())
def test_no_value_or_gradient_is_ever_nan_or_infinite(form, row, data):
    model = made(form, entities=1, relations=1, dim=1, dtype=torch.float32)
    entity, relation = model.entities.shape[1], model.relations.shape[1]
    head = torch.tensor([row[:entity]], requires_grad=True)
    r = torch.tensor([row[entity : entity + relation]], requires_grad=True)
    if form.startswith("fivestar") and data.draw(st.booleans()):
        # On the pole: d = −c h.
        with torch.no_grad():
            c, h = torch.complex(r[0, 4], r[0, 5]), torch.complex(head[0, 0], head[0, 1])
            d = -c * h
            if d.abs() <= 1e4:
                r[0, 6], r[0, 7] = d.real, d.imag
    tail = torch.tensor([row[-entity:]], requires_grad=True)
    score = model.similarity.score_pairs(model.transform(head, r), model.candidate_columns(tail))
    score.sum().backward()
    assert torch.isfinite(score).all()
    for leaf in (head, r, tail):
        assert torch.isfinite(leaf.grad).all()


@given(st.floats(0.01, 100), st.floats(0, 6.3))
def test_the_mobius_form_is_invariant_to_the_scale_of_its_matrix(size, angle):
    model = made("fivestar mobius hermitian inner")
    heads, relations = torch.arange(3), torch.arange(3)
    before = model.query(heads, relations)
    real, imag = size * torch.cos(torch.tensor(angle)), size * torch.sin(torch.tensor(angle))
    with torch.no_grad():
        parts = [x.chunk(2, dim=1) for x in model.relations.chunk(4, dim=1)]
        scaled = [torch.cat([u * real - v * imag, u * imag + v * real], dim=1) for u, v in parts]
        model.relations.copy_(torch.cat(scaled, dim=1))
    torch.testing.assert_close(model.query(heads, relations), before, rtol=1e-5, atol=1e-7)


def test_each_init_gives_the_maps_it_is_named_after():
    generator = torch.Generator().manual_seed(0)
    near = make_model("fivestar", 5, 2, 3, init="identity")
    near.reset_parameters(generator)
    heads, relations = torch.arange(2), torch.arange(2)
    assert (near.query(heads, relations) - near.entities[:2]).abs().max() < 0.01
    small = make_model("fivestar", 5, 2, 3, init="small")
    small.reset_parameters(generator)
    assert small.relations.abs().max() < 0.01
    rotated = make_model("fivestar", 200, 2, 100).requires_grad_(False)
    rotated.reset_parameters(generator)
    heads, relations = torch.arange(200), torch.zeros(200, dtype=torch.int64)
    after, before = (
        rotated.squared_moduli(x) for x in (rotated.query(heads, relations), rotated.entities)
    )
    # Rotations keep moduli (b shifts a point by about its modulus: the mean square doubles) ...
    assert float(after.mean()) == pytest.approx(2 * float(before.mean()), rel=0.1)
    # ... and a head scores no better as its own tail than any other entity.
    own = rotated.score(heads, relations, heads)
    assert abs(own.mean()) < 3 * own.std() / len(own) ** 0.5 + 0.1 * before.sum(dim=1).mean()


def test_5star_has_2d_parameters_per_entity_and_8d_per_relation():
    model = make_model("fivestar", 10, 3, 6)
    assert (model.entities.numel(), model.relations.numel()) == (10 * 12, 3 * 48)


def test_an_unknown_model_suggests_the_nearest():
    with pytest.raises(SettingsError, match="no model 'compleks'; did you mean 'complex'"):
        make_model("compleks", 1, 1, 1)
