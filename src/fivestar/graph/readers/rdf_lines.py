"""N-Triples and N-Quads: RDF with one statement per line, of any size.

A block of lines is read in two ways. Plain lines, the vast majority, are split into terms at once,
and each distinct term is validated; all others are parsed by pyoxigraph. Both give the same result,
as tests check. A bad line costs only itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import Mask, to_arrow, to_text
from fivestar.graph.rdf_terms import IRI, LITERAL, PREDICTION_GRAPH, SPECIAL_TYPES
from fivestar.graph.readers import streams
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.delimited import MAX_LINE_BYTES, TOO_LONG, reject_overlong
from fivestar.graph.readers.statements import (
    QUOTED,
    Statements,
    StatementSorter,
    Terms,
    parser_reason,
    term_text,
)
from fivestar.graph.readers.streams import BYTE_ORDER_MARK, Block, line_blocks, refuse_binary
from fivestar.graph.vocabulary import NAME_TYPE

Row = tuple[str, str, str, str]
_Rows = npt.NDArray[np.int64]
_OXIGRAPH_NAMES = {"nt": "N_TRIPLES", "nq": "N_QUADS"}
_SAMPLE_BYTES = 1 << 12
# Smaller than blocks of text, since the intermediate arrays are several times as large.
_BLOCK_BYTES = 4 << 20
_PLAIN_TERM = rf"^(?:<(?:{IRI})>|{LITERAL})$"
_PREDICTIONS = f" {PREDICTION_GRAPH}".encode()
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def quad_terms(quad: Any) -> Row:
    """Return the terms of a statement of pyoxigraph; the default graph is an empty string."""
    subject, predicate, item, graph = quad
    graph_name = str(graph)
    return (
        str(subject),
        str(predicate),
        term_text(item),
        "" if graph_name == "DEFAULT" else graph_name,
    )


class LineReader:
    """Read a file of N-Triples ("nt") or N-Quads ("nq")."""

    def __init__(self, oxigraph: Any, file_format: str, options: ReadOptions, tally: Tally) -> None:
        self._parse = oxigraph.parse
        self._format = getattr(oxigraph.RdfFormat, _OXIGRAPH_NAMES[file_format])
        self._is_nquads = file_format == "nq"
        self._options = options
        self._tally = tally

    def read(self, stream: BinaryIO) -> Iterator[TripleColumns]:
        """Yield the facts of all lines in blocks."""
        sorter = StatementSorter(self._options, self._tally)
        size = min(streams.BLOCK_BYTES, _BLOCK_BYTES)
        for number, block in enumerate(line_blocks(stream, size)):
            if number == 0:
                block = self._first_block(block)  # noqa: PLW2901
            if block.overlong:
                reject_overlong(block, self._options, self._tally)
                continue
            before = self._tally.lines
            statements, rows = self._statements(block)
            yield from sorter.sort(statements, before + 1 + rows)
        yield from sorter.finish()

    def _first_block(self, block: Block) -> Block:
        sample = bytes(memoryview(block.buffer)[block.start : block.end][:_SAMPLE_BYTES])
        refuse_binary(sample, self._tally.source)
        has_mark = block.starts_with(BYTE_ORDER_MARK)
        return block.without(len(BYTE_ORDER_MARK)) if has_mark else block

    def _statements(self, block: Block) -> tuple[Statements, _Rows]:
        """Return the statements of a block in order, and their lines."""
        text = bytes(memoryview(block.buffer)[block.start : block.end])
        lines = _Lines(text)
        before = self._tally.lines
        self._tally.lines += len(lines.starts)
        statements, plain = lines.plain_statements(has_graphs=self._is_nquads)
        if plain.all():
            return statements, np.arange(len(plain))
        others = self._parse_lines(
            {row: lines.line(row) for row in np.flatnonzero(~plain).tolist()}, before + 1
        )
        return _merge(statements, np.flatnonzero(plain), others)

    def _parse_lines(self, lines: dict[int, bytes], first: int) -> dict[int, Row]:
        """Return the statements of lines by row, parsed by pyoxigraph."""
        parsable: dict[int, bytes] = {}
        reasons: dict[int, str] = {}
        for row, raw in lines.items():
            line = raw.removesuffix(b"\r")
            if not line.strip(b" \t") or line.lstrip(b" \t").startswith(b"#"):
                self._tally.blanks += 1
            elif self._options.graphs is None and _is_prediction(line):
                self._tally.other_graphs += 1
            elif problem := _problem(line, max_quoted=0 if self._options.weight is None else 1):
                reasons[row] = problem
            else:
                parsable[row] = line
        statements = self._parse_together(parsable)
        if statements is None:
            statements = self._parse_singly(parsable, reasons)
        for row in sorted(reasons):
            text = lines[row][:1_000].decode("utf-8", "backslashreplace")
            self._tally.reject(first + row, reasons[row], text, self._options)
        return statements

    def _parse_together(self, lines: dict[int, bytes]) -> dict[int, Row] | None:
        """Return the statement of each line, or None if any line is wrong."""
        try:
            text = b"\n".join(lines.values())
            rows = [quad_terms(quad) for quad in self._parse(text, format=self._format)]
        except (SyntaxError, MemoryError):
            return None
        return dict(zip(lines, rows, strict=True)) if len(rows) == len(lines) else None

    def _parse_singly(self, lines: dict[int, bytes], reasons: dict[int, str]) -> dict[int, Row]:
        """Return the statements of the good lines, and note the reasons of the others."""
        statements = {}
        for row, line in lines.items():
            try:
                (quad,) = self._parse(line, format=self._format)
                statements[row] = quad_terms(quad)
            except (SyntaxError, MemoryError) as error:
                reasons[row] = f"is not a statement: {parser_reason(error)}"
        return statements


class _Lines:
    """The lines of a block, and their fields."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._bytes = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(self._bytes == ord("\n"))
        if len(text) and (not len(ends) or ends[-1] < len(text) - 1):
            ends = np.append(ends, len(text))
        self.starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        self._ends = ends

    def line(self, row: int) -> bytes:
        """Return a line without its line feed."""
        return self.text[self.starts[row] : self._ends[row]]

    def plain_statements(self, *, has_graphs: bool) -> tuple[Statements, Mask]:
        """Return the statements of the plain lines, and a mask of these lines.

        A plain line is subject, predicate, object and optionally a graph, separated by one space,
        with a space and a dot at the end; every term is written as pyoxigraph would write it.
        """
        try:
            self.text.decode("utf-8")
        except UnicodeDecodeError:
            return Statements.of([]), np.zeros(len(self.starts), bool)
        spaces = np.flatnonzero(self._bytes == ord(" "))
        first = np.searchsorted(spaces, self.starts)
        ends = self._ends - (self._at(self._ends - 1) == ord("\r"))
        last = np.searchsorted(spaces, ends - 2)  # the space before the dot
        plain = (last - first >= 2) & (ends - self.starts <= MAX_LINE_BYTES)
        plain &= (self._at(ends - 1) == ord(".")) & (self._at(ends - 2) == ord(" "))
        rows = np.flatnonzero(plain)
        first, last, ends = first[rows], last[rows], ends[rows] - 2
        # A graph is the last of four fields; a literal with spaces ends with a quote or a type.
        before_graph = spaces[last - 1]
        has_graph = (last - first > 2) & (self._at(before_graph + 1) == ord("<"))
        has_graph &= (self._at(ends - 1) == ord(">")) & has_graphs
        object_ends = np.where(has_graph, before_graph, ends)
        bounds = [self.starts[rows], spaces[first], spaces[first] + 1, spaces[first + 1]]
        bounds += [spaces[first + 1] + 1, object_ends, np.minimum(object_ends + 1, ends), ends]
        columns = [Terms.of(column) for column in _slice(self.text, np.stack(bounds, axis=1))]
        good = np.ones(len(rows), bool)
        for column, valid in zip(columns, (_is_iri, _is_iri, _is_term, _is_graph), strict=True):
            good &= column.where(valid)
        plain[rows[~good]] = False
        return Statements(*columns).take(good), plain

    def _at(self, positions: _Rows) -> npt.NDArray[np.uint8]:
        """Return the bytes at positions; 0 outside of the text."""
        if not len(self._bytes):
            return np.zeros(len(positions), np.uint8)
        inside = self._bytes[np.clip(positions, 0, len(self._bytes) - 1)]
        is_inside = (positions >= 0) & (positions < len(self._bytes))
        return np.where(is_inside, inside, 0).astype(np.uint8)


