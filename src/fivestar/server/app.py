"""The application: routes, problem documents and the guard around them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from fivestar.server.counters import Counters
from fivestar.server.describing import describe
from fivestar.server.guard import Guard, read_token
from fivestar.server.problems import answer_with_problems
from fivestar.server.routes import asking, looking, operating, page
from fivestar.server.service import Service
from fivestar.server.settings import ServerSettings
from fivestar.version import __version__

# How settings come to workers, which are processes of their own.
ENVIRONMENT = "FIVESTAR_SERVER_SETTINGS"
# Answers smaller than this are not worth the time to compress them.
_COMPRESSED_FROM = 4096
_ROUTERS = (asking.router, looking.router, operating.router)


def app_from_environment() -> Guard:
    """The application of a worker."""
    return make_app(ServerSettings.model_validate_json(os.environ[ENVIRONMENT]))


def make_app(settings: ServerSettings) -> Guard:
    """The application for some runs, which are loaded now."""
    token = None if settings.token_file is None else read_token(settings.token_file)
    app = FastAPI(
        title="fivestar",
        version=__version__,
        description="Missing links of knowledge graphs.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    for router in (*_ROUTERS, page.router):
        app.include_router(router)
    if page.is_built():
        app.mount("/static", page.files(), name="static")
    answer_with_problems(app)
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED_FROM, compresslevel=5)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    every = (route for router in (*_ROUTERS, page.router) for route in router.routes)
    routes = [route.path for route in every if isinstance(route, Route)]
    counters = Counters(routes, settings.counters)
    app.state.service = Service(settings, counters)
    describe(app, app.state.service, needs_token=token is not None)
    return Guard(app, settings.limits, counters, token, settings.hosts())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    warming = asyncio.create_task(service.products.do(service.warm_up))
    yield
    warming.cancel()
    service.close()
