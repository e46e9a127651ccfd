"""The contribution of each dimension to a score, and the Möbius map of a 5★E there."""

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
from fivestar.prediction.paths import TripleIds
from fivestar.runs.run import Run

# Tolerance when classifying a map, as in `fivestar geometry`.
TOLERANCE = 0.05


@dataclass(frozen=True)
class MobiusMap:
    """The Möbius map of a relation in one dimension; `scale` and `degrees` are |k| and arg k.

    k is the multiplier of the map; both are None if it is not finite.
    """

    map_class: str
    scale: float | None
    degrees: float | None
    description: str


@dataclass(frozen=True)
class Dimension:
    """The contribution of one dimension; `map` only for a 5★E with the denominator mobius."""

    dimension: int
    contribution: float
    map: MobiusMap | None


@dataclass(frozen=True)
class Contributions:
    """The dimensions with the largest contributions.

    Attributes:
        largest: dimensions by absolute contribution, largest first.
        num_dimensions: number of dimensions.
        positive: sum of all positive contributions.
        negative: sum of all negative contributions.
        bias: sum of the biases; with it, positive + negative + bias is the score.
    """

    largest: tuple[Dimension, ...]
    num_dimensions: int
    positive: float
    negative: float
    bias: float


def contributions(run: Run, triple: TripleIds, top: int) -> Contributions | None:
    """Return the largest contributions to a score; None if it is not a sum over dimensions."""
    parts = terms(run.model, triple, run.settings.model.dim)
    if parts is None:
        return None
    each, bias = parts
    order = torch.topk(each.abs(), min(top, len(each))).indices.tolist()
    maps = _maps(run.model, triple.relation, order)
    return Contributions(
        tuple(
            Dimension(number, float(each[number]), mobius)
            for number, mobius in zip(order, maps, strict=True)
        ),
        len(each),
        float(each.clamp_min(0).sum()),
        float(each.clamp_max(0).sum()),
        bias,
    )


@torch.no_grad()
def terms(model: Model, triple: TripleIds, dim: int) -> tuple[Tensor, float] | None:
    """Return the contribution per dimension (D) and the bias; None if the score is no such sum."""
    if isinstance(model, ConvE):
        return None  # its network mixes all dimensions of the head
    query = model.query(torch.tensor([triple.head]), torch.tensor([triple.relation]))[0].double()
    tail = model.candidates()[triple.tail].double()
    similarity, bias = model.similarity, 0.0
    if isinstance(similarity, Biased):
        bias = float(query[-1] + tail[-1])
        similarity, query, tail = similarity.inner, query[:-1], tail[:-1]
    if len(query) != len(tail) or len(tail) % dim:
        return None  # MuRP, whose relation transforms the tail as well
    each = _per_dimension(similarity, query, tail, dim)
    total = similarity.score_pairs(query[None], tail[None])[0]
    # The similarity of a third-party model need not be a sum.
    return (each, bias) if torch.isclose(each.sum(), total, rtol=1e-5, atol=1e-5) else None


def _per_dimension(similarity: Similarity, query: Tensor, tail: Tensor, dim: int) -> Tensor:
    """Score each dimension by itself.

    Rows are [real | imaginary] or more parts, each with one number per dimension.
    """
    parts = [row.view(-1, dim).T for row in (query, tail)]
    each = similarity.score_pairs(parts[0], parts[1])
    if isinstance(similarity, EuclideanDistance):
        # The root is no sum, but ‖x‖ = Σ xᵢ²/‖x‖.
        shares: Tensor = each.square() / -torch.linalg.vector_norm(each).clamp_min(1e-300)
        return shares
    return each


def _maps(model: Model, relation: int, dimensions: list[int]) -> list[MobiusMap | None]:
    if not isinstance(model, FiveStarE) or model.denominator != "mobius":
        return [None] * len(dimensions)
    maps = relation_maps(model, model.relations.detach()[relation])[dimensions]
    classes = classify(maps, TOLERANCE).tolist()
    return [
        _mobius_map(MobiusClass(each), k)
        for each, k in zip(classes, multiplier(maps).tolist(), strict=True)
    ]


def _mobius_map(map_class: MobiusClass, k: complex) -> MobiusMap:
    scale, degrees = abs(k), math.degrees(math.atan2(k.imag, k.real))
    rotates, scales = f"rotates by {degrees:.0f}°".replace("-", "−"), f"scales by {scale:.2g}"
    description = {
        MobiusClass.DEGENERATE: "maps everything to one point",
        MobiusClass.IDENTITY: "identity",
        MobiusClass.PARABOLIC: "translates",
        MobiusClass.CIRCULAR: "half-turn",
        MobiusClass.ELLIPTIC: rotates,
        MobiusClass.HYPERBOLIC: scales,
        MobiusClass.LOXODROMIC: f"{rotates}, {scales}",
    }[map_class]
    is_finite = math.isfinite(scale) and math.isfinite(degrees)
    return MobiusMap(
        map_class.name.lower(),
        scale if is_finite else None,
        degrees if is_finite else None,
        description,
    )
