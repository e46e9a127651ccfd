"""One module a format. The first reader that accepts a source reads it."""

from __future__ import annotations

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Reader
from fivestar.graph.readers.delimited import DelimitedReader
from fivestar.graph.readers.frames import FrameReader, IterableReader

# A path is iterable in no useful sense, and a table is iterable by columns: the order matters.
READERS: tuple[Reader, ...] = (DelimitedReader(), FrameReader(), IterableReader())


def reader_for(source: object) -> Reader:
    """The reader of this source."""
    for reader in READERS:
        if reader.accepts(source):
            return reader
    raise BadSource(
        f"cannot read a graph from {type(source).__name__}; give a path, a table or an iterable of "
        "(head, relation, tail)"
    )
