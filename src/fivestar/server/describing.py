"""The OpenAPI document: with problem documents, the limits of this server, and names it knows."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fivestar.server.bodies import ANY_NUMBER, ProblemDocument
from fivestar.server.problems import MEDIA_TYPE
from fivestar.server.service import Service

_PROBLEMS = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    404: "A name or run that is not known.",
    409: "An ambiguous name, or a model that cannot do this.",
    413: "Too much at once.",
    422: "A value that cannot be used.",
    501: "An extra of this installation is missing.",
    503: "Too much is waiting already.",
    504: "It took too long.",
}
_FREE = ("/health", "/ready")


def describe(app: FastAPI, service: Service, *, needs_token: bool) -> None:
    """Let the application describe itself as it is set up."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, service, needs_token=needs_token)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _document(app: FastAPI, service: Service, *, needs_token: bool) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = found["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    if needs_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    examples = _examples(service)
    for path, methods in found["paths"].items():
        for operation in methods.values():
            operation["responses"] |= {
                str(status): {"description": text, "content": content}
                for status, text in _PROBLEMS.items()
            }
            if needs_token and path not in _FREE:
                operation["security"] = [{"token": []}]
            for parameter in operation.get("parameters", []):
                _fit(parameter["name"], parameter["schema"], service, examples)
    for name, schema in schemas.items():
        if name.startswith("Ask"):
            for field, value in schema["properties"].items():
                _fit(field, value, service, examples)
    return found


def _fit(name: str, schema: dict[str, Any], service: Service, examples: dict[str, Any]) -> None:
    """Tell the limits of this server, and an example that it can answer."""
    if schema.get("maximum") == ANY_NUMBER:
        schema["maximum"] = service.limits.top
    if name == "questions":
        schema["maxItems"] = service.limits.batch
    if name in examples:
        schema["examples"] = [examples[name]]


def _examples(service: Service) -> dict[str, Any]:
    """A fact of the first graph, slot by slot."""
    graph = service.run(None).graph
    h, r, t = graph.facts.array[0].tolist()
    head, tail = graph.entities.name_of(h), graph.entities.name_of(t)
    relation = graph.relations.name_of(r)
    return {
        "head": head,
        "relation": relation,
        "tail": tail,
        "entity": head,
        "name": head,
        "questions": [[head, relation, "_"], ["_", relation, tail]],
    }
