"""Converted models keep their scores; other models are refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import made

from fivestar.errors import ConversionImpossible, SettingsError
from fivestar.models.bilinear import DistMult
from fivestar.models.construction import construct
from fivestar.models.conversion import from_pykeen, to_fivestar

POSSIBLE = {
    "distmult": "inner",
    "complex": "inner",
    "protate l2": "inner",
    "rotate": "distance",
    "rotate l2": "distance",
    "transe l1": "distance",
    "transe l2": "distance",
}
IMPOSSIBLE = {
    "simple": "one vector as head and another as tail",
    "cp": "one vector as head and another as tail",
    "rescal": "mixes dimensions",
    "tucker": "mixes dimensions",
    "conve": "a network",
    "quate": "quaternion",
    "murp": "ball",
    "mure": "biases",
    "protate l1": "train it with norm l2",
    "fivestar mobius hermitian inner": "one already",
}
EVERY = torch.cartesian_prod(torch.arange(7), torch.arange(3), torch.arange(7)).unbind(dim=1)


@pytest.mark.parametrize("denominator", ["mobius", "phase", "none"])
@pytest.mark.parametrize("form", POSSIBLE)
def test_conversion_keeps_all_scores(form, denominator):
    model = made(form, dtype=torch.float32)
    converted = to_fivestar(model, denominator=denominator)
    scale, shift = converted.scale, converted.shift
    # In float64, so that only the precision lost by the tables is seen.
    before, after = (m.double().score(*EVERY) for m in (model, converted.model))
    torch.testing.assert_close(after, scale * before + shift, rtol=1e-5, atol=2e-6)
    assert (scale, shift) == (1, 0) or form == "protate l2"
    heads = [m.score_heads(1, torch.arange(7)) for m in (model, converted.model)]
    torch.testing.assert_close(heads[1], scale * heads[0] + shift, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("form", "why"), IMPOSSIBLE.items())
def test_models_that_are_not_a_5star_are_refused(form, why):
    with pytest.raises(ConversionImpossible, match=why):
        to_fivestar(made(form))


def test_a_subclass_is_refused_since_its_formula_may_be_another():
    class Shifted(DistMult):
        def transform(self, head, relation):
            return head * relation + 1

    with pytest.raises(ConversionImpossible, match="Shifted cannot become a 5★E: its formula"):
        to_fivestar(Shifted(3, 2, 4))


@pytest.mark.parametrize(("form", "score"), POSSIBLE.items())
def test_the_wrong_score_is_refused(form, score):
    other = "inner" if score == "distance" else "distance"
    assert to_fivestar(made(form), score).options["score"] == score
    with pytest.raises(ConversionImpossible, match=f"use score {score}"):
        to_fivestar(made(form), other)


def test_all_parts_of_a_converted_model_have_gradients():
    model = to_fivestar(made("complex", dtype=torch.float32)).model
    model.score(*EVERY)[:20].sum().backward()
    a, b, c, d = model.relations.grad.chunk(4, dim=1)
    assert all(part.abs().max() > 0 for part in (a, b, c, d))


@st.composite
def levels(draw):
    """Truth values, or levels with many ties, few ties or none."""
    entities, relations = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    largest = draw(st.sampled_from([0, 1, 2, 4, 100]))
    shape = (entities, relations, entities)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        return generator.permutation(np.prod(shape)).reshape(shape)  # no ties at all
    if largest == 1:
        return generator.random(shape) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    return generator.integers(-largest, largest + 1, shape)


@given(levels())
def test_every_ranking_of_all_triples_has_a_5star(wanted):
    model = construct(wanted)
    entities, relations, _ = wanted.shape
    assert model.dim == 2 * entities**2
    ids = torch.cartesian_prod(*(torch.arange(n) for n in wanted.shape)).unbind(dim=1)
    scores = model.score(*ids).detach().reshape(wanted.shape).numpy()
    # Equal levels are equal scores, bit by bit, and larger levels are larger scores.
    np.testing.assert_array_equal(scores, wanted.astype(float))
    heads, queries = torch.cartesian_prod(torch.arange(entities), torch.arange(relations)).T
    tails = model.score_tails(heads, queries).detach().reshape(wanted.shape).numpy()
    wanted = wanted.astype(int)
    np.testing.assert_array_equal(
        np.sign(tails[..., :, None] - tails[..., None, :]),
        np.sign(wanted[..., :, None] - wanted[..., None, :]),
    )
    # All of its maps are Möbius maps: ad − bc is never 0.
    a, b, c, d = model.matrix(model.relations.detach())
    determinant = torch.complex(*a) * torch.complex(*d) - torch.complex(*b) * torch.complex(*c)
    assert determinant.abs().min() > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 1, 3), int), "shape"),
        (np.zeros((2, 2), int), "shape"),
        (np.zeros((0, 1, 0), int), "shape"),
        (np.zeros((2, 1, 2)), "integers"),
        (np.full((2, 1, 2), 10**7), "too large"),
    ],
)
def test_levels_that_cannot_be_scores_are_refused(wrong, message):
    with pytest.raises(SettingsError, match=message):
        construct(wrong)


FACTS = [["a", "r", "b"], ["b", "s", "c"], ["c", "r", "a"], ["d", "s", "a"]]


@pytest.mark.pykeen
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("TransE", {"scoring_fct_norm": 1}),
        ("TransE", {"scoring_fct_norm": 2}),
        ("RotatE", {}),
        ("DistMult", {}),
        ("ComplEx", {}),
    ],
)
def test_models_from_pykeen_keep_their_scores(name, options, inverse):
    models = pytest.importorskip("pykeen.models")
    triples = pytest.importorskip("pykeen.triples")
    factory = triples.TriplesFactory.from_labeled_triples(
        np.array(FACTS), create_inverse_triples=inverse
    )
    theirs = getattr(models, name)(
        triples_factory=factory, embedding_dim=6, random_seed=0, **options
    ).eval()
    imported = from_pykeen(theirs, factory)
    assert list(imported.graph.entities) == ["a", "b", "c", "d"]
    assert imported.reciprocals is inverse
    ids = torch.cartesian_prod(torch.arange(4), torch.arange(2), torch.arange(4))
    tails = imported.model.score(*ids.unbind(dim=1)).detach()
    torch.testing.assert_close(tails, theirs.predict_hrt(ids).flatten(), rtol=1e-4, atol=1e-5)
    given = torch.tensor([[0, 1], [1, 3]])
    expected = theirs.predict_h(given)
    if inverse:
        heads = imported.model.score_tails(given[:, 1], given[:, 0] + 2)
    else:
        heads = torch.cat([imported.model.score_heads(int(r), t[None]) for r, t in given])
    torch.testing.assert_close(heads, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.pykeen
@pytest.mark.filterwarnings("ignore")
def test_other_models_of_pykeen_are_refused():
    models = pytest.importorskip("pykeen.models")
    triples = pytest.importorskip("pykeen.triples")
    factory = triples.TriplesFactory.from_labeled_triples(np.array(FACTS))
    with pytest.raises(ConversionImpossible, match="HolE cannot be converted from PyKEEN"):
        from_pykeen(models.HolE(triples_factory=factory, embedding_dim=4), factory)
    other = triples.TriplesFactory.from_labeled_triples(np.array(FACTS[:2]))
    with pytest.raises(ConversionImpossible, match="give the one it was trained on"):
        from_pykeen(models.TransE(triples_factory=factory, embedding_dim=4), other)
