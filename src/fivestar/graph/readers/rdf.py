"""RDF through pyoxigraph: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from fivestar.errors import BadLine, BadSource
from fivestar.extras import require
from fivestar.graph.choices import FormatName
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.compression import open_bytes, refuse_binary, suffix_of
from fivestar.graph.readers.guards import Guard, Guarded, JsonGuard, TurtleGuard, XmlGuard
from fivestar.graph.readers.rdf_lines import LineReader, terms_of
from fivestar.graph.readers.statements import Sorter, Statements, reason

_SPOKEN = {"ttl": "Turtle", "trig": "TriG", "rdf": "RDF/XML", "jsonld": "JSON-LD"}
_OXIGRAPH_NAMES = {"ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
_GUARDS: dict[str, Callable[[str], Guard]] = {
    "ttl": TurtleGuard,
    "trig": TurtleGuard,
    "rdf": XmlGuard,
    "jsonld": JsonGuard,
}
_STATEMENTS_AT_ONCE = 50_000
# Against this, relative IRIs are resolved: so they show, and are not dropped in silence.
_NO_BASE = "fivestar-no-base://here/"
_BASES = {
    "ttl": "@base <http://…> .",
    "trig": "@base <http://…> .",
    "rdf": 'xml:base="http://…"',
    "jsonld": '"@base" in its "@context"',
}


class RdfReader:
    """Reads RDF files of all these formats."""

    formats: ClassVar[Formats] = {
        "nt": (".nt", ".ntriples"),
        "nq": (".nq", ".nquads"),
        "ttl": (".ttl", ".turtle"),
        "trig": (".trig",),
        "rdf": (".rdf", ".owl", ".xml"),
        "jsonld": (".jsonld",),
    }

    def accepts(self, source: object) -> bool:
        """A file with the ending of one of them."""
        return isinstance(source, Path) and _format_of(source) is not None

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The facts of a file, piece by piece."""
        path = Path(str(source))
        kind = options.format or _format_of(path) or "nt"
        oxigraph = require("pyoxigraph", "rdf", f"reading {path.name}")
        with open_bytes(path, options.progress) as stream:
            if kind in ("nt", "nq"):
                yield from LineReader(oxigraph, kind, options, tally).read(stream)
            else:
                tally.unit = "statement"
                document = _Document(oxigraph, kind, options, tally)
                yield from document.read(stream)


def _format_of(path: Path) -> FormatName | None:
    suffix = suffix_of(path)
    return next((name for name, endings in RdfReader.formats.items() if suffix in endings), None)


class _Document:
    """A file that has to be understood from its beginning: nothing behind an error can be."""

    def __init__(self, oxigraph: Any, kind: str, options: ReadOptions, tally: Tally) -> None:
        self._oxigraph = oxigraph
        self._kind = kind
        self._options = options
        self._tally = tally

    def read(self, stream: BinaryIO) -> Iterator[TripleColumns]:
        sorter = Sorter(self._options, self._tally, unlabelled="renumbered")
        statements = self._parsed(stream)
        while rows := list(islice(statements, _STATEMENTS_AT_ONCE)):
            first = self._tally.lines + 1
            self._tally.lines += len(rows)
            numbers = list(range(first, first + len(rows)))
            if any(_NO_BASE in term for row in rows for term in row):
                kept = [at for at, row in enumerate(rows) if self._is_absolute(row, numbers[at])]
                rows, numbers = [rows[at] for at in kept], [numbers[at] for at in kept]
            yield from sorter.sort(Statements.of(rows), numbers)

    def _parsed(self, stream: BinaryIO) -> Iterator[tuple[str, str, str, str]]:
        name = self._tally.source
        source = Guarded(stream, _GUARDS[self._kind](name))
        refuse_binary(source.sample, name)
        rdf_format = getattr(self._oxigraph.RdfFormat, _OXIGRAPH_NAMES[self._kind])
        try:
            for quad in self._oxigraph.parse(source, format=rdf_format, base_iri=_NO_BASE):
                yield terms_of(quad)
            source.finish()
        except SyntaxError as error:
            raise self._misunderstood(error, source.sample) from None
        except MemoryError:
            raise BadSource(f"{name}: holds a term longer than 16 MiB; is this a graph?") from None

    def _is_absolute(self, row: tuple[str, str, str, str], number: int) -> bool:
        relative = next((term for term in row if _NO_BASE in term), None)
        if relative is None:
            return True
        why = (
            f"has a relative IRI, {relative.replace(_NO_BASE, '')}, and the file does not say "
            f"relative to what; add {_BASES[self._kind]}"
        )
        self._tally.reject(number, why, " ".join(row[:3]).replace(_NO_BASE, ""), self._options)
        return False

    def _misunderstood(self, error: SyntaxError, sample: bytes) -> BadSource:
        name, language = self._tally.source, _SPOKEN[self._kind]
        if b"http://www.w3.org/2005/sparql-results#" in sample:
            return BadSource(
                f"{name}: these are results of SPARQL; name it .srx or say --format srx"
            )
        if "LoadDocumentCallback" in str(error):
            return BadSource(
                f'{name}: its "@context" is on the web, and nothing is ever fetched from there; '
                "put the content of the context into the file"
            )
        where = f"{name}, line {error.lineno}" if error.lineno else name
        return BadLine(
            f"{where}: is not {language}: {reason(error)}\nMend it; what follows an error in "
            f"{language} cannot be understood, so --on-bad-line skip does not help here.",
            source=name,
            line=error.lineno or 0,
        )
