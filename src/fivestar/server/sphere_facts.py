"""Facts of a relation in one dimension, as points for the sphere and the plane of the page."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel

from fivestar.analysis.landing import (
    Landing,
    choose_facts,
    describe_landing,
    fact_points,
    landings,
    nearest_tails,
)
from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.graph.triples import Triples
from fivestar.models.fivestar import FiveStarE, Pairing
from fivestar.prediction.explanation import TOLERANCE, terms
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.predictions import QueryIds
from fivestar.server.problems import Problem
from fivestar.server.schemas import Complex, MapClass, Named, SplitName
from fivestar.server.service import Json, ServedModel, named

# The share of entities that must have a type for a sentence to use it.
_COMMON_TYPE = 0.8
ChosenBy = Literal["request", "contribution to the answer", "landing", "mean contribution"]


class FactPoint(BaseModel):
    """A fact in one dimension: the head, its image under the map, and the point it approaches.

    `target` is the tail, conjugated for the bilinear pairing. `nearest` is the tail, of those of
    all listed facts, whose target is nearest to the image on the sphere; `lands` is whether that is
    `tail`, or the graph has it as a tail of the head. null is ∞. `split` is null if the triple is
    new.
    """

    head: Named
    tail: Named
    split: SplitName | None
    is_answer: bool
    position: Complex
    image: Complex | None
    target: Complex
    nearest: Named
    lands: bool


class RankedDimension(BaseModel):
    """A dimension, its contribution, and how many heads land nearest their own tail in it."""

    dimension: int
    map_class: MapClass
    contribution: float
    landing_count: int


class LandingCount(BaseModel):
    """How many heads land nearest their own tail; `expected` and `deviation` are of random tails.

    `is_telling`: the count of at least 5 heads exceeds that of random tails by 4 deviations.
    """

    count: int
    total: int
    expected: float
    deviation: float
    is_telling: bool


class SphereFactsResponse(BaseModel):
    """Facts of a relation in one dimension, and all dimensions by their contribution.

    `contribution` is to the score of the given triple, or without one the mean over the facts.
    `chosen_by` says why this is the dimension. `scale` is the modulus at the equator of the sphere.
    """

    run: str
    relation: Named
    pairing: Pairing
    dimension: int
    chosen_by: ChosenBy
    scale: float
    num_facts: int
    facts: list[FactPoint]
    landing: LandingCount
    sentence: str | None
    dimensions: list[RankedDimension]


def sphere_facts(
    served: ServedModel,
    relation: int,
    dimension: int | None,
    answer: tuple[int, int] | None,
    limit: int,
) -> Json:
    """Return facts of a relation as points of one dimension.

    Args:
        served: a model with Möbius maps.
        relation: id of the relation.
        dimension: the dimension; None: the one that contributes most to the answer, or without
            an answer the one in which most heads land nearest their own tail.
        answer: head and tail of the current answer, which is shown as well.
        limit: maximum number of facts.

    Raises:
        Problem: 404 if there is no such dimension, or the relation has no facts.
    """
    model = require_mobius(served.model)
    if dimension is not None and dimension >= model.dim:
        last = model.dim - 1
        raise Problem(404, f"no dimension {dimension}; choose one from 0 to {last}")
    facts = choose_facts(served.graph, relation, limit, answer)
    if not len(facts):
        raise Problem(404, "no split has facts of this relation; choose another relation")
    points = fact_points(model, facts)
    counts = landings(served.graph, facts, points)
    contributions = _contributions(model, facts if answer is None else facts.take(np.arange(1)))
    chosen_by: ChosenBy = "request"
    if dimension is None:
        dimension, chosen_by = _choose(contributions, None if answer else counts)
    return {
        "relation": named(served.graph.relations, relation),
        "pairing": model.pairing,
        "dimension": dimension,
        "chosen_by": chosen_by,
        "scale": float(points.scale[dimension]),
        "num_facts": int((served.graph.facts.relations == relation).sum()),
        "facts": _facts(
            served,
            facts,
            [each[:, dimension] for each in (points.heads, points.images, points.targets)],
            nearest_tails(facts, points)[:, dimension],
            has_answer=answer is not None,
        ),
        "landing": _landing(counts[dimension]),
        "sentence": describe_landing(
            counts[dimension], *(_common_type(served, ids) for ids in (facts.heads, facts.tails))
        ),
        "dimensions": _dimensions(model, relation, contributions, counts),
    }


def answer_of(served: ServedModel, query: QueryIds) -> tuple[int, int] | None:
    """Return head and tail of a triple; a missing one is the first answer of the model."""
    head, relation, tail = query
    if head < 0 and tail < 0:
        return None
    if head >= 0 and tail >= 0:
        return head, tail
    entity = served.graph.entities.name_of(max(head, tail))
    name = served.graph.relations.name_of(relation)
    answers = (
        served.model.predict_heads(name, entity, top=1)
        if head < 0
        else served.model.predict_tails(entity, name, top=1)
    )
    if not answers:
        return None
    best = served.graph.entities.find(answers[0].id)
    return (best, tail) if head < 0 else (head, best)


def _contributions(model: FiveStarE, facts: Triples) -> npt.NDArray[np.float64]:
    """Return the mean contribution per dimension (d) to the scores of facts."""
    parts = [terms(model, TripleIds(*row), model.dim) for row in facts.array.tolist()]
    each = [part[0] for part in parts if part is not None]
    means: npt.NDArray[np.float64] = torch.stack(each).mean(dim=0).numpy()
    return means


def _choose(
    contributions: npt.NDArray[np.float64], counts: list[Landing] | None
) -> tuple[int, ChosenBy]:
    if counts is None:
        return int(contributions.argmax()), "contribution to the answer"
    best = max(range(len(counts)), key=lambda at: counts[at].excess)
    if counts[best].is_telling:
        return best, "landing"
    return int(contributions.argmax()), "mean contribution"


def _facts(
    served: ServedModel,
    facts: Triples,
    columns: list[torch.Tensor],
    nearest: npt.NDArray[np.int64],
    *,
    has_answer: bool,
) -> list[Json]:
    entities, known = served.graph.entities, _splits(served, facts)
    rows = []
    for at, (head, relation, tail) in enumerate(facts.array.tolist()):
        position, image, target = (_pair(complex(column[at])) for column in columns)
        landed = int(nearest[at])
        is_own = landed == tail or known.get((head, relation, landed)) is not None
        rows.append(
            {
                "head": named(entities, head),
                "tail": named(entities, tail),
                "split": known.get((head, relation, tail)),
                "is_answer": has_answer and at == 0,
                "position": position,
                "image": image,
                "target": target,
                "nearest": named(entities, landed),
                "lands": is_own,
            }
        )
    return rows


def _splits(served: ServedModel, facts: Triples) -> dict[tuple[int, int, int], str]:
    """Return the first split that holds each fact of the same relation and heads."""
    splits: dict[tuple[int, int, int], str] = {}
    for name, triples in served.graph.splits.items():
        mask = (triples.relations == facts.relations[0]) & np.isin(triples.heads, facts.heads)
        for row in triples.take(mask).array.tolist():
            splits.setdefault((row[0], row[1], row[2]), name)
    return splits


def _landing(landing: Landing) -> Json:
    return {**vars(landing), "is_telling": landing.is_telling}


def _dimensions(
    model: FiveStarE,
    relation: int,
    contributions: npt.NDArray[np.float64],
    counts: list[Landing],
) -> list[Json]:
    maps = relation_maps(model, model.relations.detach()[relation])
    classes = classify(maps, TOLERANCE).tolist()
    order = np.argsort(-contributions, kind="stable").tolist()
    return [
        {
            "dimension": at,
            "map_class": MobiusClass(classes[at]).name.lower(),
            "contribution": float(contributions[at]),
            "landing_count": counts[at].count,
        }
        for at in order
    ]


def _common_type(served: ServedModel, ids: npt.NDArray[np.integer]) -> str | None:
    """Return the type of most of these entities; of several, the one with the fewest entities."""
    types = served.graph.types
    if types is None:
        return None
    distinct = np.unique(ids).tolist()
    counts = Counter(name for number in distinct for name in types.of(number))
    common = [name for name, count in counts.items() if count >= _COMMON_TYPE * len(distinct)]
    sizes = np.bincount(types.types, minlength=len(types.vocabulary))
    return min(common, key=lambda name: sizes[types.vocabulary.find(name)], default=None)


def _pair(z: complex) -> tuple[float, float] | None:
    return (z.real, z.imag) if np.isfinite(z) else None
