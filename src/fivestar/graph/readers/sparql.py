"""Results of SPARQL SELECT, as JSON or XML: a row a triple."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from fivestar.errors import BadSource
from fivestar.extras import require
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.compression import open_bytes, refuse_binary, suffix_of
from fivestar.graph.readers.frames import table_places
from fivestar.graph.readers.guards import Guarded, JsonGuard, XmlGuard
from fivestar.graph.readers.statements import Sorter, Statements, reason, term_text

_ROWS_AT_ONCE = 50_000


class SparqlReader:
    """Reads files of results with three variables: subject, predicate and object."""

    formats: ClassVar[Formats] = {"srj": (".srj", ".json"), "srx": (".srx",)}

    def accepts(self, source: object) -> bool:
        """A file with the ending of one of them."""
        return isinstance(source, Path) and any(
            suffix_of(source) in endings for endings in self.formats.values()
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The facts of a file, piece by piece."""
        path = Path(str(source))
        oxigraph = require("pyoxigraph", "rdf", f"reading {path.name}")
        tally.unit = "row"
        is_xml = options.format == "srx" or (
            options.format is None and suffix_of(path) in self.formats["srx"]
        )
        kind = oxigraph.QueryResultsFormat.XML if is_xml else oxigraph.QueryResultsFormat.JSON
        with open_bytes(path, options.progress) as stream:
            guard = XmlGuard(tally.source) if is_xml else JsonGuard(tally.source)
            guarded = Guarded(stream, guard)
            refuse_binary(guarded.sample, tally.source)
            try:
                results = oxigraph.parse_query_results(guarded, format=kind)
                yield from _read_rows(results, options, tally)
                guarded.finish()
            except SyntaxError as error:
                raise _misunderstood(error, tally.source, "XML" if is_xml else "JSON") from None
            except MemoryError:
                raise BadSource(
                    f"{tally.source}: holds a term longer than 16 MiB; is this a graph?"
                ) from None


def _read_rows(results: Any, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
    if not hasattr(results, "variables"):
        raise BadSource(
            f"{tally.source}: is the answer to an ASK, which has no triples; use SELECT ?s ?p ?o"
        )
    titles = [variable.value for variable in results.variables]
    places = table_places(titles, options, tally.source)
    sorter = Sorter(options, tally)
    solutions = iter(results)
    while some := list(islice(solutions, _ROWS_AT_ONCE)):
        rows, numbers = [], []
        for solution in some:
            number = tally.lines
            tally.lines += 1
            terms = [solution[place] for place in places]
            texts = ["" if term is None else term_text(term) for term in terms]
            if wrong := _what_is_wrong(texts, [titles[place] for place in places]):
                tally.reject(number, wrong, " ".join(texts), options)
                continue
            rows.append((texts[0], texts[1], texts[2], ""))
            numbers.append(number)
        yield from sorter.sort(Statements.of(rows), numbers)


def _what_is_wrong(terms: list[str], titles: list[str]) -> str:
    for term, title in zip(terms, titles, strict=True):
        if not term:
            return f"has no value for ?{title}"
    if not terms[0].startswith(("<", "_:")) or terms[0].startswith("<<"):
        return f"has a ?{titles[0]} that is no node, so it cannot be a head"
    if not terms[1].startswith("<") or terms[1].startswith("<<"):
        return f"has a ?{titles[1]} that is no IRI, so it cannot be a relation"
    return ""


def _misunderstood(error: SyntaxError, name: str, language: str) -> BadSource:
    where = f"{name}, line {error.lineno}" if error.lineno else name
    hint = "; if it is JSON-LD, say --format jsonld" if language == "JSON" else ""
    return BadSource(f"{where}: is no SPARQL result in {language}: {reason(error)}{hint}")
