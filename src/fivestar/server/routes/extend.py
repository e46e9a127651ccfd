"""Extend what is served: new entities from facts, and new facts of whole relations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response, StreamingResponse

from fivestar.cancellation import check_cancelled
from fivestar.errors import SettingsError
from fivestar.prediction.completion import NO_TRIPLES, Completer, Goal, NewTriples, Slots
from fivestar.prediction.fold_in import fold_in, possible_misspellings
from fivestar.prediction.trained_model import TrainedModel
from fivestar.server import schemas
from fivestar.server.problems import Problem
from fivestar.server.responses import JsonResponse, to_json
from fivestar.server.routes.explore import Name, WithModel
from fivestar.server.service import ServedModel, Service, named, service_of

router = APIRouter(prefix="/api", tags=["extend"])
WithService = Annotated[Service, Depends(service_of)]
NDJSON = "application/x-ndjson"
# Each fact is a query per epoch and side, and its gradient takes as long again.
_FIT_FACTOR = 6


@router.post("/fold-in", response_model=schemas.FoldInResponse)
async def add_entities(body: schemas.FoldInRequest, service: WithService) -> Response:
    """Add new entities from facts about them; 403 unless the server allows it.

    They live in the memory of the server until it stops or reloads the run.
    """
    if not service.can_fold_in:
        detail = "this server does not add entities; its operator can allow it: --allow-fold-in"
        raise Problem(403, detail, "not-allowed")
    served = service.model(body.run)
    _check_work(service, served, len(body.facts) * body.epochs * _FIT_FACTOR)
    extended, new, warnings = await service.maintenance.run(_fold_in, service, served, body)
    service.replace(extended)
    service.metrics.count_folded_in(len(new))
    return JsonResponse(to_json({"run": served.name, "entities": new, "warnings": warnings}))


def _fold_in(
    service: Service, served: ServedModel, body: schemas.FoldInRequest
) -> tuple[ServedModel, list[dict[str, Any]], list[str]]:
    # The one that is served now: others may have added entities while this request waited.
    before = service.model(served.name)
    folded = fold_in(before.model, body.facts, body.epochs, progress=lambda *_: check_cancelled())
    count = before.num_folded_in + len(folded.new)
    if count > service.limits.folded_in:
        raise Problem(
            413,
            f"{count:,} added entities; at most {service.limits.folded_in:,} per run: train it "
            "again with them",
        )
    extended = ServedModel(
        before.name, TrainedModel.of(folded.run), before.version, service.limits, count
    )
    check_cancelled()
    extended.warm_up()
    similar = possible_misspellings(folded.new, before.graph.entities)
    warnings = [
        f"{name!r} is a new entity; did you mean {' or '.join(map(repr, near))}?"
        for name, near in similar.items()
    ]
    entities = extended.graph.entities
    return extended, [named(entities, entities.id_of(name)) for name in folded.new], warnings


@router.get(
    "/complete",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def complete(
    service: WithService,
    served: WithModel,
    relation: Annotated[list[Name], Query(min_length=1, max_length=100)],
    top: Annotated[
        int, Query(ge=1, le=schemas.NO_LIMIT, description="Triples per relation.")
    ] = 100,
    threshold: Annotated[
        float, Query(ge=0, le=1, description="Least calibrated probability.")
    ] = 0.0,
    slots: Slots = "seen",
) -> Response:
    """Stream probable new triples, relation by relation, as lines of JSON.

    Each line is a triple with its probability; the last one has the number of triples, without
    which the response is incomplete.
    """
    service.check_top(top)
    if threshold and served.model.calibration is None:
        detail = "this run has no calibrated probabilities to compare a threshold with; omit it"
        raise Problem(409, detail, "not-calibrated")
    goal = Goal(top=top, slots=slots)
    numbers = [await service.lookup.run(served.relation_id, name) for name in relation]
    completer = await service.completion.run(Completer, served.model, goal)
    queries = sum([await service.completion.run(completer.num_queries, n) for n in numbers])
    _check_work(service, served, queries)
    # The first relation before the response begins: an error is a problem document then.
    first = await _new_triples(service, completer, numbers[0])
    lines = _stream(service, served, completer, numbers, first, threshold)
    # Compressed, lines would wait for one another.
    return StreamingResponse(lines, media_type=NDJSON, headers={"Content-Encoding": "identity"})


async def _new_triples(service: Service, completer: Completer, relation: int) -> NewTriples:
    return await service.completion.run(
        completer.complete_relation, relation, NO_TRIPLES, lambda _: check_cancelled()
    )


async def _stream(
    service: Service,
    served: ServedModel,
    completer: Completer,
    relations: list[int],
    first: NewTriples,
    threshold: float,
) -> AsyncIterator[bytes]:
    count, is_truncated = 0, False
    for position, relation in enumerate(relations):
        new = first if position == 0 else await _new_triples(service, completer, relation)
        if threshold:
            new = new.best(Goal(threshold))
        room = service.limits.answers - count
        is_truncated = is_truncated or len(new) > room
        text = await service.completion.run(_lines, served, new, room)
        count += min(len(new), room)
        yield text
    end = {"count": count, "is_complete": not is_truncated}
    yield orjson.dumps(end, option=orjson.OPT_APPEND_NEWLINE)


def _lines(served: ServedModel, new: NewTriples, most: int) -> bytes:
    is_calibrated = served.model.calibration is not None
    rows = new.triples.array[:most].tolist()
    lines = []
    for ids, probability in zip(rows, new.probabilities.tolist(), strict=False):
        check_cancelled()
        line = served.named_query(ids) | {"probability": probability if is_calibrated else None}
        lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


def _check_work(service: Service, served: ServedModel, queries: int) -> None:
    """Refuse what takes too long for one request.

    Raises:
        Problem: 413.
    """
    work = queries * max(served.cost.tail, served.cost.head)
    if work > service.limits.work:
        raise Problem(
            413,
            f"an estimated {work:.1e} multiply-adds; at most {service.limits.work:.1e} at once: "
            "request less",
        )


def check_settings(*, fold_in: bool, has_token: bool, workers: int) -> None:
    """Refuse to add entities without a token, or in one of several processes.

    Raises:
        SettingsError: the settings do not allow it.
    """
    if fold_in and not has_token:
        raise SettingsError("fold_in: requests that add entities need a token; give token_file")
    if fold_in and workers > 1:
        raise SettingsError(
            "fold_in: new entities live in the memory of one process, and other workers would not "
            "know them; use workers=1"
        )
