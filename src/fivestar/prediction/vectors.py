"""Vectors for a search by largest inner product that ranks as the model does.

For every query, query · candidate is the model's score up to an increasing function:

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
    """How queries and candidates become vectors whose inner product ranks as the score does.

    `score_scale` times the product is the score up to a number that depends on the query alone; it
    is None where the two have only their order in common.
    """

    query: Callable[[Tensor], Tensor]
    candidates: Callable[[Tensor], Tensor]
    score_scale: float | None = 1.0


def product_form(similarity: Similarity) -> ProductForm:
    """The product that a comparison is, or an error that says why it is none."""
    if isinstance(similarity, Biased):
        return _with_bias(product_form(similarity.inner), similarity)
    # By exact type: a subclass may compare in another way.
    if type(similarity) in _FORMS:
        return _FORMS[type(similarity)]
    reason = _REASONS.get(type(similarity), f"{type(similarity).__name__} has no known product")
    raise ExportImpossible(
        f"no inner product ranks as this model does: {reason}; "
        "ask the model itself (fivestar ask), or train a form that is a product "
        "(norm l2, or a model with an inner product)"
    )


@torch.no_grad()
def candidate_vectors(run: Run) -> Vectors:
    """The vectors (N, D′) of all entities, to be searched for the largest product with a query."""
    form = product_form(run.model.similarity)
    return _rounded(form.candidates(run.model.candidates().double()))


@torch.no_grad()
def query_vectors(run: Run, heads: npt.ArrayLike, relations: npt.ArrayLike) -> Vectors:
    """The vectors (B, D′) of questions (h, r, ?) by ids.

    With R relations, r + R asks for the heads of a tail: (t, r + R) is the question (?, r, t).
    """
    form = product_form(run.model.similarity)
    known = np.asarray(heads), np.asarray(relations)
    for ids in known:
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise SettingsError("heads and relations are lists of ids (whole numbers)")
    if len(known[0]) != len(known[1]):
        raise SettingsError(f"{len(known[0])} heads for {len(known[1])} relations: give pairs")
    _check_ids(run, *known)
    rows = [torch.as_tensor(ids.astype(np.int64)) for ids in known]
    return _rounded(form.query(run.model.query(*rows).double()))


def _check_ids(run: Run, heads: npt.NDArray[np.int_], relations: npt.NDArray[np.int_]) -> None:
    count, rows = len(run.graph.relations), len(run.model.relations)
    if rows == count and np.any((relations >= count) & (relations < 2 * count)):
        raise ExportImpossible(
            "this run has no reciprocal relations, so the heads of a tail are no query; "
            "train with reciprocals, or ask the model itself (fivestar ask)"
        )
    for kind, ids, end in (
        ("entity", heads, len(run.graph.entities)),
        ("relation", relations, rows),
    ):
        wrong = ids[(ids < 0) | (ids >= end)]
        if len(wrong):
            raise UnknownName(f"no {kind} with id {wrong[0]}; ids run from 0 to {end - 1}")


def _rounded(vectors: Tensor) -> Vectors:
    return vectors.float().cpu().contiguous().numpy()


def _as_they_are(rows: Tensor) -> Tensor:
    return rows


def _with_ones(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)


def _doubled(query: Tensor) -> Tensor:
    return _with_ones(2 * query)


def _with_lengths(candidates: Tensor) -> Tensor:
    return torch.cat([candidates, -candidates.square().sum(dim=1, keepdim=True)], dim=1)


def _on_circles(angles: Tensor) -> Tensor:
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def _with_bias(inner: ProductForm, similarity: Biased) -> ProductForm:
    scale = inner.score_scale
    if scale is None:
        raise ExportImpossible(
            f"no inner product ranks as this model does: {type(similarity.inner).__name__} plus "
            "a bias is none; ask the model itself (fivestar ask)"
        )

    def candidates(table: Tensor) -> Tensor:
        return torch.cat([inner.candidates(table[:, :-1]), table[:, -1:] / scale], dim=1)

    # The bias of the query moves all of its scores alike, so it has no place in a ranking.
    return ProductForm(lambda query: _with_ones(inner.query(query[:, :-1])), candidates, scale)


_FORMS: dict[type[Similarity], ProductForm] = {
    InnerProduct: ProductForm(_as_they_are, _as_they_are),
    SquaredDistance: ProductForm(_doubled, _with_lengths),
    EuclideanDistance: ProductForm(_doubled, _with_lengths, None),
    SquaredSineDistance: ProductForm(_on_circles, _on_circles, 0.5),
}
_REASONS: dict[type[Similarity], str] = {
    L1Distance: "its distance is a sum of absolute differences (l1)",
    ModulusDistance: "its distance is a sum of moduli",
    SineDistance: "its distance is a sum of |sin|",
    ShiftedBallDistance: "its distance is hyperbolic, and the relation moves the tail as well",
}
