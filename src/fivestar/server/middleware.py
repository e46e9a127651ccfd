"""Middleware: host, token, body size, timeout, security headers and metrics of every request."""

from __future__ import annotations

import asyncio
import hmac
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fivestar.errors import SettingsError
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem
from fivestar.server.settings import Limits

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
_MIN_TOKEN_LENGTH = 16


def read_token(file: Path) -> bytes:
    """Read the token from a file; a short one is refused."""
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{file}: cannot read the token ({error.strerror})") from error
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or b"\n" in token:
        raise SettingsError(
            f"{file}: a token is one line of at least {_MIN_TOKEN_LENGTH} ASCII characters; create "
            f"one with: python -c 'import secrets; print(secrets.token_urlsafe())' > {file}"
        )
    return token


class Guard:
    """ASGI middleware that checks and counts every request."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        token: bytes | None,
        hosts: frozenset[str] | None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.token = token
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        self.metrics.begin()
        response = _Response(scope["path"], send)
        try:
            await self._handle(scope, receive, response)
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.metrics.end(route, response.status, time.perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, response: _Response) -> None:
        problem = self._check(scope)
        if problem is None:
            try:
                async with asyncio.timeout(self.limits.seconds):
                    await self.app(scope, self._limited(receive), response.send)
            except TimeoutError:
                problem = Problem(
                    504, f"no response within {self.limits.seconds:g} s; request less at once"
                )
        if problem is not None and not response.status:
            await problem.response()(scope, receive, response.send)

    def _check(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            return Problem(
                400, "this host name is not allowed; see the setting allowed_hosts", "unknown-host"
            )
        if self._needs_token(scope) and not _is_bearer(headers, self.token):
            return Problem(
                401,
                "a token is required: send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self.limits.body_bytes:
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


class _Response:
    """Adds the security headers to a response and records its status."""

    def __init__(self, path: str, send: Send) -> None:
        self.status = 0
        self._headers = _DOCS_HEADERS if path == "/docs" else _HEADERS
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers]
        await self._send(message)


def _is_bearer(headers: Headers, token: bytes | None) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    is_equal = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token or b"")
    return is_equal and scheme.lower() == "bearer"


def _host(header: str) -> str:
    """Return the host name of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
