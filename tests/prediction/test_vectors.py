"""A search by largest inner product ranks as the model does, or is refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made

import fivestar
from fivestar.errors import ExportImpossible, SettingsError, UnknownName
from fivestar.models.distances import EuclideanDistance, SquaredDistance
from fivestar.models.registry import MODELS
from fivestar.models.similarity import Biased, InnerProduct
from fivestar.prediction.vectors import candidate_vectors, product_form, query_vectors
from fivestar.runs.run import Run

REFUSED = {
    "transe l1": "absolute differences",
    "rotate": "moduli",
    "protate l1": "|sin|",
    "murp": "hyperbolic",
    "fivestar mobius hermitian l1": "absolute differences",
    "fivestar mobius hermitian modulus": "moduli",
}
EXPORTABLE = [form for form in FORMS if form not in REFUSED]
ENTITIES, RELATIONS = 60, 3


def run_of(form, relations=2 * RELATIONS, scale=1.0):
    triples = [(f"e{i}", f"r{i % RELATIONS}", f"e{i + 1}") for i in range(ENTITIES - 1)]
    model = made(form, ENTITIES, relations, dtype=torch.float32, scale=scale)
    return Run(fivestar.read_graph(triples), fivestar.make_settings({}), model)


def every_query():
    heads, relations = np.meshgrid(np.arange(ENTITIES), np.arange(2 * RELATIONS))
    return heads.ravel(), relations.ravel()


def ranks_alike(run, heads, relations):
    """Scores in the order of the products never rise, up to the last digits of float32."""
    products = query_vectors(run, heads, relations).astype(float) @ candidate_vectors(run).T
    scores = run.model.score_tails(torch.as_tensor(heads), torch.as_tensor(relations)).double()
    in_order = scores.gather(1, torch.as_tensor(np.argsort(-products, axis=1)))
    best = scores.sort(dim=1, descending=True).values
    torch.testing.assert_close(in_order, best, rtol=1e-5, atol=1e-5 * scores.abs().max().item())
    clear = (best[:, :-1] - best[:, 1:]).min(dim=1).values > 1e-4 * scores.abs().max()
    order = np.argsort(-products, axis=1)[clear.numpy()]
    np.testing.assert_array_equal(order, np.argsort(-scores.numpy(), axis=1)[clear.numpy()])
    return int(clear.sum())


def test_every_model_is_either_exported_or_refused():
    assert {name for name, _ in FORMS.values()} == set(MODELS)


@pytest.mark.parametrize("form", EXPORTABLE)
def test_largest_product_is_the_best_answer(form):
    run = run_of(form)
    vectors = candidate_vectors(run)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == ENTITIES
    assert ranks_alike(run, *every_query()) > 0  # some rows have no ties at all


@pytest.mark.parametrize("form", ["fivestar mobius hermitian distance", "mure", "complex"])
@given(scale=st.floats(0.01, 10))
def test_any_table_size(form, scale):
    ranks_alike(run_of(form, scale=scale), *every_query())


@pytest.mark.parametrize("form", REFUSED)
def test_other_similarities_are_refused_with_a_reason(form):
    run = run_of(form)
    for ask in (candidate_vectors, lambda run: query_vectors(run, [0], [0])):
        with pytest.raises(ExportImpossible) as error:
            ask(run)
        assert REFUSED[form] in str(error.value)


def test_third_party_similarities_are_refused():
    class Mine(InnerProduct):
        """Might score in another way."""

    with pytest.raises(ExportImpossible, match="Mine has no known product"):
        product_form(Mine())
    with pytest.raises(ExportImpossible, match="EuclideanDistance plus a bias"):
        product_form(Biased(EuclideanDistance()))


def test_biases_within_biases():
    generator = torch.Generator().manual_seed(0)
    query, table = (torch.randn(n, 6, generator=generator) for n in (4, 20))
    for similarity in (Biased(Biased(InnerProduct())), Biased(SquaredDistance())):
        form, scores = product_form(similarity), torch.empty(4, 20)
        similarity.forward(query, table, scores)
        gap = scores - form.score_scale * form.query(query) @ form.candidates(table).T
        torch.testing.assert_close(gap, gap[:, :1].expand_as(gap), rtol=1e-4, atol=1e-4)


def test_head_queries_need_reciprocals():
    with_them, without = run_of("complex"), run_of("complex", RELATIONS)
    asked = query_vectors(with_them, [4], [RELATIONS + 1])
    best = int(np.argmax(asked @ candidate_vectors(with_them).T))
    assert fivestar.TrainedModel.of(with_them).predict_heads("r1", "e4", top=1)[0].id == f"e{best}"
    with pytest.raises(ExportImpossible, match="no reciprocal relations"):
        query_vectors(without, [4], [RELATIONS + 1])
    assert query_vectors(without, [4], [1]).shape == (1, 8)


@pytest.mark.parametrize(
    ("heads", "relations", "error", "text"),
    [
        ([ENTITIES], [0], UnknownName, "no entity with id 60; ids run from 0 to 59"),
        ([-1], [0], UnknownName, "no entity with id -1"),
        ([0], [2 * RELATIONS], UnknownName, "no relation with id 6"),
        ([0, 1], [0], SettingsError, "2 heads for 1 relations"),
        ([[0]], [0], SettingsError, "lists of integer ids"),
        ([0.5], [0], SettingsError, "lists of integer ids"),
    ],
)
def test_bad_ids(heads, relations, error, text):
    with pytest.raises(error, match=text):
        query_vectors(run_of("complex"), heads, relations)


@pytest.mark.parametrize("form", ["fivestar mobius hermitian inner", "transe l2", "mure", "conve"])
def test_faiss_finds_the_top_ten(form):
    faiss = pytest.importorskip("faiss")
    run = run_of(form)
    vectors = candidate_vectors(run)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    heads, relations = np.arange(ENTITIES), np.arange(ENTITIES) % (2 * RELATIONS)
    _, found = index.search(query_vectors(run, heads, relations), 10)
    scores = run.model.score_tails(torch.as_tensor(heads), torch.as_tensor(relations))
    best = scores.topk(10).indices.numpy()
    assert all(set(a) == set(b) for a, b in zip(found, best, strict=True))
