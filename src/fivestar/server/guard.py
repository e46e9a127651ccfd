"""What every request passes before it is served: hosts, token, size, time; and what is counted."""

from __future__ import annotations

import asyncio
import hmac
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fivestar.errors import SettingsError
from fivestar.server.counters import Counters
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
# Swagger UI sets styles in its markup.
_CSP_OF_DOCS = _CSP | {"style-src": "'self' 'unsafe-inline'"}


def _headers(policy: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """What every answer says, as it goes over the wire."""
    named = {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    return [(name.encode(), value.encode()) for name, value in named.items()]


_HEADERS, _HEADERS_OF_DOCS = _headers(_CSP), _headers(_CSP_OF_DOCS)
# What needs the token, if there is one. The page itself holds nothing of the graph.
_SECRET = ("/api/", "/metrics")
_SHORTEST_TOKEN = 16


def read_token(file: Path) -> bytes:
    """The token in a file, refused if it is easily guessed."""
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{file}: the token cannot be read ({error.strerror})") from error
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or b"\n" in token:
        raise SettingsError(
            f"{file}: a token is one line of at least {_SHORTEST_TOKEN} ASCII characters; make one "
            f"with: python -c 'import secrets; print(secrets.token_urlsafe())' > {file}"
        )
    return token


class Guard:
    """An application behind the guard."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        counters: Counters,
        token: bytes | None,
        hosts: frozenset[str] | None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.counters = counters
        self.token = token
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        self.counters.begin()
        answer = _Answer(scope["path"], send)
        try:
            await self._serve(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.counters.end(route, answer.status, time.perf_counter() - began)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        problem = self._refusal(scope)
        if problem is None:
            try:
                async with asyncio.timeout(self.limits.seconds):
                    await self.app(scope, self._limited(receive), answer.send)
            except TimeoutError:
                problem = Problem(
                    504, f"no answer within {self.limits.seconds:g} s; ask for less at once"
                )
        if problem is not None and not answer.status:
            await problem.response()(scope, receive, answer.send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            return Problem(400, "this server is not called so; see --allowed-host", "unknown-host")
        if self._needs_token(scope) and not _is_bearer(headers, self.token):
            return Problem(
                401,
                "a token is needed: send the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self.limits.body_bytes:
            return self._too_large()
        return None

    def _needs_token(self, scope: Scope) -> bool:
        # Browsers ask first what they may (OPTIONS), without a token.
        return (
            self.token is not None
            and scope["path"].startswith(_SECRET)
            and scope["method"] != "OPTIONS"
        )

    def _too_large(self) -> Problem:
        return Problem(413, f"a body has at most {self.limits.body_bytes:,} bytes; send less")

    def _limited(self, receive: Receive) -> Receive:
        """A body whose length was not told may still be too long."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limits.body_bytes:
                raise self._too_large()
            return message

        return counted


class _Answer:
    """Sends an answer with the headers that all have, and remembers its status."""

    def __init__(self, path: str, send: Send) -> None:
        self.status = 0
        self._headers = _HEADERS_OF_DOCS if path == "/docs" else _HEADERS
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
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
