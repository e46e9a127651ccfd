"""Compare two served runs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fivestar.server.comparison import CompareResponse
from fivestar.server.comparison import compare as compare_served
from fivestar.server.problems import Problem
from fivestar.server.responses import to_json
from fivestar.server.routes.explore import RUNNING, WithModel, WithService, done_or_running
from fivestar.server.schemas import MAX_URL_NAME_LENGTH

router = APIRouter(prefix="/api", tags=["explore"])


@router.get("/compare", response_model=CompareResponse, responses=RUNNING)
async def compare(
    service: WithService,
    served: WithModel,
    other: Annotated[
        str,
        Query(min_length=1, max_length=MAX_URL_NAME_LENGTH, description="Name of another run."),
    ],
) -> Response:
    """Rank the same held-out facts by two runs: metrics per relation, largest disagreements.

    The first time takes seconds. While it is being computed, the response is 202: ask again.
    """
    second = service.model(other)
    if second is served:
        raise Problem(422, f"{other!r} is the run itself; choose another one to compare with")
    key = ("compare", second.name, second.serial)

    def text() -> bytes:
        return to_json({"run": served.name, **compare_served(served, second)})

    content = served.cache.peek(key)
    if content is None:
        content = await service.background.run(
            (served.serial, *key),
            lambda: service.comparison.run(partial(served.cache.get, key, text)),
        )
    return done_or_running(served, content)
