"""What a run and its graph hold: names, facts, neighbours, reasons, maps."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from fivestar.analysis.relations import require_mobius
from fivestar.errors import SettingsError
from fivestar.server import bodies
from fivestar.server.bodies import ANY_NUMBER, LONGEST_IN_ADDRESS
from fivestar.server.problems import Problem
from fivestar.server.served_run import Json, ServedRun, named
from fivestar.server.service import Service, service_of

router = APIRouter(prefix="/api", tags=["look"])
Served = Annotated[Service, Depends(service_of)]


async def _run(
    service: Served,
    run: Annotated[
        str | None,
        Query(
            max_length=LONGEST_IN_ADDRESS, description="The name of a run; the first by default."
        ),
    ] = None,
) -> ServedRun:
    return service.run(run)


OfRun = Annotated[ServedRun, Depends(_run)]
Name = Annotated[
    str,
    Query(
        min_length=1,
        max_length=LONGEST_IN_ADDRESS,
        description="An id or a label, in upper or lower case.",
    ),
]
Top = Annotated[int, Query(ge=1, le=ANY_NUMBER, description="How many, at most.")]


@router.get("/runs", response_model=bodies.Runs)
async def runs(service: Served) -> Json:
    """The runs that are served, and what can be asked of them."""
    return {"runs": [run.info() for run in service.runs.values()]}


@router.get("/entities", response_model=bodies.FoundEntities)
async def entities(
    service: Served,
    run: OfRun,
    q: Annotated[
        str, Query(max_length=LONGEST_IN_ADDRESS, description="What has been typed.")
    ] = "",
    limit: Top = 10,
) -> Json:
    """Entities that may be meant; of nothing typed, those with the most facts."""
    service.check_top(limit)
    return {"run": run.name, "entities": await service.slow.do(run.entities, q, limit)}


@router.get("/entity", response_model=bodies.EntityCard)
async def entity(service: Served, run: OfRun, name: Name) -> Json:
    """An entity with some of its facts."""
    return {"run": run.name, **await service.slow.do(run.card, name)}


@router.get("/relations", response_model=bodies.Relations)
async def relations(run: OfRun) -> Json:
    """All relations, the most frequent first."""
    return {"run": run.name, "relations": run.relations}


@router.get("/types", response_model=bodies.EntityTypes)
async def types(run: OfRun) -> Json:
    """All types of entities, the most frequent first; none if the graph has none."""
    return {"run": run.name, "types": run.types}


@router.get("/similar", response_model=bodies.Neighbours)
async def similar(service: Served, run: OfRun, entity: Name, top: Top = 10) -> Json:
    """The entities most like one."""
    service.check_top(top)
    names = run.graph.entities
    number = run.entity(entity)
    found = await service.slow.do(run.run.similar, names.name_of(number), top)
    neighbours = [each.as_json() for each in found]
    return {"run": run.name, "entity": named(names, number), "neighbours": neighbours}


@router.get("/explain", response_model=bodies.Explained)
async def explain(
    service: Served,
    run: OfRun,
    head: Name,
    relation: Name,
    tail: Name,
    top: Annotated[int, Query(ge=1, le=50, description="How many reasons of a kind.")] = 5,
) -> Json:
    """What speaks for a triple, known or not: similar facts, connecting paths, dimensions."""
    names = run.graph.entities
    ends = (names.name_of(run.entity(name)) for name in (head, tail))
    found = await service.slow.do(run.run.explain, next(ends), relation, next(ends), top)
    return {"run": run.name, "explanation": found.as_json()}


@router.get("/geometry", response_model=bodies.Geometry)
async def geometry(service: Served, run: OfRun, relation: Name) -> Json:
    """What a relation does in every dimension; 409 if its model has no Möbius maps."""
    try:
        require_mobius(run.run)
    except SettingsError as error:
        raise Problem(409, str(error), "no-geometry") from error
    return {"run": run.name, **await service.slow.do(run.geometry, relation)}


@router.get("/map", response_model=bodies.EntityMap)
async def entity_map(
    service: Served,
    run: OfRun,
    method: Literal["pca", "tsne"] = "pca",
    limit: Annotated[int, Query(ge=3, le=5000, description="How many entities, at most.")] = 2000,
) -> Json:
    """The entities with the most facts, placed in the plane; t-SNE takes a while the first time."""
    return {"run": run.name, **await service.slow.do(run.map, method, limit)}


@router.get("/graph", response_model=bodies.Statistics)
async def graph(service: Served, run: OfRun) -> Json:
    """What is in the graph: counts, degrees, kinds of relations, patterns, leaks."""
    return {"run": run.name, **await service.slow.do(lambda: run.statistics)}
