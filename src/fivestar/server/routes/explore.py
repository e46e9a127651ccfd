"""Explore a model and its graph: names, triples, neighbors, explanations, geometry, maps."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from fivestar.analysis.relations import require_mobius
from fivestar.errors import SettingsError
from fivestar.server import schemas
from fivestar.server.problems import Problem
from fivestar.server.schemas import MAX_URL_NAME_LENGTH, NO_LIMIT
from fivestar.server.service import Json, ServedModel, Service, named, service_of

router = APIRouter(prefix="/api", tags=["explore"])
WithService = Annotated[Service, Depends(service_of)]


async def _model(
    service: WithService,
    run: Annotated[
        str | None,
        Query(max_length=MAX_URL_NAME_LENGTH, description="Name of a run; by default the first."),
    ] = None,
) -> ServedModel:
    return service.model(run)


WithModel = Annotated[ServedModel, Depends(_model)]
Name = Annotated[
    str,
    Query(
        min_length=1, max_length=MAX_URL_NAME_LENGTH, description="Name or label, ignoring case."
    ),
]
Top = Annotated[int, Query(ge=1, le=NO_LIMIT, description="Number of results.")]


@router.get("/runs", response_model=schemas.RunsResponse)
async def runs(service: WithService) -> Json:
    """List the served runs and their capabilities."""
    return {"runs": [served.info() for served in service.models.values()]}


@router.get("/entities", response_model=schemas.EntitiesResponse)
async def entities(
    service: WithService,
    served: WithModel,
    q: Annotated[
        str, Query(max_length=MAX_URL_NAME_LENGTH, description="Part of a name or label.")
    ] = "",
    limit: Top = 10,
) -> Json:
    """Search entities by name; without `q`, return those with the most triples."""
    service.check_top(limit)
    return {"run": served.name, "entities": await service.slow.run(served.entities, q, limit)}


@router.get("/entity", response_model=schemas.EntityResponse)
async def entity(service: WithService, served: WithModel, name: Name) -> Json:
    """Return an entity with some of its triples."""
    return {"run": served.name, **await service.slow.run(served.card, name)}


@router.get("/relations", response_model=schemas.RelationsResponse)
async def relations(served: WithModel) -> Json:
    """List all relations, most frequent first."""
    return {"run": served.name, "relations": served.relations}


@router.get("/types", response_model=schemas.TypesResponse)
async def types(served: WithModel) -> Json:
    """List all entity types, most frequent first."""
    return {"run": served.name, "types": served.types}


@router.get("/similar", response_model=schemas.NeighborsResponse)
async def similar(service: WithService, served: WithModel, entity: Name, top: Top = 10) -> Json:
    """Return the nearest neighbors of an entity (centered cosine)."""
    service.check_top(top)
    names = served.graph.entities
    number = served.entity_id(entity)
    neighbors = await service.slow.run(served.model.similar, names.name_of(number), top)
    return {
        "run": served.name,
        "entity": named(names, number),
        "neighbors": [neighbor.as_json() for neighbor in neighbors],
    }


@router.get("/explain", response_model=schemas.ExplainResponse)
async def explain(
    service: WithService,
    served: WithModel,
    head: Name,
    relation: Name,
    tail: Name,
    top: Annotated[int, Query(ge=1, le=50, description="Items per kind of evidence.")] = 5,
) -> Json:
    """Explain a triple by analogous facts, supporting paths and dimensions."""
    names = served.graph.entities
    ends = [names.name_of(served.entity_id(name)) for name in (head, tail)]
    explanation = await service.slow.run(served.model.explain, ends[0], relation, ends[1], top)
    return {"run": served.name, "explanation": explanation.as_json()}


@router.get("/geometry", response_model=schemas.GeometryResponse)
async def geometry(service: WithService, served: WithModel, relation: Name) -> Json:
    """Return the Möbius map of a relation per dimension; 409 if the model has none."""
    try:
        require_mobius(served.model)
    except SettingsError as error:
        raise Problem(409, str(error), "no-geometry") from error
    return {"run": served.name, **await service.slow.run(served.geometry, relation)}


@router.get("/map", response_model=schemas.MapResponse)
async def entity_map(
    service: WithService,
    served: WithModel,
    method: Literal["pca", "tsne"] = "pca",
    limit: Annotated[int, Query(ge=3, le=5000, description="Number of entities.")] = 2000,
) -> Json:
    """Project the entities with the most triples onto the plane; the first t-SNE is slow."""
    return {"run": served.name, **await service.slow.run(served.map, method, limit)}


@router.get("/graph", response_model=schemas.StatisticsResponse)
async def graph(service: WithService, served: WithModel) -> Json:
    """Return statistics of the graph: counts, degrees, relation categories, patterns, leaks."""
    return {"run": served.name, **await service.slow.run(lambda: served.statistics)}
