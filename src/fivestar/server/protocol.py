"""HTTP/1.1 connections with limits that hold before a request reaches the application.

When uvicorn parses with httptools, it limits neither the size of the headers of a request nor the
time they take, nor the connections of one client. All of these matter before a token is checked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fivestar.server.problems import Problem
from fivestar.server.settings import Limits

# The key of the connection in the scope of a request.
CONNECTION = "fivestar.connection"
# Connections per worker process.
MAX_CONNECTIONS = 2048
# Requests of one connection that may wait for the response to an earlier one.
_MAX_PIPELINED = 16
# Bytes that are no content (sizes and extensions of chunks, trailers) per byte of content.
_MAX_OVERHEAD = 8
# An address of IPv6 belongs to a network of this size, all of which its owner can use.
_IPV6_PREFIX = 64
# A `struct linger`: do not wait on close.
_DISCARD = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed if its client sends too much too early, or too little too late.

    The limits are those of the application.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app: Any = self.app
        while not hasattr(app, "limits"):  # inside of the middleware of uvicorn, if there is any
            app = app.app
        self.limits: Limits = app.limits
        self.address = ""
        # Called when the client disconnects; set by the application while it handles a request.
        self.on_disconnect: Callable[[], None] | None = None
        self.is_lost = False
        self._in_headers = True
        self._in_message = False
        self._header_bytes = 0
        self._content_bytes = 0
        self._overhead_bytes = 0
        # Of all requests: the headers of the next one can come with the end of a body.
        self._all_content_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection unless its client has too many."""
        super().connection_made(transport)
        self.address = client_network(self.client[0]) if self.client else ""
        own = sum(getattr(each, "address", "") == self.address for each in self.connections)
        if own > self.limits.client_connections:
            self._refuse(Problem(429, f"more than {own - 1:,} connections from one address"))
        elif len(self.connections) > MAX_CONNECTIONS:
            self._refuse(Problem(503, "too many connections", headers={"Retry-After": "1"}))
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a connection and report that its client has left."""
        self._set_timer(None)
        self._stop_write_timer()
        super().connection_lost(exc)
        self.is_lost = True
        if self.on_disconnect is not None:
            self.on_disconnect()

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, headers only up to their limit."""
        while data and not self.transport.is_closing():
            if not self._in_headers:
                part, data = data, b""
                before = self._all_content_bytes
                super().data_received(part)
                self._overhead_bytes += len(part) - (self._all_content_bytes - before)
                allowed = self.limits.header_bytes + _MAX_OVERHEAD * self._content_bytes
                if not self._in_headers and self._overhead_bytes > allowed:
                    self._abort()
                return
            if self._timer is None:
                self._expect_headers()
            room = self.limits.header_bytes - self._header_bytes
            part, data = data[:room], data[room:]
            self._header_bytes += len(part)
            super().data_received(part)
            if self._in_headers and self._header_bytes >= self.limits.header_bytes:
                self._refuse(
                    Problem(431, f"the headers are larger than {self.limits.header_bytes:,} bytes")
                )

    def on_message_begin(self) -> None:
        """Note that the headers of a request begin."""
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self._in_headers = self._in_message = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers would change the headers of a request that runs already."""
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request, unless too many wait."""
        self._in_headers = False
        self._header_bytes = self._content_bytes = self._overhead_bytes = 0
        self._set_timer(None)
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError("too many pipelined requests")  # answered by 400
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the content of a request."""
        self._content_bytes += len(body)
        self._all_content_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived."""
        super().on_message_complete()
        self._in_headers, self._in_message = True, False
        self._set_timer(None)

    def on_response_complete(self) -> None:
        """Limit the time for the rest of a request that was answered before it arrived."""
        super().on_response_complete()
        if self._in_message and not self._in_headers:
            self._set_timer(self._abort)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP."""
        self._refuse(Problem(400, "this is no valid HTTP request"))

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore a request to change the protocol, silently: anybody could fill the log."""

    def pause_writing(self) -> None:
        """Limit the time in which a client does not read its response."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.seconds, self._abort)

    def resume_writing(self) -> None:
        """Continue once the client has read some of it."""
        super().resume_writing()
        self._stop_write_timer()

    def _expect_headers(self) -> None:
        self._set_timer(self._refuse_slow_head)

    def _refuse_slow_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_headers()  # it waits for the response to an earlier request
            return
        seconds = self.limits.header_seconds
        self._refuse(Problem(408, f"the headers took longer than {seconds:g} s"))

    def _set_timer(self, action: Callable[[], None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = self.limits.header_seconds
        self._timer = None if action is None else self.loop.call_later(seconds, action)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _abort(self) -> None:
        """Close the connection at once, without what the client has not read.

        Otherwise the operating system would keep that, as long as the client stays connected.
        """
        there = self.transport.get_extra_info("socket")
        if there is not None:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
        self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and close the connection."""
        if self.transport.is_closing():
            return
        response = problem.response()
        head = STATUS_LINE[problem.status_code].decode()
        for name, value in {**response.headers, "connection": "close"}.items():
            head += f"{name}: {value}\r\n"
        self.transport.write(head.encode() + b"\r\n" + bytes(response.body))
        self.transport.close()
        self._set_timer(self._abort)  # if the client does not read


def client_network(address: str) -> str:
    """Return what is counted as one client: an address, or a network of IPv6.

    >>> client_network("192.0.2.1"), client_network("2001:db8::1:2:3:4")
    ('192.0.2.1', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
