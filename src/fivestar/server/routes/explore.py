"""Explore a model and its graph: names, triples, neighbors, explanations, geometry, maps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from fivestar.analysis.relations import require_mobius
from fivestar.errors import SettingsError
from fivestar.server import schemas
from fivestar.server.lanes import Lane
from fivestar.server.problems import Problem
from fivestar.server.responses import JsonResponse, to_json
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
    models = service.models.values()
    return {"runs": await service.lookup.run(lambda: [served.info() for served in models])}


@router.get("/entities", response_model=schemas.EntitiesResponse)
async def entities(
    service: WithService,
    served: WithModel,
    q: Annotated[
        str, Query(max_length=MAX_URL_NAME_LENGTH, description="Part of a name or label.")
    ] = "",
    limit: Top = 10,
) -> Response:
    """Search entities by name; without `q`, return those with the most triples."""
    service.check_top(limit)
    return await respond(service.lookup, served, lambda: {"entities": served.entities(q, limit)})


@router.get("/entity", response_model=schemas.EntityResponse)
async def entity(service: WithService, served: WithModel, name: Name) -> Response:
    """Return an entity with some of its triples."""
    return await respond(service.lookup, served, lambda: served.card(name))


@router.get("/relations", response_model=schemas.RelationsResponse)
async def relations(service: WithService, served: WithModel) -> Response:
    """List all relations, most frequent first."""
    return await respond(
        service.lookup, served, lambda: {"relations": served.relations()}, key="relations"
    )


@router.get("/types", response_model=schemas.TypesResponse)
async def types(service: WithService, served: WithModel) -> Response:
    """List all entity types, most frequent first."""
    return await respond(service.lookup, served, lambda: {"types": served.types()}, key="types")


@router.get("/similar", response_model=schemas.NeighborsResponse)
async def similar(service: WithService, served: WithModel, entity: Name, top: Top = 10) -> Response:
    """Return the nearest neighbors of an entity (centered cosine)."""
    service.check_top(top)
    number = await service.lookup.run(served.entity_id, entity)

    def neighbors() -> Json:
        name = served.graph.entities.name_of(number)
        return {
            "entity": named(served.graph.entities, number),
            "neighbors": [each.as_json() for each in served.model.similar(name, top)],
        }

    return await respond(service.analysis, served, neighbors)


@router.get("/explain", response_model=schemas.ExplainResponse)
async def explain(
    service: WithService,
    served: WithModel,
    head: Name,
    relation: Name,
    tail: Name,
    top: Annotated[int, Query(ge=1, le=50, description="Items per kind of evidence.")] = 5,
) -> Response:
    """Explain a triple by analogous facts, supporting paths and dimensions."""
    ids = await service.lookup.run(served.ids, head, relation, tail)

    def explanation() -> Json:
        h, r, t = (each["id"] for each in served.named_query(ids).values())
        return {"explanation": served.model.explain(h, r, t, top).as_json()}

    return await respond(service.analysis, served, explanation)


@router.get("/geometry", response_model=schemas.GeometryResponse)
async def geometry(service: WithService, served: WithModel, relation: Name) -> Response:
    """Return the Möbius map of a relation per dimension; 409 if the model has none."""
    try:
        require_mobius(served.model)
    except SettingsError as error:
        raise Problem(409, str(error), "no-geometry") from error
    return await respond(service.lookup, served, lambda: served.geometry(relation))


RUNNING: Any = {202: {"model": schemas.RunningResponse, "description": "Still being computed."}}


@router.get("/map", response_model=schemas.MapResponse, responses=RUNNING)
async def entity_map(
    service: WithService,
    served: WithModel,
    method: Literal["pca", "tsne"] = "pca",
    limit: Annotated[int, Query(ge=3, le=5000, description="Number of entities.")] = 2000,
) -> Response:
    """Project the entities with the most triples onto the plane.

    The first t-SNE takes seconds. While it is being computed, the response is 202: ask
    again.
    """
    make, key = partial(served.map, method, limit), (method, limit)
    if method == "pca":
        return await respond(service.analysis, served, make, key)
    content = await service.background.run(
        (served.serial, *key), lambda: _content(service.projection, served, make, key)
    )
    return done_or_running(served, content)


def done_or_running(served: ServedModel, content: bytes | None) -> Response:
    """Respond with the result of a computation, or with 202 while it is running."""
    if content is None:
        return JsonResponse(to_json({"run": served.name, "status": "running"}), status=202)
    return JsonResponse(content)


@router.get("/graph", response_model=schemas.StatisticsResponse)
async def graph(service: WithService, served: WithModel) -> Response:
    """Return statistics of the graph: counts, degrees, relation categories, patterns, leaks."""
    return await respond(service.analysis, served, served.statistics, key="graph")


async def respond(
    lane: Lane, served: ServedModel, make: Callable[[], Json], key: Hashable = None
) -> Response:
    """Make a response in a lane; with a key it is made once, and cached."""
    return JsonResponse(await _content(lane, served, make, key))


async def _content(
    lane: Lane, served: ServedModel, make: Callable[[], Json], key: Hashable = None
) -> bytes:
    def text() -> bytes:
        return to_json({"run": served.name, **make()})

    cached = None if key is None else served.cache.peek(key)
    if cached is None:
        work = text if key is None else partial(served.cache.get, key, text)
        cached = await lane.run(work)
    return cached
