"""The application: routes, problem documents, middleware and the OpenAPI document."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from fivestar.server.hot_path import HotPath
from fivestar.server.metrics import Metrics
from fivestar.server.middleware import Guard
from fivestar.server.problems import MEDIA_TYPE, add_problem_handlers
from fivestar.server.reloading import Reloader
from fivestar.server.routes import compare, explore, extend, home, ops, page, predict, sphere
from fivestar.server.schemas import NO_LIMIT, ProblemDocument
from fivestar.server.service import Service, names_of_folders
from fivestar.server.settings import ServerSettings, read_token
from fivestar.server.tracing import Tracer
from fivestar.version import __version__

# Passes the settings to worker processes.
ENVIRONMENT = "FIVESTAR_SERVER_SETTINGS"
# Smaller responses are not compressed.
_MIN_COMPRESSED = 4096
_ROUTERS = (
    predict.router,
    explore.router,
    home.router,
    sphere.router,
    compare.router,
    extend.router,
    ops.router,
)
_PROBLEMS = {
    400: "The request cannot be parsed.",
    401: "A token is required.",
    403: "The server does not allow it.",
    404: "Unknown name or run.",
    409: "Ambiguous name, or not supported by this model.",
    413: "The request is too large, or too much work.",
    422: "Invalid value.",
    429: "This client has too many requests in the queue.",
    501: "An optional dependency is not installed.",
    503: "The queue is full.",
    504: "Timeout.",
}
_PUBLIC_PATHS = ("/health", "/ready")


def app_from_environment() -> Guard:
    """Return the application of a worker process."""
    settings = ServerSettings.model_validate_json(os.environ[ENVIRONMENT])
    return make_app(settings, on_ready=freeze_indices)


def freeze_indices() -> None:
    """Exempt everything in memory from garbage collection.

    The indices of names are millions of objects, which stay; a collection would visit all of them
    while every request waits.
    """
    gc.collect()
    gc.freeze()


def make_app(settings: ServerSettings, on_ready: Callable[[], None] | None = None) -> Guard:
    """Load the models and return the application that serves them.

    Args:
        settings: the settings.
        on_ready: called once all indices are built.

    Raises:
        SettingsError: if the settings contradict one another, or the token cannot be read.
    """
    has_token = settings.token_file is not None
    extend.check_settings(fold_in=settings.fold_in, has_token=has_token, workers=settings.workers)
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
    tracer = Tracer() if settings.trace else None
    app.state.service = service = Service(settings, metrics, on_ready, tracer)
    app.state.reloader = None
    if settings.reload_interval:
        folders = names_of_folders(settings.runs)
        app.state.reloader = Reloader(service, folders, settings.reload_interval)
    _describe(app, service, needs_token=token is not None)
    hot_path = HotPath(
        app,
        service,
        predict.router,
        partial(GZipMiddleware, minimum_size=_MIN_COMPRESSED, compresslevel=5),
        _MIN_COMPRESSED,
        has_cors=bool(settings.cors_origins),
    )
    return Guard(app, settings.limits, metrics, token, settings.hosts(), hot_path, tracer)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    tasks = [asyncio.create_task(service.scoring.run(service.warm_up))]
    if app.state.reloader is not None:
        tasks.append(asyncio.create_task(app.state.reloader.watch()))
    if service.started_folder is not None:
        (service.started_folder / str(os.getpid())).touch()
    yield
    for task in tasks:
        task.cancel()
    service.close()


def _describe(app: FastAPI, service: Service, *, needs_token: bool) -> None:
    """Make the application generate its OpenAPI document with its own limits and examples."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, service, needs_token=needs_token)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _document(app: FastAPI, service: Service, *, needs_token: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    # The document needs no token, so with one it shows nothing of the graph.
    examples = {} if needs_token else _examples(service)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["responses"] |= {
                str(status): {"description": text, "content": content}
                for status, text in _PROBLEMS.items()
            }
            if needs_token and path not in _PUBLIC_PATHS:
                operation["security"] = [{"token": []}]
            for parameter in operation.get("parameters", []):
                _specialize(parameter["name"], parameter["schema"], service, examples)
    for name, schema in schemas.items():
        if name.endswith("Request"):
            for field, value in schema["properties"].items():
                _specialize(field, value, service, examples)
    return document


def _specialize(
    name: str, schema: dict[str, Any], service: Service, examples: dict[str, Any]
) -> None:
    """Insert the limits of this server and a valid example."""
    if schema.get("maximum") == NO_LIMIT:
        schema["maximum"] = service.limits.top
    if name == "queries":
        schema["maxItems"] = service.limits.batch
    if name in examples:
        schema["examples"] = [examples[name]]


def _examples(service: Service) -> dict[str, Any]:
    """Return example values from the first triple of the first graph."""
    graph = service.model(None).graph
    h, r, t = graph.facts.array[0].tolist()
    head, tail = graph.entities.name_of(h), graph.entities.name_of(t)
    relation = graph.relations.name_of(r)
    return {
        "head": head,
        "relation": relation,
        "tail": tail,
        "entity": head,
        "name": head,
        "queries": [[head, relation, "_"], ["_", relation, tail]],
    }
