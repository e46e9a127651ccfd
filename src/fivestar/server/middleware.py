"""Middleware: host, token, body size, timeout, security headers and metrics of every request."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fivestar.server.lanes import RequestContext, request_context
from fivestar.server.logs import log_request, request_id_of
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem
from fivestar.server.protocol import CONNECTION, LimitedProtocol, client_network
from fivestar.server.settings import Limits, host_name
from fivestar.server.tracing import Tracer

_CSP = {
    "default-src": "'self'",
    "img-src": "'self' data: blob:",
    "style-src": "'self'",
    "script-src": "'self'",
    "connect-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "form-action": "'none'",
}
# Swagger UI uses inline styles.
_DOCS_CSP = _CSP | {"style-src": "'self' 'unsafe-inline'"}


def _headers(policy: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the security headers of every response."""
    headers = {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    return [(name.encode(), value.encode()) for name, value in headers.items()]


_HEADERS, _DOCS_HEADERS = _headers(_CSP), _headers(_DOCS_CSP)
# Paths that need the token, if there is one. The page itself holds no data.
_PROTECTED = ("/api/", "/metrics")


class Guard:
    """ASGI middleware that checks, counts and logs every request.

    Args:
        app: the application.
        limits: limits per request.
        metrics: counts requests.
        token: the token that requests must send; None: none.
        hosts: accepted Host headers; None: any.
        hot_path: handles requests instead of the application, which it wraps.
        tracer: makes a span per request; None: there are none.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        token: bytes | None,
        hosts: frozenset[str] | None,
        hot_path: ASGIApp | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.token = token
        self.hosts = hosts
        self._handler = hot_path or app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        self.metrics.begin()
        headers = RequestHeaders.of(scope)
        request_id = request_id_of(headers.request_id)
        span = None if self._tracer is None else self._tracer.start_request(scope, request_id)
        response = _Response(scope["path"], request_id, send)
        address = _connection(scope).address
        try:
            with ExitStack() as on_end:
                request_context.set(RequestContext(address, on_end, request_id, span))
                await self._handle(scope, headers, receive, response)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", None)
            self.metrics.end(route, response.status, seconds)
            log_request(scope, request_id, route, response.status, seconds)
            if self._tracer is not None:
                self._tracer.end_request(span, scope, route, response.status)

    async def _handle(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, response: _Response
    ) -> None:
        problem = self._check(scope, headers)
        if problem is None:
            problem = await self._run(scope, receive, response)
        if problem is not None and not response.status:
            await problem.response()(scope, receive, response.send)

    async def _run(self, scope: Scope, receive: Receive, response: _Response) -> Problem | None:
        """Run the application until it is done, its time is over, or its client disconnects."""
        connection = _connection(scope)
        if connection.is_lost:
            return None
        deadline = asyncio.timeout(self.limits.seconds)
        is_disconnected = False

        def disconnect() -> None:
            nonlocal is_disconnected
            is_disconnected = True
            if not response.is_complete:
                with suppress(RuntimeError):  # it is being cancelled already
                    deadline.reschedule(0)

        try:
            async with deadline:
                connection.on_disconnect = disconnect
                await self._handler(scope, self._limited(receive), response.send)
        except TimeoutError:
            if is_disconnected:
                return None
            detail = f"no response within {self.limits.seconds:g} s; request less at once"
            return Problem(504, detail)
        finally:
            if connection.on_disconnect is disconnect:  # not that of the next request
                connection.on_disconnect = None
        return None

    def _check(self, scope: Scope, headers: RequestHeaders) -> Problem | None:
        if self.hosts is not None and not _is_allowed(headers.hosts, self.hosts):
            return Problem(
                400, "this host name is not allowed; see the setting allowed_hosts", "unknown-host"
            )
        if self._needs_token(scope) and not _is_bearer(headers.authorization, self.token):
            return Problem(
                401,
                "a token is required: send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.content_length
        if length.isdigit() and int(length[:20]) > self.limits.body_bytes:
            return self._too_large()
        return None

    def _needs_token(self, scope: Scope) -> bool:
        # Browsers send preflight requests (OPTIONS) without a token.
        return (
            self.token is not None
            and scope["path"].startswith(_PROTECTED)
            and scope["method"] != "OPTIONS"
        )

    def _too_large(self) -> Problem:
        return Problem(413, f"the body is larger than {self.limits.body_bytes:,} bytes; send less")

    def _limited(self, receive: Receive) -> Receive:
        """Limit bodies that come without a content length."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limits.body_bytes:
                raise self._too_large()
            return message

        return counted


def _connection(scope: Scope) -> LimitedProtocol | _Connection:
    if CONNECTION not in scope:
        scope[CONNECTION] = _Connection(scope)
    connection: LimitedProtocol | _Connection = scope[CONNECTION]
    return connection


class _Connection:
    """The connection of a server without `LimitedProtocol`, which does not report disconnects."""

    is_lost = False

    def __init__(self, scope: Scope) -> None:
        self.address = client_network((scope.get("client") or ("",))[0])
        self.on_disconnect: Callable[[], None] | None = None


class _Response:
    """Adds the security headers and the request id to a response, and records its status."""

    def __init__(self, path: str, request_id: str, send: Send) -> None:
        self.status = 0
        self.is_complete = False
        self._headers = _DOCS_HEADERS if path == "/docs" else _HEADERS
        self._request_id = (b"x-request-id", request_id.encode())
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                *self._headers,
                self._request_id,
            ]
        elif not message.get("more_body"):
            self.is_complete = True
        await self._send(message)


def _is_bearer(authorization: bytes, token: bytes | None) -> bool:
    scheme, _, given = authorization.partition(b" ")
    return hmac.compare_digest(given.strip(), token or b"") and scheme.lower() == b"bearer"


def _is_allowed(headers: list[bytes], hosts: frozenset[str]) -> bool:
    """Return whether there is one Host header, and it names an allowed host."""
    return len(headers) == 1 and _host_name(headers[0]) in hosts


@lru_cache(256)
def _host_name(header: bytes) -> str | None:
    return host_name(header.decode("latin-1"))


class RequestHeaders(NamedTuple):
    """The headers of a request that are checked, the first of each name."""

    hosts: list[bytes]
    authorization: bytes
    content_length: bytes
    request_id: bytes

    @classmethod
    def of(cls, scope: Scope) -> RequestHeaders:
        """Read the headers of a request."""
        hosts, first = [], dict[bytes, bytes]()
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            else:
                first.setdefault(name, value)
        names = (b"authorization", b"content-length", b"x-request-id")
        return cls(hosts, *(first.get(name, b"") for name in names))
