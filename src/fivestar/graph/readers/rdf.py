"""RDF and SPARQL results through pyoxigraph.

N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD; results of SELECT as JSON or XML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from fivestar.errors import BadLine, BadSource
from fivestar.extras import require
from fivestar.graph.choices import FormatName
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.dialect import weight_position
from fivestar.graph.readers.frames import table_columns
from fivestar.graph.readers.guards import Guard, GuardedStream, JsonGuard, TurtleGuard, XmlGuard
from fivestar.graph.readers.rdf_lines import LineReader, quad_terms
from fivestar.graph.readers.statements import Statements, StatementSorter, parser_reason, term_text
from fivestar.graph.readers.streams import open_bytes, refuse_binary, suffix_of
from fivestar.graph.readers.weights import weight_of

_LANGUAGES = {"ttl": "Turtle", "trig": "TriG", "rdf": "RDF/XML", "jsonld": "JSON-LD"}
_OXIGRAPH_NAMES = {"ttl": "TURTLE", "trig": "TRIG", "rdf": "RDF_XML", "jsonld": "JSON_LD"}
_GUARDS: dict[str, Callable[[str], Guard]] = {
    "ttl": TurtleGuard,
    "trig": TurtleGuard,
    "rdf": XmlGuard,
    "jsonld": JsonGuard,
}
_BATCH_SIZE = 50_000
# Relative IRIs are resolved against this base, so that they can be reported.
_NO_BASE = "fivestar-no-base://here/"
_BASES = {
    "ttl": "@base <http://…> .",
    "trig": "@base <http://…> .",
    "rdf": 'xml:base="http://…"',
    "jsonld": '"@base" in its "@context"',
}
_TOO_LONG = "contains a term longer than 16 MiB; is this a graph?"


class RdfReader:
    """Read RDF files."""

    formats: ClassVar[Formats] = {
        "nt": (".nt", ".ntriples"),
        "nq": (".nq", ".nquads"),
        "ttl": (".ttl", ".turtle"),
        "trig": (".trig",),
        "rdf": (".rdf", ".owl", ".xml"),
        "jsonld": (".jsonld",),
    }

    def accepts(self, source: object) -> bool:
        """Return whether it is a file with one of these extensions."""
        return isinstance(source, Path) and _format_of(source) is not None

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the facts of a file in pieces."""
        path = Path(str(source))
        file_format = options.format or _format_of(path) or "nt"
        oxigraph = require("pyoxigraph", "rdf", f"reading {path.name}")
        with open_bytes(path, options.progress) as stream:
            if file_format in ("nt", "nq"):
                yield from LineReader(oxigraph, file_format, options, tally).read(stream)
            else:
                tally.unit = "statement"
                yield from _Document(oxigraph, file_format, options, tally).read(stream)


def _format_of(path: Path) -> FormatName | None:
    suffix = suffix_of(path)
    return next((name for name, endings in RdfReader.formats.items() if suffix in endings), None)


class _Document:
    """A file that must be parsed from its beginning: nothing after an error can be read."""

    def __init__(self, oxigraph: Any, file_format: str, options: ReadOptions, tally: Tally) -> None:
        self._oxigraph = oxigraph
        self._format = file_format
        self._options = options
        self._tally = tally

    def read(self, stream: BinaryIO) -> Iterator[TripleColumns]:
        sorter = StatementSorter(self._options, self._tally, unlabeled="renumber")
        statements = self._parse(stream)
        while rows := list(islice(statements, _BATCH_SIZE)):
            first = self._tally.lines + 1
            self._tally.lines += len(rows)
            numbers = list(range(first, first + len(rows)))
            if any(_NO_BASE in term for row in rows for term in row):
                absolute = [i for i, row in enumerate(rows) if self._is_absolute(row, numbers[i])]
                rows, numbers = [rows[i] for i in absolute], [numbers[i] for i in absolute]
            yield from sorter.sort(Statements.of(rows), numbers)
        yield from sorter.finish()

    def _parse(self, stream: BinaryIO) -> Iterator[tuple[str, str, str, str]]:
        name = self._tally.source
        source = GuardedStream(stream, _GUARDS[self._format](name))
        refuse_binary(source.sample, name)
        rdf_format = getattr(self._oxigraph.RdfFormat, _OXIGRAPH_NAMES[self._format])
        try:
            for quad in self._oxigraph.parse(source, format=rdf_format, base_iri=_NO_BASE):
                yield quad_terms(quad)
            source.finish()
        except SyntaxError as error:
            raise self._syntax_error(error, source.sample) from None
        except MemoryError:
            raise BadSource(f"{name}: {_TOO_LONG}") from None

    def _is_absolute(self, row: tuple[str, str, str, str], number: int) -> bool:
        relative = next((term for term in row if _NO_BASE in term), None)
        if relative is None:
            return True
        reason = (
            f"has a relative IRI, {relative.replace(_NO_BASE, '')}, and the file has no base IRI; "
            f"add {_BASES[self._format]}"
        )
        self._tally.reject(number, reason, " ".join(row[:3]).replace(_NO_BASE, ""), self._options)
        return False

    def _syntax_error(self, error: SyntaxError, sample: bytes) -> BadSource:
        name, language = self._tally.source, _LANGUAGES[self._format]
        if b"http://www.w3.org/2005/sparql-results#" in sample:
            return BadSource(f"{name}: is a SPARQL result; name it .srx or pass format='srx'")
        if "LoadDocumentCallback" in str(error):
            return BadSource(
                f'{name}: its "@context" is on the web, and nothing is ever downloaded from there; '
                "put the content of the context into the file"
            )
        where = f"{name}, line {error.lineno}" if error.lineno else name
        return BadLine(
            f"{where}: is not {language}: {parser_reason(error)}\nFix it; nothing after an error "
            f"in {language} can be read, so on_bad_line='skip' does not help here.",
            source=name,
            line=error.lineno or 0,
        )


