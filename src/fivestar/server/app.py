"""The application: routes, problem documents and the guard around them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fivestar.server.bodies import ProblemDocument
from fivestar.server.counters import Counters
from fivestar.server.guard import Guard, read_token
from fivestar.server.problems import MEDIA_TYPE, answer_with_problems
from fivestar.server.routes import asking, looking, operating, page
from fivestar.server.service import Service
from fivestar.server.settings import ServerSettings
from fivestar.version import __version__

# How settings come to workers, which are processes of their own.
ENVIRONMENT = "FIVESTAR_SERVER_SETTINGS"
# Answers smaller than this are not worth the time to compress them.
_COMPRESSED_FROM = 4096
_ROUTERS = (asking.router, looking.router, operating.router)
_PROBLEMS = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    404: "A name or run that is not known.",
    409: "An ambiguous name, or a model that cannot do this.",
    413: "Too much at once.",
    415: "Not JSON.",
    422: "A value that cannot be used.",
    501: "An extra of this installation is missing.",
    503: "Too much is waiting already.",
    504: "It took too long.",
}


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
        app.mount("/static", StaticFiles(directory=page.FOLDER), name="static")
    answer_with_problems(app)
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED_FROM, compresslevel=5)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    routes = [route.path for route in app.routes if isinstance(route, Route | Mount)]
    counters = Counters(routes, settings.counters)
    app.state.service = Service(settings, counters)
    _describe(app, needs_token=token is not None)
    return Guard(app, settings.limits, counters, token, settings.hosts())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    warming = asyncio.create_task(service.products.do(service.warm_up))
    yield
    warming.cancel()
    service.close()


def _describe(app: FastAPI, *, needs_token: bool) -> None:
    """Let OpenAPI tell of problem documents and of the token."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _openapi(app, needs_token=needs_token)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _openapi(app: FastAPI, *, needs_token: bool) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = found["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    if needs_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in found["paths"].items():
        for operation in methods.values():
            operation["responses"] |= {
                str(status): {"description": text, "content": content}
                for status, text in _PROBLEMS.items()
            }
            if needs_token and path not in {"/health", "/ready"}:
                operation["security"] = [{"token": []}]
    return found
