"""The OpenAPI document: with problem documents, the limits of this server, and valid examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fivestar.server.problems import MEDIA_TYPE
from fivestar.server.schemas import NO_LIMIT, ProblemDocument
from fivestar.server.service import Service

_PROBLEMS = {
    400: "The request cannot be parsed.",
    401: "A token is required.",
    404: "Unknown name or run.",
    409: "Ambiguous name, or not supported by this model.",
    413: "The request is too large.",
    422: "Invalid value.",
    501: "An optional dependency is not installed.",
    503: "The queue is full.",
    504: "Timeout.",
}
_PUBLIC_PATHS = ("/health", "/ready")


def describe(app: FastAPI, service: Service, *, needs_token: bool) -> None:
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
    examples = _examples(service)
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
