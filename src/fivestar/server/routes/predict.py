"""Link prediction: queries with one missing slot, and scores of whole triples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends
from starlette.responses import Response

from fivestar.errors import AmbiguousName, UnknownName
from fivestar.evaluation.topk import Which
from fivestar.prediction.predictions import MISSING, QueryIds
from fivestar.server import schemas
from fivestar.server.batching import BatchedQuery
from fivestar.server.problems import Problem, problem_of
from fivestar.server.service import Json, ServedModel, Service, service_of

router = APIRouter(prefix="/api", tags=["predict"])
WithService = Annotated[Service, Depends(service_of)]
_MAX_ERRORS = 10


@router.post("/predict/tails", response_model=schemas.PredictResponse)
async def tails(body: schemas.PredictTailsRequest, service: WithService) -> Response:
    """Predict the tails of (head, relation, ?)."""
    served = service.model(body.run)
    ids = served.ids(body.head, body.relation, None)
    return await _predict_one(service, served, ids, body.top, body.which, body.types)


@router.post("/predict/heads", response_model=schemas.PredictResponse)
async def heads(body: schemas.PredictHeadsRequest, service: WithService) -> Response:
    """Predict the heads of (?, relation, tail)."""
    served = service.model(body.run)
    ids = served.ids(None, body.relation, body.tail)
    return await _predict_one(service, served, ids, body.top, body.which, body.types)


@router.post("/predict/relations", response_model=schemas.PredictResponse)
async def relations(body: schemas.PredictRelationsRequest, service: WithService) -> Response:
    """Predict the relations of (head, ?, tail)."""
    served = service.model(body.run)
    ids = served.ids(body.head, None, body.tail)
    return await _predict_one(service, served, ids, body.top, body.which, ())


@router.post("/predict/batch", response_model=schemas.PredictBatchResponse)
async def batch(body: schemas.PredictBatchRequest, service: WithService) -> Response:
    """Answer many queries at once; if one is invalid, none is answered."""
    if len(body.queries) > service.limits.batch:
        raise Problem(
            413,
            f"{len(body.queries):,} queries; at most {service.limits.batch:,} at once: "
            "send several requests",
        )
    served = service.model(body.run)
    ids = _resolve(served, body.queries)
    results = await _predict(service, served, ids, body.top, body.which, body.types)
    return _json({"run": served.name, "results": results})


@router.post("/score", response_model=schemas.ScoreResponse)
async def score(body: schemas.ScoreRequest, service: WithService) -> Response:
    """Return score, probability, rank and split of one triple."""
    served = service.model(body.run)
    triple = served.named_query(served.ids(body.head, body.relation, body.tail))
    names = (triple[slot]["id"] for slot in ("head", "relation", "tail"))
    scored = asdict(await service.scoring.run(served.model.score, *names))
    fields = {key: scored[key] for key in ("score", "probability", "rank", "split")}
    return _json({"run": served.name, **triple, **fields})


def _resolve(served: ServedModel, queries: Sequence[tuple[str, str, str]]) -> list[QueryIds]:
    """Return the ids of all queries, or raise one problem that lists the invalid ones."""
    resolved: list[QueryIds] = []
    errors: list[Json] = []
    for row, query in enumerate(queries):
        try:
            ids = served.ids(*(None if slot in MISSING else slot for slot in query))
        except (UnknownName, AmbiguousName) as error:
            problem = problem_of(error)
            errors.append(_query_error(row, problem.status_code, str(error), **problem.more))
            if len(errors) > _MAX_ERRORS:
                break
            continue
        if sum(each < 0 for each in ids) != 1:
            detail = "exactly one of head, relation and tail must be missing: _ or ?"
            errors.append(_query_error(row, 422, detail))
        resolved.append(ids)
    if errors:
        first = errors[0]
        detail = f"query {first['query']}: {first['detail']}"
        raise Problem(first["status"], detail, errors=errors[:_MAX_ERRORS])
    return resolved


def _query_error(row: int, status: int, detail: str, **more: Any) -> Json:
    return {"query": row, "status": status, "detail": detail, **more}


async def _predict_one(
    service: Service,
    served: ServedModel,
    ids: QueryIds,
    top: int,
    which: Which,
    types: Sequence[str],
) -> Response:
    (result,) = await _predict(service, served, [ids], top, which, types)
    return _json({"run": served.name, **result})


async def _predict(
    service: Service,
    served: ServedModel,
    queries: list[QueryIds],
    top: int,
    which: Which,
    types: Sequence[str],
) -> list[Json]:
    service.check_top(top)
    for name in types:  # before batching: an error would fail the whole batch
        served.graph.required_types().vocabulary.find(name)
    if types and any(relation < 0 for _, relation, _ in queries):
        raise Problem(422, "types restrict entities; a relation has none")
    batched = [BatchedQuery(ids, top, which, tuple(types)) for ids in queries]
    results = await service.batchers[served.name].predict(batched)
    return [
        {
            "query": served.named_query(ids),
            "answers": [vars(answer) for answer in answers],
            "warnings": served.model.unseen_warnings(np.array([ids])),
        }
        for ids, answers in zip(queries, results, strict=True)
    ]


def _json(content: Json) -> Response:
    # Validating through the response models would take as long as scoring.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text, media_type="application/json")