def _slice(text: bytes, bounds: npt.NDArray[np.int64]) -> list[pa.Array]:
    """Return the slices of a text between the 1st and 2nd bound, the 3rd and 4th, and so on.

    Bounds increase, so the slices and the gaps between them are one array without a copy.
    """
    offsets = np.append(bounds.ravel(), bounds.ravel()[-1:] if bounds.size else 0)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(text)]
    slices = pa.Array.from_buffers(NAME_TYPE, len(offsets) - 1, buffers)
    width = bounds.shape[1]
    rows = np.arange(0, bounds.size, width)
    return [slices.take(to_arrow(rows + column)) for column in range(0, width, 2)]


def _is_iri(terms: pa.Array) -> pa.Array:
    return pc.match_substring_regex(terms, f"^<(?:{IRI})>$")


def _is_graph(terms: pa.Array) -> pa.Array:
    return pc.or_(_is_iri(terms), pc.equal(terms, to_text("")))


def _is_term(terms: pa.Array) -> pa.Array:
    """Return a mask of IRIs and literals that are written as pyoxigraph would write them."""
    valid = pc.match_substring_regex(terms, _PLAIN_TERM)
    for ending in SPECIAL_TYPES:
        valid = pc.and_not(valid, pc.ends_with(terms, ending))
    return valid


