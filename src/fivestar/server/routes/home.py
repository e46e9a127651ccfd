"""What the page shows first: facts that the graph is probably missing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fivestar.server import schemas
from fivestar.server.probable_facts import FACTS_PER_RELATION, facts_json
from fivestar.server.routes.explore import WithModel, WithService, respond
from fivestar.server.schemas import MAX_URL_NAME_LENGTH

router = APIRouter(prefix="/api", tags=["explore"])


@router.get("/probable-facts", response_model=schemas.ProbableFactsResponse)
async def probable_facts(
    service: WithService,
    served: WithModel,
    relation: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MAX_URL_NAME_LENGTH,
            description="Only facts of this relation; name or label, ignoring case.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=FACTS_PER_RELATION, description="Number of facts.")] = 5,
) -> Response:
    """Return the most probable new facts; the first request starts the search for them.

    While the search is running, `status` is "running" and `progress` the share that is done.
    """
    number = None
    if relation is not None:
        number = await service.lookup.run(served.relation_id, relation)
    search = await service.probable_facts.of(served)
    return await respond(service.lookup, served, lambda: facts_json(served, search, number, limit))
