"""One module a format. The first reader that accepts a source reads it."""

from __future__ import annotations

from pathlib import Path

from fivestar.errors import BadSource, SettingsError
from fivestar.graph.choices import FormatName
from fivestar.graph.readers.base import Reader
from fivestar.graph.readers.columnar import ColumnarReader
from fivestar.graph.readers.delimited import DelimitedReader
from fivestar.graph.readers.frames import FrameReader, IterableReader
from fivestar.graph.readers.objects import NetworkXReader, PykeenReader, RdflibReader
from fivestar.graph.readers.openke import OpenKEReader
from fivestar.graph.readers.rdf import RdfReader
from fivestar.graph.readers.sparql import SparqlReader

# The order matters. Files: the text reader takes what no other knows by its name. Objects: a path
# is iterable in no useful sense, a table is iterable by columns, a graph of NetworkX by nodes.
READERS: tuple[Reader, ...] = (
    RdfReader(),
    ColumnarReader(),
    SparqlReader(),
    DelimitedReader(),
    OpenKEReader(),
    NetworkXReader(),
    RdflibReader(),
    PykeenReader(),
    FrameReader(),
    IterableReader(),
)


def reader_for(source: object, given: FormatName | None = None) -> Reader:
    """The reader of this source, which for a file may be given by its format."""
    if given is not None and isinstance(source, Path):
        return next(reader for reader in READERS if given in reader.formats)
    if given not in (None, "openke"):
        raise SettingsError(
            f"a format ({given}) is for files; {type(source).__name__} is read as what it is"
        )
    for reader in READERS:
        if reader.accepts(source):
            return reader
    raise BadSource(
        f"cannot read a graph from {type(source).__name__}; give a path, a table or an iterable of "
        "(head, relation, tail)"
    )
