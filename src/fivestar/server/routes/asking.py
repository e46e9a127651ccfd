"""Questions with an open slot, and whole triples."""

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
from fivestar.prediction.predictions import MISSING as OPEN
from fivestar.server.bodies import (
    AnsweredBatch,
    AnsweredOne,
    AskBatch,
    AskHeads,
    AskRelations,
    AskScore,
    AskTails,
    Scored,
)
from fivestar.server.lanes import Asked
from fivestar.server.problems import Problem, problem_of
from fivestar.server.served_run import Json, ServedRun
from fivestar.server.service import Service, service_of

router = APIRouter(prefix="/api", tags=["ask"])
Served = Annotated[Service, Depends(service_of)]
Numbers = tuple[int, int, int]


@router.post("/predict/tails", response_model=AnsweredOne)
async def tails(body: AskTails, service: Served) -> Response:
    """The likeliest tails of (head, relation, ?)."""
    run = service.run(body.run)
    numbers = run.numbers(body.head, body.relation, None)
    return await _one(service, run, numbers, body.top, body.which, body.types)


@router.post("/predict/heads", response_model=AnsweredOne)
async def heads(body: AskHeads, service: Served) -> Response:
    """The likeliest heads of (?, relation, tail)."""
    run = service.run(body.run)
    numbers = run.numbers(None, body.relation, body.tail)
    return await _one(service, run, numbers, body.top, body.which, body.types)


@router.post("/predict/relations", response_model=AnsweredOne)
async def relations(body: AskRelations, service: Served) -> Response:
    """The likeliest relations of (head, ?, tail)."""
    run = service.run(body.run)
    numbers = run.numbers(body.head, None, body.tail)
    return await _one(service, run, numbers, body.top, body.which, ())


@router.post("/predict/batch", response_model=AnsweredBatch)
async def batch(body: AskBatch, service: Served) -> Response:
    """Many questions at once; if one cannot be understood, none is answered."""
    if len(body.questions) > service.limits.batch:
        raise Problem(
            413,
            f"{len(body.questions):,} questions; at most {service.limits.batch:,} at once: "
            "send several requests",
        )
    run = service.run(body.run)
    numbers = _understood(run, body.questions)
    results = await _answers(service, run, numbers, body.top, body.which, body.types)
    return _json({"run": run.name, "results": results})


@router.post("/score", response_model=Scored)
async def score(body: AskScore, service: Served) -> Response:
    """The score, probability and rank of one triple."""
    run = service.run(body.run)
    numbers = run.numbers(body.head, body.relation, body.tail)
    question = run.question(numbers)
    names = (question[slot]["id"] for slot in ("head", "relation", "tail"))
    found = asdict(await service.products.do(run.predictor.score, *names))
    told = {key: found[key] for key in ("score", "probability", "rank", "split")}
    return _json({"run": run.name, **question, **told})


def _understood(run: ServedRun, questions: Sequence[tuple[str, str, str]]) -> list[Numbers]:
    found: list[Numbers] = []
    mistakes: list[Json] = []
    for place, question in enumerate(questions):
        try:
            numbers = run.numbers(*(None if slot in OPEN else slot for slot in question))
        except (UnknownName, AmbiguousName) as error:
            problem = problem_of(error)
            mistakes.append(_mistake(place, problem.status_code, str(error), **problem.more))
            if len(mistakes) > 10:
                break
            continue
        if sum(number < 0 for number in numbers) != 1:
            detail = "exactly one of head, relation and tail must be open: _ or ?"
            mistakes.append(_mistake(place, 422, detail))
        found.append(numbers)
    if mistakes:
        first = mistakes[0]
        detail = f"question {first['question']}: {first['detail']}"
        raise Problem(first["status"], detail, errors=mistakes[:10])
    return found


def _mistake(place: int, status: int, detail: str, **more: Any) -> Json:
    return {"question": place, "status": status, "detail": detail, **more}


async def _one(
    service: Service,
    run: ServedRun,
    numbers: Numbers,
    top: int,
    which: Which,
    types: Sequence[str],
) -> Response:
    (found,) = await _answers(service, run, [numbers], top, which, types)
    return _json({"run": run.name, **found})


async def _answers(
    service: Service,
    run: ServedRun,
    numbers: list[Numbers],
    top: int,
    which: Which,
    types: Sequence[str],
) -> list[Json]:
    service.check_top(top)
    for name in types:  # a wrong one must not spoil the batch it would be answered in
        run.graph.required_types().vocabulary.find(name)
    if types and any(relation < 0 for _, relation, _ in numbers):
        raise Problem(422, "types are those of entities; a relation has none")
    asked = [Asked(each, top, which, tuple(types)) for each in numbers]
    found = await service.batchers[run.name].answer(asked)
    return [
        {
            "question": run.question(each),
            "answers": [vars(answer) for answer in answers],
            "warnings": run.predictor.unseen_warnings(np.array([each])),
        }
        for each, answers in zip(numbers, found, strict=True)
    ]


def _json(content: Json) -> Response:
    # Written here and not by way of the models of OpenAPI: that would take as long as answering.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text, media_type="application/json")
