"""Geometry of the relations of a 5★E: classes of maps, rotation, expansion and poles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.complex_pairs import Complex, apply_affine, apply_phase, from_row
from fivestar.geometry.fixed_points import multiplier
from fivestar.geometry.mobius import (
    apply,
    chordal_distance,
    determinant,
    entries,
    from_homogeneous,
    matrix,
    relative_determinant,
)
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.relation_patterns import find_patterns
from fivestar.models.fivestar import FiveStarE
from fivestar.runs.run import Run, build_model

# Maximum number of heads per relation that are measured.
_MAX_HEADS = 500
# Chordal distance to the pole below which a small change of the map moves the image far.
NEAR_POLE = 0.05


class Quartiles(NamedTuple):
    """The quartiles of a measure over dimensions."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class RelationGeometry:
    """Geometry of one relation over all dimensions.

    Attributes:
        name: the name of the relation.
        facts: its number of facts in train.
        classes: the share of dimensions per class of map.
        expansion: log |k| of the multiplier k.
        rotation: |arg k| of the multiplier k.
        relative_determinant: 2|det|/‖m‖²: 1 for a rotation of the sphere, 0 for a constant map.
        translation: |f(h) − h| at the heads h of the relation in train.
        local_rotation: |arg f′(h)| at these heads.
        local_expansion: |log |f′(h)|| at these heads.
        distortion: the standard deviation of log |f′| over these heads; 0 for every map without
            inversion and reflection.
        near_pole: the share of (head, dimension) pairs close to the pole on the sphere.
    """

    name: str
    facts: int
    classes: dict[str, float]
    expansion: Quartiles
    rotation: Quartiles
    relative_determinant: Quartiles
    translation: Quartiles
    local_rotation: Quartiles
    local_expansion: Quartiles
    distortion: Quartiles
    near_pole: float

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            key: value._asdict() if isinstance(value, Quartiles) else value
            for key, value in vars(self).items()
        }


def relation_geometry(
    run: Run, tolerance: float = 0.05, relations: Iterable[int] | None = None
) -> list[RelationGeometry]:
    """Measure the geometry of relations.

    Args:
        run: a run of a 5★E.
        tolerance: the tolerance when classifying a map.
        relations: ids of relations; by default all.

    Returns:
        One entry per relation, in the order of the ids.

    Raises:
        SettingsError: if the run is of another model.
    """
    model, graph = require_fivestar(run), run.graph
    ids = range(len(graph.relations)) if relations is None else relations
    return [_geometry(model, graph, relation, tolerance) for relation in ids]


def relation_maps(model: FiveStarE, rows: Tensor | None = None) -> Tensor:
    """Return the matrices of relations in double precision.

    Args:
        model: a 5★E.
        rows: rows (…, 8d) of the relation table; by default the whole table.

    Returns:
        The matrices (…, d, 2, 2).
    """
    table = model.relations.detach() if rows is None else rows
    return matrix(*(torch.complex(*(part.double() for part in e)) for e in model.matrix(table)))


def entity_points(model: FiveStarE, entities: Tensor) -> Tensor:
    """Return the embeddings (n, d) of entity ids (n) as complex numbers in double precision."""
    return torch.complex(*(part.double() for part in from_row(model.entities.detach()[entities])))


def transform_points(model: FiveStarE, relation: Tensor, z: Tensor) -> Tensor:
    """Transform points by relations, in whichever form the 5★E has.

    Like `FiveStarE.transform`, in double precision, exact at the pole (∞), and without the
    conjugation of the bilinear pairing.

    Args:
        model: a 5★E.
        relation: rows (…, 8d) of the relation table.
        z: complex points (…, d).

    Returns:
        The images (…, d).
    """
    if model.denominator == "mobius":
        return apply(relation_maps(model, relation), z)
    transform = apply_phase if model.denominator == "phase" else apply_affine
    return torch.complex(*transform(model.matrix(relation.double()), Complex(z.real, z.imag)))


def untrained_run(run: Run) -> Run:
    """Return the same run before its first step, as a baseline."""
    model = build_model(run.graph, run.settings)
    model.reset_parameters(torch.Generator().manual_seed(run.settings.training.seed))
    return Run(run.graph, run.settings, model)


def require_fivestar(run: Run) -> FiveStarE:
    """Return the model of a run.

    Raises:
        SettingsError: if it is not a 5★E.
    """
    if not isinstance(run.model, FiveStarE):
        raise SettingsError(
            f"this needs the maps of a 5★E, and the run is a {run.settings.model.name}; "
            "convert DistMult, ComplEx, pRotatE, RotatE and TransE with model.to_fivestar()"
        )
    return run.model


