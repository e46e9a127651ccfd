"""Guards against files that would harm a parser.

The parsers of pyoxigraph are fast and strict, but hostile files can exhaust their stack or memory,
and they accept a truncated XML file. A guard inspects the bytes as they are read, and raises an
error at content that no honest file has.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Protocol
from xml.parsers import expat  # checks only: nothing is resolved or fetched

from fivestar.errors import BadSource
from fivestar.graph.readers.streams import BYTE_ORDER_MARK

# Far above what honest files have, and far below what the parsers can handle.
MAX_JSON_DEPTH = 250
MAX_XML_DEPTH = 500
MAX_TRIPLE_TERMS = 1_000
MAX_ENTITY_LENGTH = 1 << 16
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]|"(?:[^"\\]|\\.)*\\?\Z', re.DOTALL)
_REFERENCE = re.compile(r"&([^#;&][^;&]*);")
_SAMPLE_BYTES = 1 << 12


class Guard(Protocol):
    """Inspect all bytes of a file in order; an empty chunk is the end."""

    def inspect(self, chunk: bytes) -> None:
        """Raise `BadSource` if the content is harmful."""
        ...


class GuardedStream:
    """A stream that a guard inspects while it is read, without a byte order mark."""

    def __init__(self, stream: BinaryIO, guard: Guard) -> None:
        self._stream = stream
        self._guard = guard
        self._buffered = stream.read(_SAMPLE_BYTES).removeprefix(BYTE_ORDER_MARK)
        self._at_end = False
        self.sample = self._buffered

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if self._buffered:
            size = len(self._buffered) if size < 0 else size
            chunk, self._buffered = self._buffered[:size], self._buffered[size:]
        else:
            chunk = self._stream.read(size)
        if not self._at_end:
            self._guard.inspect(chunk)
            self._at_end = not chunk
        return chunk

    def finish(self) -> None:
        """Inspect what a parser has left unread."""
        while self.read(_SAMPLE_BYTES):
            pass


class TurtleGuard:
    """Turtle and TriG: limit triple terms, which exhaust the stack if they are nested."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._end = b""

    def inspect(self, chunk: bytes) -> None:
        """Count the triple terms."""
        joined = self._end + chunk
        self._count += joined.count(b"<<(")
        self._end = joined[-2:]
        if self._count > MAX_TRIPLE_TERMS:
            raise BadSource(
                f"{self._name}: contains more than {MAX_TRIPLE_TERMS:,} triple terms <<( … )>> "
                "(RDF-star), which are not supported; remove them"
            )


class JsonGuard:
    """JSON: limit the depth, which costs the parsers stack and memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._open_string = b""

    def inspect(self, chunk: bytes) -> None:
        """Track the depth."""
        text = self._open_string + chunk
        self._open_string = b""
        for match in _JSON_TOKEN.finditer(text):
            token = match[0]
            if token in b"[{":
                self._deeper()
            elif token in b"]}":
                self._depth -= 1
            elif match.end() == len(text) and chunk and not _is_closed(token):
                # Only its last characters matter for finding its end.
                self._open_string = b'"' + b"\\" * _odd_backslashes(token)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_JSON_DEPTH:
            raise BadSource(
                f"{self._name}: is nested deeper than {MAX_JSON_DEPTH} levels; is this a graph?"
            )


class XmlGuard:
    """XML: refuse truncated documents, and limit entity expansion and depth."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._sizes: dict[str, int] = {}
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._opened
        self._parser.EndElementHandler = self._closed
        self._parser.EntityDeclHandler = self._declared

    def inspect(self, chunk: bytes) -> None:
        """Check that the document is well-formed and, at the end, complete."""
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise BadSource(
                f"{self._name}, line {error.lineno}: is not well-formed XML ({reason}); fix it, or "
                "download it again if it was cut short"
            ) from None

    def _opened(self, _name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise BadSource(
                f"{self._name}: is nested deeper than {MAX_XML_DEPTH} levels; is this a graph?"
            )

    def _closed(self, _name: str) -> None:
        self._depth -= 1

    def _declared(
        self,
        name: str,
        _is_parameter: bool,  # noqa: FBT001
        value: str | None,
        _base: str | None,
        _system: str | None,
        _public: str | None,
        _notation: str | None,
    ) -> None:
        if value is None:
            raise BadSource(
                f"{self._name}: declares the external entity {name!r}, and external files are "
                "never read; remove the declaration"
            )
        references = _REFERENCE.findall(value)
        self._sizes[name] = len(value) + sum(self._sizes.get(inner, 0) for inner in references)
        if self._sizes[name] > MAX_ENTITY_LENGTH:
            raise BadSource(
                f"{self._name}: the entity {name!r} expands to more than "
                f"{MAX_ENTITY_LENGTH >> 10} KiB of text; is this an attack?"
            )


def _is_closed(token: bytes) -> bool:
    return len(token) > 1 and token.endswith(b'"') and not _odd_backslashes(token[:-1])


def _odd_backslashes(text: bytes) -> int:
    return (len(text) - len(text.rstrip(b"\\"))) % 2
