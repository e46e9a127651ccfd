"""Vectors for maximum inner product search that rank as the model does.

For every query, query · candidate is the score of the model up to an increasing function:

    inner product      q · t             =  [q] · [t]
    distance (l2)      −‖q − t‖² + ‖q‖²  =  [2q | 1] · [t | −‖t‖²]
    sum of sin²        Σ cos(q − t)      =  [cos q | sin q] · [cos t | sin t]
    with biases        s + b_t           =  [q′ | 1] · [t′ | b_t]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.errors import ExportImpossible, SettingsError, UnknownName
from fivestar.models.distances import (
    EuclideanDistance,
    L1Distance,
    ModulusDistance,
    SineDistance,
    SquaredDistance,
    SquaredSineDistance,
)
from fivestar.models.hyperbolic import ShiftedBallDistance
from fivestar.models.similarity import Biased, InnerProduct, Similarity
from fivestar.runs.run import Run

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ProductForm:
    """Maps of queries and candidates to vectors whose inner product ranks as the score does.

    `score_scale` times the product is the score up to a constant per query; None if the product
    only has the same order.
    """

    query: Callable[[Tensor], Tensor]
    candidates: Callable[[Tensor], Tensor]
    score_scale: float | None = 1.0


def product_form(similarity: Similarity) -> ProductForm:
    """Return the product form of a similarity.

    Raises:
        ExportImpossible: if no inner product ranks as the similarity does.
    """
    if isinstance(similarity, Biased):
        return _with_bias(product_form(similarity.inner), similarity)
    # By exact type: a subclass may score in another way.
    if type(similarity) in _FORMS:
        return _FORMS[type(similarity)]
    reason = _REASONS.get(
        type(similarity), f"{type(similarity).__name__} has no known product form"
    )
    raise ExportImpossible(
        f"no inner product ranks as this model does: {reason}; "
        "use model.predict_tails, or train a model with an inner product or norm l2"
    )


@torch.no_grad()
def candidate_vectors(run: Run) -> Vectors:
    """Return the candidate vectors (N, D′) of all entities for maximum inner product search.

    Args:
        run: a trained model.

    Raises:
        ExportImpossible: if no inner product ranks as the model does.

    >>> import fivestar
    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> model = fivestar.train(facts, dim=4, epochs=2)
    >>> candidate_vectors(model).shape, query_vectors(model, [0, 1], [0, 0]).shape
    ((4, 8), (2, 8))
    """
    form = product_form(run.model.similarity)
    return _to_numpy(form.candidates(run.model.candidates().double()))


@torch.no_grad()
def query_vectors(run: Run, heads: npt.ArrayLike, relations: npt.ArrayLike) -> Vectors:
    """Return the query vectors (B, D′) of (h, r, ?) by ids.

    Args:
        run: a trained model.
        heads: entity ids (B,).
        relations: relation ids (B,). With R relations, (t, r + R) is the head query (?, r, t).

    Raises:
        ExportImpossible: if no inner product ranks as the model does.
        UnknownName: if an id is out of range.
    """
    form = product_form(run.model.similarity)
    given = np.asarray(heads), np.asarray(relations)
    for ids in given:
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise SettingsError("heads and relations must be lists of integer ids")
    if len(given[0]) != len(given[1]):
        raise SettingsError(f"{len(given[0])} heads for {len(given[1])} relations: give pairs")
    _check_ids(run, *given)
    rows = [torch.as_tensor(ids.astype(np.int64)) for ids in given]
    return _to_numpy(form.query(run.model.query(*rows).double()))


def _check_ids(run: Run, heads: npt.NDArray[np.int_], relations: npt.NDArray[np.int_]) -> None:
    count, rows = len(run.graph.relations), len(run.model.relations)
    if rows == count and np.any((relations >= count) & (relations < 2 * count)):
        raise ExportImpossible(
            "this model has no reciprocal relations, so head queries have no vector; "
            "train with reciprocals, or use model.predict_heads"
        )
    for kind, ids, end in (
        ("entity", heads, len(run.graph.entities)),
        ("relation", relations, rows),
    ):
        wrong = ids[(ids < 0) | (ids >= end)]
        if len(wrong):
            raise UnknownName(f"no {kind} with id {wrong[0]}; ids run from 0 to {end - 1}")


def _to_numpy(vectors: Tensor) -> Vectors:
    return vectors.float().cpu().contiguous().numpy()


def _identity(rows: Tensor) -> Tensor:
    return rows


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)


def _double_with_one(query: Tensor) -> Tensor:
    return _with_one(2 * query)


def _with_negative_norm(candidates: Tensor) -> Tensor:
    return torch.cat([candidates, -candidates.square().sum(dim=1, keepdim=True)], dim=1)


def _cos_sin(angles: Tensor) -> Tensor:
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def _with_bias(inner: ProductForm, similarity: Biased) -> ProductForm:
    scale = inner.score_scale
    if scale is None:
        raise ExportImpossible(
            f"no inner product ranks as this model does: {type(similarity.inner).__name__} plus "
            "a bias is none; use model.predict_tails"
        )

    def candidates(table: Tensor) -> Tensor:
        return torch.cat([inner.candidates(table[:, :-1]), table[:, -1:] / scale], dim=1)

    # The bias of the query shifts all of its scores alike, so it does not change the ranking.
    return ProductForm(lambda query: _with_one(inner.query(query[:, :-1])), candidates, scale)


_FORMS: dict[type[Similarity], ProductForm] = {
    InnerProduct: ProductForm(_identity, _identity),
    SquaredDistance: ProductForm(_double_with_one, _with_negative_norm),
    EuclideanDistance: ProductForm(_double_with_one, _with_negative_norm, None),
    SquaredSineDistance: ProductForm(_cos_sin, _cos_sin, 0.5),
}
_REASONS: dict[type[Similarity], str] = {
    L1Distance: "its distance is a sum of absolute differences (l1)",
    ModulusDistance: "its distance is a sum of moduli",
    SineDistance: "its distance is a sum of |sin|",
    ShiftedBallDistance: "its distance is hyperbolic, and the relation transforms the tail as well",
}