def require_mobius(run: Run) -> FiveStarE:
    """Return the model of a run.

    Raises:
        SettingsError: if it is not a 5★E whose relations are Möbius maps.
    """
    model = require_fivestar(run)
    if model.denominator != "mobius":
        raise SettingsError(
            f"with the denominator {model.denominator} a relation is no Möbius map, "
            "and its matrix says little about it; train with denominator='mobius'"
        )
    return model


def class_shares(maps: Tensor, tolerance: float) -> dict[str, float]:
    """Return the share of each class among maps (…, 2, 2)."""
    classes = classify(maps, tolerance).flatten()
    return {c.name.lower(): float((classes == int(c)).double().mean()) for c in MobiusClass}


@dataclass(frozen=True)
class SharedClasses:
    """How often the maps of two relations are of the same class, over pairs and dimensions.

    A map and its inverse are of the same class. Most maps are loxodromic, whatever the pair, so
    dimensions in which a map is of another class are counted by themselves as well.

    Attributes:
        pairs: the number of pairs of relations.
        share: the share of (pair, dimension) in which both maps are of the same class.
        exceptions: the number of (pair, dimension) in which at least one map is not loxodromic.
        exceptions_share: the share of these in which both are of the same class.
    """

    pairs: int
    share: float
    exceptions: int
    exceptions_share: float


def inverse_pair_classes(run: Run, tolerance: float = 0.05) -> dict[str, SharedClasses]:
    """Count how often inverse relations of the graph share a class, and others do.

    Args:
        run: a run of a 5★E with Möbius maps.
        tolerance: the tolerance when classifying a map.

    Returns:
        The counts of the "inverse" pairs of the graph, and as a baseline of all "other" pairs of
        the same relations.

    Raises:
        SettingsError: if the run is of another model.
    """
    model, graph = require_mobius(run), run.graph
    count = len(graph.relations)
    classes = classify(relation_maps(model)[:count], tolerance)
    rules = find_patterns(graph.facts, len(graph.entities), count).inverse
    inverse = {tuple(sorted((rule.given[0], rule.then))) for rule in rules}
    paired = sorted({relation for pair in inverse for relation in pair})
    others = [pair for pair in combinations(paired, 2) if pair not in inverse]
    return {
        "inverse": _shared_classes(classes, sorted(inverse)),
        "other": _shared_classes(classes, others),
    }


def _shared_classes(classes: Tensor, pairs: Sequence[tuple[int, ...]]) -> SharedClasses:
    if not pairs:
        return SharedClasses(0, 0.0, 0, 0.0)
    one, other = classes[torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)].unbind(dim=1)
    same = (one == other).double()
    is_exception = (one != int(MobiusClass.LOXODROMIC)) | (other != int(MobiusClass.LOXODROMIC))
    return SharedClasses(
        len(pairs), float(same.mean()), int(is_exception.sum()), float(same[is_exception].mean())
    )


def _geometry(
    model: FiveStarE, graph: KnowledgeGraph, relation: int, tolerance: float
) -> RelationGeometry:
    mask = graph.train.relations == relation
    head_ids = np.random.default_rng(relation).permutation(np.unique(graph.train.heads[mask]))
    heads = entity_points(model, torch.as_tensor(head_ids[:_MAX_HEADS].astype(np.int64)))
    maps = relation_maps(model, model.relations.detach()[relation])
    k = multiplier(maps)
    c, d = entries(maps)[2:]
    images = apply(maps, heads)
    # f′ = det/(c h + d)².
    derivative = determinant(maps) / (c * heads + d).square()
    log_scale = derivative.abs().clamp(1e-300, 1e300).log()
    near_pole = chordal_distance(heads, from_homogeneous(-d, c)) < NEAR_POLE
    return RelationGeometry(
        graph.relations.name_of(relation),
        int(mask.sum()),
        class_shares(maps, tolerance),
        expansion=_quartiles(k.abs().log()),
        rotation=_quartiles(k.angle().abs()),
        relative_determinant=_quartiles(relative_determinant(maps)),
        translation=_quartiles((images - heads).abs()),
        local_rotation=_quartiles(derivative.angle().abs()),
        local_expansion=_quartiles(log_scale.abs()),
        distortion=_quartiles(log_scale.std(dim=0) if len(heads) > 1 else log_scale[:0]),
        near_pole=float(near_pole.double().mean()) if near_pole.numel() else 0.0,
    )


def _quartiles(values: Tensor) -> Quartiles:
    finite = values[torch.isfinite(values)]
    if not finite.numel():
        return Quartiles(*(float("nan"),) * 3)
    return Quartiles(*np.quantile(finite.numpy(), [0.25, 0.5, 0.75]).tolist())
