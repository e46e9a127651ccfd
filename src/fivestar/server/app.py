"""The application: routes, problem documents and middleware."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from fivestar.server.metrics import Metrics
from fivestar.server.middleware import Guard, read_token
from fivestar.server.openapi import describe
from fivestar.server.problems import add_problem_handlers
from fivestar.server.routes import explore, ops, page, predict
from fivestar.server.service import Service
from fivestar.server.settings import ServerSettings
from fivestar.version import __version__

# Passes the settings to worker processes.
ENVIRONMENT = "FIVESTAR_SERVER_SETTINGS"
# Smaller responses are not compressed.
_MIN_COMPRESSED = 4096
_ROUTERS = (predict.router, explore.router, ops.router)


def app_from_environment() -> Guard:
    """Return the application of a worker process."""
    return make_app(ServerSettings.model_validate_json(os.environ[ENVIRONMENT]))


def make_app(settings: ServerSettings) -> Guard:
    """Load the models and return the application that serves them."""
    token = None if settings.token_file is None else read_token(settings.token_file)
    app = FastAPI(
        title="fivestar",
        version=__version__,
        description="Link prediction in knowledge graphs.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    for router in (*_ROUTERS, page.router):
        app.include_router(router)
    if page.is_built():
        app.mount("/static", page.files(), name="static")
    add_problem_handlers(app)
    app.add_middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED, compresslevel=5)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    routes = [
        route.path
        for router in (*_ROUTERS, page.router)
        for route in router.routes
        if isinstance(route, Route)
    ]
    metrics = Metrics(routes, settings.metrics_file)
    app.state.service = Service(settings, metrics)
    describe(app, app.state.service, needs_token=token is not None)
    return Guard(app, settings.limits, metrics, token, settings.hosts())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    warming = asyncio.create_task(service.scoring.run(service.warm_up))
    yield
    warming.cancel()
    service.close()
