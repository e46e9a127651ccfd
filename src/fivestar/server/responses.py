"""JSON responses that are made outside of the event loop and sent in parts, and their cache."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# Bytes sent (and compressed) at once; between two parts, others have their turn.
_PART = 1 << 16
_CONTENT_TYPE = (b"content-type", b"application/json")
# Items of a list encoded at once.
_MAX_ITEMS = 1000


def to_json(fields: dict[str, Any]) -> bytes:
    """Return an object as JSON; validating through the response models would take much longer.

    Long lists are encoded in parts: other threads wait while the encoder runs.

    >>> to_json({"a": [1, 2], "b": None})
    b'{"a": [1, 2], "b": null}'
    """
    pairs = (encoded(name) + b": " + _in_parts(value) for name, value in fields.items())
    return b"{" + b", ".join(pairs) + b"}"


def encoded(content: Any) -> bytes:
    """Return anything as JSON, at once."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()


def _in_parts(value: Any) -> bytes:
    if not isinstance(value, list) or len(value) <= _MAX_ITEMS:
        return encoded(value)
    parts = (value[at : at + _MAX_ITEMS] for at in range(0, len(value), _MAX_ITEMS))
    return b"[" + b", ".join(encoded(part)[1:-1] for part in parts) + b"]"


class JsonResponse(Response):
    """JSON text, given in pieces."""

    media_type = "application/json"

    def __init__(self, *pieces: bytes, status: int = 200) -> None:
        self._pieces = pieces
        self.status_code = status
        self.background = None
        self.body = b""
        self._length = sum(map(len, pieces))
        self.raw_headers = [(b"content-length", b"%d" % self._length), _CONTENT_TYPE]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; a large one in parts."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        if self._length <= _PART:
            await send({"type": "http.response.body", "body": b"".join(self._pieces)})
            return
        for part in _parts(self._pieces):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _parts(pieces: Sequence[bytes]) -> list[bytes]:
    whole = memoryview(b"".join(pieces))
    return [bytes(whole[first : first + _PART]) for first in range(0, len(whole), _PART)]


class ByteCache:
    """The most recently used values, of a bounded number of bytes in total.

    >>> cache = ByteCache(5)
    >>> [cache.get(key, lambda: b"ab") for key in (1, 2, 3)]
    [b'ab', b'ab', b'ab']
    >>> cache.get(3, lambda: b"new"), cache.get(1, lambda: b"new")
    (b'ab', b'new')
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()  # lanes share it

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the value of a key; make it if it is not there."""
        if (value := self.peek(key)) is not None:
            return value
        value = make()
        with self._lock:
            self._values[key] = value
            while self.num_bytes() > self._max_bytes:
                self._values.popitem(last=False)
        return value

    def peek(self, key: Hashable) -> bytes | None:
        """Return the value of a key, or None if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()

    def num_bytes(self) -> int:
        """Return the size of all values."""
        return sum(map(len, self._values.values()))
