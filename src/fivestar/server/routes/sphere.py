"""Facts of a relation on the Riemann sphere."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fivestar.analysis.relations import require_mobius
from fivestar.errors import SettingsError
from fivestar.server.problems import Problem
from fivestar.server.responses import JsonResponse, to_json
from fivestar.server.routes.explore import Name, WithModel, WithService
from fivestar.server.schemas import MAX_URL_NAME_LENGTH, NO_LIMIT
from fivestar.server.sphere_facts import SphereFactsResponse, answer_of, sphere_facts

router = APIRouter(prefix="/api", tags=["explore"])
OptionalName = Annotated[str | None, Query(min_length=1, max_length=MAX_URL_NAME_LENGTH)]


@router.get("/sphere", response_model=SphereFactsResponse)
async def sphere(
    service: WithService,
    served: WithModel,
    relation: Name,
    dimension: Annotated[
        int | None, Query(ge=0, lt=NO_LIMIT, description="By default the most telling one.")
    ] = None,
    head: OptionalName = None,
    tail: OptionalName = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Number of facts.")] = 24,
) -> Response:
    """Return facts of a relation as points of one dimension; 409 if the model has no maps.

    With `head` or `tail`, their triple comes first, and dimensions are ordered by their
    contribution to its score. If one is missing, it is the first answer of the model.
    """
    try:
        require_mobius(served.model)
    except SettingsError as error:
        raise Problem(409, str(error), "no-geometry") from error
    ids = await service.lookup.run(served.ids, head, relation, tail)

    def facts() -> bytes:
        answer = answer_of(served, ids)
        return to_json(
            {"run": served.name, **sphere_facts(served, ids[1], dimension, answer, limit)}
        )

    return JsonResponse(await service.analysis.run(facts))