class SparqlReader:
    """Read results of SPARQL SELECT with the variables subject, predicate and object."""

    formats: ClassVar[Formats] = {"srj": (".srj", ".json"), "srx": (".srx",)}

    def accepts(self, source: object) -> bool:
        """Return whether it is a file with one of these extensions."""
        return isinstance(source, Path) and any(
            suffix_of(source) in endings for endings in self.formats.values()
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the facts of a file in pieces."""
        path = Path(str(source))
        oxigraph = require("pyoxigraph", "rdf", f"reading {path.name}")
        tally.unit = "row"
        is_xml = options.format == "srx" or (
            options.format is None and suffix_of(path) in self.formats["srx"]
        )
        language = "XML" if is_xml else "JSON"
        result_format = getattr(oxigraph.QueryResultsFormat, language)
        with open_bytes(path, options.progress) as stream:
            guard = XmlGuard(tally.source) if is_xml else JsonGuard(tally.source)
            guarded = GuardedStream(stream, guard)
            refuse_binary(guarded.sample, tally.source)
            try:
                results = oxigraph.parse_query_results(guarded, format=result_format)
                yield from _read_solutions(results, options, tally)
                guarded.finish()
            except SyntaxError as error:
                where = f"{tally.source}, line {error.lineno}" if error.lineno else tally.source
                hint = "" if is_xml else "; if it is JSON-LD, pass format='jsonld'"
                raise BadSource(
                    f"{where}: is not a SPARQL result in {language}: {parser_reason(error)}{hint}"
                ) from None
            except MemoryError:
                raise BadSource(f"{tally.source}: {_TOO_LONG}") from None


def _read_solutions(results: Any, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
    if not hasattr(results, "variables"):
        raise BadSource(
            f"{tally.source}: is the result of ASK, which has no triples; use SELECT ?s ?p ?o"
        )
    titles = [variable.value for variable in results.variables]
    weight = None
    if options.weight is not None:
        weight = weight_position(titles, len(titles), options.weight, tally.source)
        # As a name, for the sorter: there are no statements about statements here.
        options = replace(options, weight=titles[weight])
    columns = table_columns(titles, options, tally.source, weight)
    sorter = StatementSorter(options, tally)
    solutions = iter(results)
    while batch := list(islice(solutions, _BATCH_SIZE)):
        rows, numbers = [], []
        for solution in batch:
            number = tally.lines
            tally.lines += 1
            terms = [solution[column] for column in columns]
            texts = ["" if term is None else term_text(term) for term in terms]
            if problem := _problem(texts, [titles[column] for column in columns]):
                tally.reject(number, problem, " ".join(texts), options)
                continue
            triple = texts[0], texts[1], texts[2]
            if weight is not None:
                try:
                    sorter.weights.add(triple, weight_of(getattr(solution[weight], "value", None)))
                except ValueError as reason:
                    tally.reject(number, str(reason), " ".join(texts), options)
                    continue
            rows.append((*triple, ""))
            numbers.append(number)
        yield from sorter.sort(Statements.of(rows), numbers)
    yield from sorter.finish()


def _problem(terms: list[str], titles: list[str]) -> str:
    """Return what is wrong with a solution, or an empty string."""
    for term, title in zip(terms, titles, strict=True):
        if not term:
            return f"has no value for ?{title}"
    if not terms[0].startswith(("<", "_:")) or terms[0].startswith("<<"):
        return f"has a ?{titles[0]} that is not a node, so it cannot be a head"
    if not terms[1].startswith("<") or terms[1].startswith("<<"):
        return f"has a ?{titles[1]} that is not an IRI, so it cannot be a relation"
    return ""