def _is_prediction(line: bytes) -> bool:
    """Return whether a line has a quoted triple in the graph of predicted links (N-Quads)."""
    return b"<<" in line and line.rstrip(b" .\t").endswith(_PREDICTIONS)


def _problem(line: bytes, max_quoted: int) -> str:
    """Return what is wrong with a line that must not be parsed, or an empty string."""
    if len(line) > MAX_LINE_BYTES:
        return TOO_LONG
    if b"\r" in line:
        return (
            "contains a carriage return; if the lines of the file end with CR, "
            "convert it: tr '\\r' '\\n'"
        )
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return (
            f"is not UTF-8 (byte 0x{line[error.start]:02x}); if the whole file is in another "
            "encoding, convert it: iconv -f latin1 -t utf-8"
        )
    # Nested quoted triples can exhaust the stack of the parser.
    if b"<<" in line and _STRING.sub(b"", line).count(b"<<") > max_quoted:
        return QUOTED
    return ""


def _merge(plain: Statements, rows: _Rows, parsed: dict[int, Row]) -> tuple[Statements, _Rows]:
    """Return plain and parsed statements in the order of the file."""
    others = Statements.of(list(parsed.values()))
    all_rows = np.concatenate([rows, np.fromiter(parsed, np.int64, len(parsed))])
    order = np.argsort(all_rows, kind="stable")
    columns = []
    for mine, theirs in zip(plain, others, strict=True):
        distinct = pa.chunked_array([mine.distinct, theirs.distinct], NAME_TYPE).combine_chunks()
        codes = np.concatenate([mine.codes, theirs.codes + np.int32(len(mine.distinct))])
        columns.append(Terms(codes[order].astype(np.int32), distinct))
    return Statements(*columns), all_rows[order]
