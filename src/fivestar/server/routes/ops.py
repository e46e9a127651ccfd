"""Health, readiness and metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse

from fivestar.server.problems import Problem
from fivestar.server.schemas import Status
from fivestar.server.service import Service, service_of

router = APIRouter(tags=["ops"])
WithService = Annotated[Service, Depends(service_of)]


@router.get("/health", response_model=Status)
async def health() -> dict[str, str]:
    """Return 200 if the process is running."""
    return {"status": "ok"}


@router.get("/ready", response_model=Status)
async def ready(service: WithService) -> dict[str, str]:
    """Return 200 once all models are loaded and warm, 503 before."""
    if not service.is_ready:
        raise Problem(503, "still warming up; try again in a moment", headers={"Retry-After": "1"})
    return {"status": "ready"}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: WithService) -> PlainTextResponse:
    """Return Prometheus metrics of all workers."""
    return PlainTextResponse(
        service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )
