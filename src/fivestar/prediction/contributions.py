"""Which dimensions a score comes from, and what a 5★E does to the head there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fivestar.analysis.relations import relation_maps
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.fixed_points import multiplier
from fivestar.models.base import Model
from fivestar.models.distances import EuclideanDistance
from fivestar.models.fivestar import FiveStarE
from fivestar.models.neural import ConvE
from fivestar.models.similarity import Biased, Similarity
from fivestar.prediction.paths import Asked
from fivestar.runs.run import Run

# How far tr²/det may be from where a kind of map has it.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class MapThere:
    """The Möbius map of a relation in one dimension: its kind, and its multiplier k."""

    kind: str
    stretch: float | None  # |k|
    degrees: float | None  # arg k
    words: str


@dataclass(frozen=True)
class Dimension:
    """What one dimension adds to the score; `map` only of a 5★E with the denominator mobius."""

    number: int
    contribution: float
    map: MapThere | None


@dataclass(frozen=True)
class Contributions:
    """The dimensions that weigh most; all together, with the biases, they are the score.

    `gains` and `losses` are the sums of what adds to the score and of what takes from it.
    """

    largest: tuple[Dimension, ...]
    dimensions: int
    gains: float
    losses: float
    biases: float


def contributions(run: Run, asked: Asked, top: int) -> Contributions | None:
    """The dimensions that weigh most in a score, or None if the score is no sum over them."""
    found = terms(run.model, asked, run.settings.model.dim)
    if found is None:
        return None
    each, biases = found
    order = torch.topk(each.abs(), min(top, len(each))).indices.tolist()
    maps = _maps(run.model, asked.relation, order)
    return Contributions(
        tuple(
            Dimension(number, float(each[number]), there)
            for number, there in zip(order, maps, strict=True)
        ),
        len(each),
        float(each.clamp_min(0).sum()),
        float(each.clamp_max(0).sum()),
        biases,
    )


@torch.no_grad()
def terms(model: Model, asked: Asked, dim: int) -> tuple[Tensor, float] | None:
    """What each dimension adds to the score, and the biases; None if the score is no such sum."""
    if isinstance(model, ConvE):
        return None  # what its network makes of the head has no dimensions in common with it
    query = model.query(torch.tensor([asked.head]), torch.tensor([asked.relation]))[0].double()
    tail = model.candidates()[asked.tail].double()
    similarity, biases = model.similarity, 0.0
    if isinstance(similarity, Biased):
        biases = float(query[-1] + tail[-1])
        similarity, query, tail = similarity.inner, query[:-1], tail[:-1]
    if len(query) != len(tail) or len(tail) % dim:
        return None  # MuRP, whose relation moves the tail as well
    each = _one_by_one(similarity, query, tail, dim)
    total = similarity.score_pairs(query[None], tail[None])[0]
    # A model of someone else's may compare in a way that is no sum.
    return (each, biases) if torch.isclose(each.sum(), total, rtol=1e-5, atol=1e-5) else None


def _one_by_one(similarity: Similarity, query: Tensor, tail: Tensor, dim: int) -> Tensor:
    """The terms of the sum: each dimension compared by itself.

    Rows are [real | imaginary], or more parts, each with a number a dimension.
    """
    parts = [row.view(-1, dim).T for row in (query, tail)]
    each = similarity.score_pairs(parts[0], parts[1])
    if isinstance(similarity, EuclideanDistance):
        # ‖x‖ = Σ xᵢ²/‖x‖: the root is no sum, but the squares share it out.
        shares: Tensor = each.square() / -torch.linalg.vector_norm(each).clamp_min(1e-300)
        return shares
    return each


def _maps(model: Model, relation: int, dimensions: list[int]) -> list[MapThere | None]:
    if not isinstance(model, FiveStarE) or model.denominator != "mobius":
        return [None] * len(dimensions)
    maps = relation_maps(model, model.relations.detach()[relation])[dimensions]
    kinds = classify(maps, _TOLERANCE).tolist()
    return [
        _map_there(MobiusClass(kind), k)
        for kind, k in zip(kinds, multiplier(maps).tolist(), strict=True)
    ]


def _map_there(kind: MobiusClass, k: complex) -> MapThere:
    stretch, degrees = abs(k), math.degrees(math.atan2(k.imag, k.real))
    turns, stretches = f"rotates by {degrees:.0f}°".replace("-", "−"), f"stretches {stretch:.2g}×"
    words = {
        MobiusClass.DEGENERATE: "sends everything to one point",
        MobiusClass.IDENTITY: "leaves everything in place",
        MobiusClass.PARABOLIC: "shifts",
        MobiusClass.CIRCULAR: "turns half round",
        MobiusClass.ELLIPTIC: turns,
        MobiusClass.HYPERBOLIC: stretches,
        MobiusClass.LOXODROMIC: f"{turns}, {stretches}",
    }[kind]
    is_finite = math.isfinite(stretch) and math.isfinite(degrees)
    return MapThere(
        kind.name.lower(),
        stretch if is_finite else None,
        degrees if is_finite else None,
        words,
    )
