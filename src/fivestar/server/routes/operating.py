"""How the server is: for whoever runs it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse

from fivestar.server.bodies import Status
from fivestar.server.problems import Problem
from fivestar.server.service import Service, service_of

router = APIRouter(tags=["operate"])
Served = Annotated[Service, Depends(service_of)]


@router.get("/health", response_model=Status)
async def health() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/ready", response_model=Status)
async def ready(service: Served) -> dict[str, str]:
    """Everything is loaded, so questions are answered at once."""
    if not service.is_ready:
        raise Problem(503, "still warming up; try again in a moment", headers={"Retry-After": "1"})
    return {"status": "ready"}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Served) -> PlainTextResponse:
    """Counters for Prometheus, of all workers together."""
    return PlainTextResponse(
        service.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )
