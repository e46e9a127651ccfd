"""What each relation of a 5★E does: kinds of maps, how they turn and stretch, their poles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.complex_pairs import from_row
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
from fivestar.models.fivestar import FiveStarE
from fivestar.runs.run import Run, build_model

# Heads of a relation that are looked at, at most.
_HEADS = 500
# Entities this near to a pole, on the sphere, are thrown about by a small change of the map.
NEAR_A_POLE = 0.05


class Spread(NamedTuple):
    """The quartiles of a figure over dimensions."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class RelationGeometry:
    """What one relation does, over all dimensions.

    `kinds`: the share of dimensions of each kind. `expansion` is log |k| and `rotation` |arg k| of
    the multiplier k. `steadiness` is 2|det|/‖m‖²: 1 for a rotation of the sphere, 0 for a constant.
    The rest is measured where the relation is used, at its heads in train: `translation` is
    |f(h) − h|, `turn` |arg f′(h)|, `stretch` |log |f′(h)||; `bend`, the standard deviation of
    log |f′| over heads, is 0 for every map without inversion (and reflection), wherever it goes.
    `near_a_pole` is the share of (head, dimension) pairs close to the pole on the sphere.
    """

    name: str
    facts: int
    kinds: dict[str, float]
    expansion: Spread
    rotation: Spread
    steadiness: Spread
    translation: Spread
    turn: Spread
    stretch: Spread
    bend: Spread
    near_a_pole: float

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            key: value._asdict() if isinstance(value, Spread) else value
            for key, value in vars(self).items()
        }


def of_the_map(run: Run) -> bool:
    """Whether figures of the matrices are figures of what the relations do."""
    return bool(run.settings.model.options["denominator"] == "mobius")


def matrices(model: FiveStarE, rows: Tensor | None = None) -> Tensor:
    """The maps (relations, dimensions, 2, 2) of rows of the relation table, in double precision."""
    table = model.relations.detach() if rows is None else rows
    return matrix(*(torch.complex(*(part.double() for part in e)) for e in model.matrix(table)))


def points(model: FiveStarE, entities: Tensor) -> Tensor:
    """The points (entities, dimensions) of ids, in double precision."""
    return torch.complex(*(part.double() for part in from_row(model.entities.detach()[entities])))


def relation_geometry(
    run: Run, tolerance: float = 0.05, relations: Iterable[int] | None = None
) -> list[RelationGeometry]:
    """What the relations of a run do, or some of them by id."""
    model, graph = fivestar_of(run), run.graph
    chosen = range(len(graph.relations)) if relations is None else relations
    return [_geometry(model, graph, number, tolerance) for number in chosen]


def untrained(run: Run) -> Run:
    """The same run before its first step: what figures mean nothing."""
    model = build_model(run.graph, run.settings)
    model.reset_parameters(torch.Generator().manual_seed(run.settings.training.seed))
    return Run(run.graph, run.settings, model)


def fivestar_of(run: Run) -> FiveStarE:
    """The model of a run, if it is a 5★E."""
    if not isinstance(run.model, FiveStarE):
        raise SettingsError(
            f"this looks at the maps of a 5★E, and the run is a {run.settings.model.name}; "
            "DistMult, ComplEx, pRotatE, RotatE and TransE become one with fivestar convert"
        )
    return run.model


def mobius_of(run: Run) -> FiveStarE:
    """The model of a run whose relations are Möbius maps; what draws or compares maps needs it."""
    model = fivestar_of(run)
    if not of_the_map(run):
        raise SettingsError(
            f"with the denominator {model.denominator} a relation is no Möbius map, "
            "and its matrix says little of what it does; train with denominator mobius"
        )
    return model


def kind_shares(maps: Tensor, tolerance: float) -> dict[str, float]:
    """The share of each kind among maps."""
    kinds = classify(maps, tolerance).flatten()
    return {k.name.lower(): float((kinds == int(k)).double().mean()) for k in MobiusClass}


def _geometry(
    model: FiveStarE, graph: KnowledgeGraph, number: int, tolerance: float
) -> RelationGeometry:
    is_here = graph.train.relations == number
    some = np.random.default_rng(number).permutation(np.unique(graph.train.heads[is_here]))
    heads = points(model, torch.as_tensor(some[:_HEADS].astype(np.int64)))
    maps = matrices(model, model.relations.detach()[number])
    k = multiplier(maps)
    c, d = entries(maps)[2:]
    moved = apply(maps, heads)
    # f′ = det/(c h + d)².
    slope = determinant(maps) / (c * heads + d).square()
    log_stretch = slope.abs().clamp(1e-300, 1e300).log()
    near = chordal_distance(heads, from_homogeneous(-d, c)) < NEAR_A_POLE
    return RelationGeometry(
        graph.relations.name_of(number),
        int(is_here.sum()),
        kind_shares(maps, tolerance),
        expansion=_spread(k.abs().log()),
        rotation=_spread(k.angle().abs()),
        steadiness=_spread(relative_determinant(maps)),
        translation=_spread((moved - heads).abs()),
        turn=_spread(slope.angle().abs()),
        stretch=_spread(log_stretch.abs()),
        bend=_spread(log_stretch.std(dim=0) if len(heads) > 1 else log_stretch[:0]),
        near_a_pole=float(near.double().mean()) if near.numel() else 0.0,
    )


def _spread(values: Tensor) -> Spread:
    finite = values[torch.isfinite(values)]
    if not finite.numel():
        return Spread(*(float("nan"),) * 3)
    return Spread(*np.quantile(finite.numpy(), [0.25, 0.5, 0.75]).tolist())
