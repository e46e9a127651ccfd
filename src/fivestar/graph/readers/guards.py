"""What stands between a parser and a file that would harm it.

The parsers of pyoxigraph are fast and strict, but a few hostile files make them exhaust the stack
or the memory, and they take an XML file that was cut short for a whole one. Each guard passes the
bytes on as they are read, and stops at what no honest file holds.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Protocol
from xml.parsers import expat  # checks only: nothing is resolved or fetched

from fivestar.errors import BadSource
from fivestar.graph.readers.compression import BYTE_ORDER_MARK

# Far deeper than honest files go, far from where the parsers fail.
DEEPEST_JSON = 250
DEEPEST_XML = 500
MOST_TRIPLE_TERMS = 1_000
LONGEST_ENTITY = 1 << 16
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]|"(?:[^"\\]|\\.)*\\?\Z', re.DOTALL)
_REFERENCE = re.compile(r"&([^#;&][^;&]*);")
_SAMPLE_BYTES = 1 << 12


class Guard(Protocol):
    """Looks at all bytes of a file in turn; an empty piece is the end."""

    def look(self, piece: bytes) -> None:
        """Raise an error if there is harm in it."""
        ...


class Guarded:
    """A file that is looked at while it is read, without a byte order mark."""

    def __init__(self, stream: BinaryIO, guard: Guard) -> None:
        self._stream = stream
        self._guard = guard
        self._begin = stream.read(_SAMPLE_BYTES).removeprefix(BYTE_ORDER_MARK)
        self._ended = False
        self.sample = self._begin

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if self._begin:
            size = len(self._begin) if size < 0 else size
            piece, self._begin = self._begin[:size], self._begin[size:]
        else:
            piece = self._stream.read(size)
        if not self._ended:
            self._guard.look(piece)
            self._ended = not piece
        return piece

    def finish(self) -> None:
        """Look at what a parser has left unread, for it was content with less."""
        while self.read(_SAMPLE_BYTES):
            pass


class TurtleGuard:
    """Turtle and TriG: nested triple terms, one in another, would exhaust the stack."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._end = b""

    def look(self, piece: bytes) -> None:
        """Count the triple terms."""
        joined = self._end + piece
        self._count += joined.count(b"<<(")
        self._end = joined[-2:]
        if self._count > MOST_TRIPLE_TERMS:
            raise BadSource(
                f"{self._name}: holds more than {MOST_TRIPLE_TERMS:,} triple terms <<( … )>> "
                "(RDF-star), which no graph here can hold; take them out"
            )


class JsonGuard:
    """JSON: depth, which the parsers follow on the stack, and square in memory."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._open_string = b""

    def look(self, piece: bytes) -> None:
        """Follow the depth."""
        text = self._open_string + piece
        self._open_string = b""
        for found in _JSON_TOKEN.finditer(text):
            token = found[0]
            if token in b"[{":
                self._deeper()
            elif token in b"]}":
                self._depth -= 1
            elif found.end() == len(text) and piece and not _is_closed(token):
                # Only how it ends matters for finding where it ends.
                self._open_string = b'"' + b"\\" * _odd_backslashes(token)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST_JSON:
            raise BadSource(
                f"{self._name}: is nested deeper than {DEEPEST_JSON} levels; is this a graph?"
            )


class XmlGuard:
    """XML: a file that is no whole document, entities that explode, and depth."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._depth = 0
        self._sizes: dict[str, int] = {}
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._opened
        self._parser.EndElementHandler = self._closed
        self._parser.EntityDeclHandler = self._declared

    def look(self, piece: bytes) -> None:
        """Check that this goes on as XML does, and (at the end) that it is whole."""
        try:
            self._parser.Parse(piece, not piece)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise BadSource(
                f"{self._name}, line {error.lineno}: is not well-formed XML ({what}); mend it, or "
                "fetch it again if it was cut short"
            ) from None

    def _opened(self, _name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth > DEEPEST_XML:
            raise BadSource(
                f"{self._name}: is nested deeper than {DEEPEST_XML} levels; is this a graph?"
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
                f"{self._name}: declares the external entity {name!r}, and nothing outside of the "
                "file is ever fetched; take the declaration out"
            )
        references = _REFERENCE.findall(value)
        self._sizes[name] = len(value) + sum(self._sizes.get(inner, 0) for inner in references)
        if self._sizes[name] > LONGEST_ENTITY:
            raise BadSource(
                f"{self._name}: the entity {name!r} stands for more than "
                f"{LONGEST_ENTITY >> 10} KiB of text; is this a trap?"
            )


def _is_closed(token: bytes) -> bool:
    return len(token) > 1 and token.endswith(b'"') and not _odd_backslashes(token[:-1])


def _odd_backslashes(text: bytes) -> int:
    return (len(text) - len(text.rstrip(b"\\"))) % 2
