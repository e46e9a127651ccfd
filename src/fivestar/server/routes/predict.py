"""Link prediction: queries with one missing slot, and scores of whole triples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from fivestar.cancellation import cancel_when
from fivestar.errors import AmbiguousName, UnknownName
from fivestar.evaluation.topk import Which
from fivestar.prediction.predictions import MISSING, QueryIds
from fivestar.server import schemas
from fivestar.server.batching import BatchedQuery
from fivestar.server.problems import Problem, problem_of
from fivestar.server.responses import JsonResponse, encoded, to_json
from fivestar.server.service import Json, Names, ServedModel, Service, service_of

router = APIRouter(prefix="/api", tags=["predict"])
WithService = Annotated[Service, Depends(service_of)]
_MAX_ERRORS = 10
# Of all suggestions to one batch.
_SUGGESTION_SECONDS = 0.5


@router.post("/predict/tails", response_model=schemas.PredictResponse)
async def tails(body: schemas.PredictTailsRequest, service: WithService) -> Response:
    """Predict the tails of (head, relation, ?)."""
    names = (body.head, body.relation, None)
    return await _predict_one(service, body, names, body.types)


@router.post("/predict/heads", response_model=schemas.PredictResponse)
async def heads(body: schemas.PredictHeadsRequest, service: WithService) -> Response:
    """Predict the heads of (?, relation, tail)."""
    names = (None, body.relation, body.tail)
    return await _predict_one(service, body, names, body.types)


@router.post("/predict/relations", response_model=schemas.PredictResponse)
async def relations(body: schemas.PredictRelationsRequest, service: WithService) -> Response:
    """Predict the relations of (head, ?, tail)."""
    return await _predict_one(service, body, (body.head, None, body.tail), ())


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
    names = [_open_slot(query) for query in body.queries]
    ids = [served.known_ids(each) for each in names]
    if not all(each is not None and each.count(-1) == 1 for each in ids):
        ids = [*await service.lookup.run(_resolve, served, names)]
    results = await _predict(service, served, ids, body, body.types)  # type: ignore[arg-type]
    pieces = [piece for result in results for piece in (b", ", result)][1:]
    return JsonResponse(b'{"run": ', encoded(served.name), b', "results": [', *pieces, b"]}")


@router.post("/score", response_model=schemas.ScoreResponse)
async def score(body: schemas.ScoreRequest, service: WithService) -> Response:
    """Return score, probability, rank and state of one triple."""
    served = service.model(body.run)
    triple = served.named_query(await _ids(service, served, (body.head, body.relation, body.tail)))
    names = (triple[slot]["id"] for slot in ("head", "relation", "tail"))
    scored = asdict(await service.scoring.run(served.model.score, *names))
    fields = {key: scored[key] for key in ("score", "probability", "rank", "split", "state")}
    return JsonResponse(to_json({"run": served.name, **triple, **fields}))


async def _ids(service: Service, served: ServedModel, names: Names) -> QueryIds:
    ids = served.known_ids(names)
    return await service.lookup.run(served.ids, *names) if ids is None else ids


def _open_slot(query: Sequence[str]) -> Names:
    head, relation, tail = (None if slot in MISSING else slot for slot in query)
    return head, relation, tail


def _resolve(served: ServedModel, queries: Sequence[Names]) -> list[QueryIds]:
    """Return the ids of all queries, or raise one problem that lists the invalid ones."""
    resolved: list[QueryIds] = []
    errors: list[Json] = []
    end = time.monotonic() + _SUGGESTION_SECONDS
    for row, query in enumerate(queries):
        try:
            with cancel_when(lambda: time.monotonic() > end):
                ids = served.ids(*query)
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
    service: Service, body: schemas.PredictRequest, names: Names, types: Sequence[str]
) -> Response:
    served = service.model(body.run)
    ids = await _ids(service, served, names)
    (result,) = await _predict(service, served, [ids], body, types)
    return JsonResponse(b'{"run": ', encoded(served.name), b", ", result[1:])


async def _predict(
    service: Service,
    served: ServedModel,
    queries: list[QueryIds],
    body: schemas.PredictRequest,
    types: Sequence[str],
) -> list[bytes]:
    service.check_top(body.top)
    which: Which = body.which
    if types:  # before batching: an error would fail the whole batch
        await service.lookup.run(served.check_types, types)
        if any(relation < 0 for _, relation, _ in queries):
            raise Problem(422, "types restrict entities; a relation has none")
    batched = [BatchedQuery(ids, body.top, which, tuple(types)) for ids in queries]
    return await service.predict(served, batched)
