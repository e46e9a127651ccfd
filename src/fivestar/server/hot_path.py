"""A short path for valid prediction requests, past the layers of FastAPI.

FastAPI, its middleware and its dependencies take longer than the rest of a request. A request to
one of the prediction endpoints that is valid calls the same endpoint function directly; all others,
among them everything that is invalid, take the usual path, so that errors are the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fivestar.errors import FivestarError
from fivestar.server.problems import Problem, internal_error, problem_of
from fivestar.server.service import Service

_JSON = b"application/json"


class _Endpoint(NamedTuple):
    route: APIRoute
    body: type[BaseModel]
    call: Callable[[Any, Service], Awaitable[Response]]


class HotPath:
    """ASGI middleware in front of the application.

    Args:
        app: the application, for all other requests.
        service: what the endpoints are called with.
        router: its routes of POST requests are served here: functions of a `body` and a `service`.
        compress: wraps responses of at least `min_compressed` bytes.
        min_compressed: see there.
        has_cors: whether responses depend on the origin of a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        router: APIRouter,
        compress: Callable[[ASGIApp], ASGIApp],
        min_compressed: int,
        *,
        has_cors: bool,
    ) -> None:
        self._app = app
        self._service = service
        self._compress = compress
        self._min_compressed = min_compressed
        self._has_cors = has_cors
        self._endpoints = {
            route.path: _Endpoint(route, get_type_hints(route.endpoint)["body"], route.endpoint)
            for route in router.routes
            if isinstance(route, APIRoute) and route.methods == {"POST"}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is None or scope["method"] != "POST" or not self._is_plain(scope):
            await self._app(scope, receive, send)
            return
        scope["route"] = endpoint.route
        content = await _read(receive, scope, send)
        if content is None:
            return
        try:
            body = endpoint.body.model_validate_json(content)
        except ValidationError:
            await self._app(scope, _replay(content, receive), send)
            return
        try:
            response = await endpoint.call(body, self._service)
        except FivestarError as error:
            response = problem_of(error).response()
        except Problem as problem:
            response = problem.response()
        except Exception:
            await internal_error().response()(scope, receive, send)
            raise  # so that it is logged
        if int(dict(response.raw_headers)[b"content-length"]) >= self._min_compressed:
            await self._compress(response)(scope, receive, send)
        else:
            await response(scope, receive, send)

    def _is_plain(self, scope: Scope) -> bool:
        """Return whether a request is sent as JSON and its response depends on nothing else."""
        content_type = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type = value
            elif name == b"origin" and self._has_cors:
                return False
        return content_type == _JSON


async def _read(receive: Receive, scope: Scope, send: Send) -> bytes | None:
    """Return the body of a request; None if it is refused or the client has left."""
    parts = []
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return b"".join(parts) if len(parts) > 1 else parts[0]
    except HTTPException as error:  # the body is too large
        if not isinstance(error, Problem):
            raise
        await error.response()(scope, receive, send)
        return None


def _replay(content: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that has been read, then what follows."""
    is_read = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": content, "more_body": False}

    return replay
