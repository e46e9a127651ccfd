"""N-Triples and N-Quads: RDF with one statement a line, at any size.

A block of lines is read in two ways. Plain lines, which are most, are cut into terms all at once,
and each distinct term is checked; all others go to pyoxigraph. Both ways give the same: tests hold
them against each other. A bad line costs itself only.
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
from fivestar.graph.rdf_terms import IRI, LITERAL, SPECIAL_TYPES
from fivestar.graph.readers import blocks
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.blocks import Block, line_blocks
from fivestar.graph.readers.compression import BYTE_ORDER_MARK, refuse_binary
from fivestar.graph.readers.delimited import LONGEST_LINE, TOO_LONG, reject_overlong
from fivestar.graph.readers.statements import QUOTED, Sorter, Statements, Terms, reason, term_text
from fivestar.graph.vocabulary import NAME_TYPE

Row = tuple[str, str, str, str]
_Rows = npt.NDArray[np.int64]
_OXIGRAPH_NAMES = {"nt": "N_TRIPLES", "nq": "N_QUADS"}
_SAMPLE_BYTES = 1 << 12
# Smaller than those of text: what is worked out beside them is several times as large.
_BLOCK_BYTES = 4 << 20
_PLAIN_TERM = rf"^(?:<(?:{IRI})>|{LITERAL})$"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def terms_of(quad: Any) -> Row:
    """A statement of pyoxigraph as terms; the graph without a name is an empty string."""
    subject, predicate, item, graph = quad
    named = str(graph)
    return str(subject), str(predicate), term_text(item), "" if named == "DEFAULT" else named


class LineReader:
    """Reads one file of N-Triples ("nt") or N-Quads ("nq")."""

    def __init__(self, oxigraph: Any, kind: str, options: ReadOptions, tally: Tally) -> None:
        self._parse = oxigraph.parse
        self._format = getattr(oxigraph.RdfFormat, _OXIGRAPH_NAMES[kind])
        self._kind = kind
        self._options = options
        self._tally = tally

    def read(self, stream: BinaryIO) -> Iterator[TripleColumns]:
        """The facts of all lines, block by block."""
        sorter = Sorter(self._options, self._tally)
        size = min(blocks.BLOCK_BYTES, _BLOCK_BYTES)
        for number, block in enumerate(line_blocks(stream, size)):
            if number == 0:
                block = self._begun(block)  # noqa: PLW2901
            if block.overlong:
                reject_overlong(block, self._options, self._tally)
                continue
            before = self._tally.lines
            statements, rows = self._statements(block)
            yield from sorter.sort(statements, before + 1 + rows)

    def _begun(self, block: Block) -> Block:
        sample = bytes(memoryview(block.buffer)[block.start : block.end][:_SAMPLE_BYTES])
        refuse_binary(sample, self._tally.source)
        marked = block.starts_with(BYTE_ORDER_MARK)
        return block.without(len(BYTE_ORDER_MARK)) if marked else block

    def _statements(self, block: Block) -> tuple[Statements, _Rows]:
        """The statements of a block in order, and the lines that they are on."""
        text = bytes(memoryview(block.buffer)[block.start : block.end])
        lines = _Lines(text)
        before = self._tally.lines
        self._tally.lines += len(lines.starts)
        found, plain = lines.plain_statements(self._kind)
        if plain.all():
            return found, np.arange(len(plain))
        careful = self._careful(
            {row: lines.line(row) for row in np.flatnonzero(~plain).tolist()}, before + 1
        )
        return _merged(found, np.flatnonzero(plain), careful)

    def _careful(self, lines: dict[int, bytes], first: int) -> dict[int, Row]:
        """The statements of lines by their row, each line looked at by itself."""
        promising: dict[int, bytes] = {}
        reasons: dict[int, str] = {}
        for row, raw in lines.items():
            line = raw.removesuffix(b"\r")
            if not line.strip(b" \t") or line.lstrip(b" \t").startswith(b"#"):
                self._tally.blanks += 1
            elif wrong := _what_is_wrong(line):
                reasons[row] = wrong
            else:
                promising[row] = line
        statements = self._parsed_at_once(promising)
        if statements is None:
            statements = self._parsed_singly(promising, reasons)
        for row in sorted(reasons):
            shown = lines[row][:1_000].decode("utf-8", "backslashreplace")
            self._tally.reject(first + row, reasons[row], shown, self._options)
        return statements

    def _parsed_at_once(self, lines: dict[int, bytes]) -> dict[int, Row] | None:
        """The statement of each line, or None if there is something wrong somewhere."""
        try:
            text = b"\n".join(lines.values())
            found = [terms_of(quad) for quad in self._parse(text, format=self._format)]
        except (SyntaxError, MemoryError):
            return None
        return dict(zip(lines, found, strict=True)) if len(found) == len(lines) else None

    def _parsed_singly(self, lines: dict[int, bytes], reasons: dict[int, str]) -> dict[int, Row]:
        """The statement of each good line, and what is wrong with the others."""
        found = {}
        for row, line in lines.items():
            try:
                (quad,) = self._parse(line, format=self._format)
                found[row] = terms_of(quad)
            except (SyntaxError, MemoryError) as error:
                reasons[row] = f"is no statement: {reason(error)}"
        return found


class _Lines:
    """The lines of a block, and where their fields are."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._bytes = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(self._bytes == ord("\n"))
        if len(text) and (not len(ends) or ends[-1] < len(text) - 1):
            ends = np.append(ends, len(text))
        self.starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        self._ends = ends

    def line(self, row: int) -> bytes:
        """A line without its line feed."""
        return self.text[self.starts[row] : self._ends[row]]

    def plain_statements(self, kind: str) -> tuple[Statements, Mask]:
        """What stands on the plain lines, and which lines these are.

        Plain is: subject, predicate and object with one space between, perhaps a graph, and a space
        and a dot at the end, where every term is written as pyoxigraph would write it.
        """
        try:
            self.text.decode("utf-8")
        except UnicodeDecodeError:
            return Statements.of([]), np.zeros(len(self.starts), bool)
        spaces = np.flatnonzero(self._bytes == ord(" "))
        first = np.searchsorted(spaces, self.starts)
        ends = self._ends - (self._at(self._ends - 1) == ord("\r"))
        last = np.searchsorted(spaces, ends - 2)  # the space before the dot
        plain = (last - first >= 2) & (ends - self.starts <= LONGEST_LINE)
        plain &= (self._at(ends - 1) == ord(".")) & (self._at(ends - 2) == ord(" "))
        rows = np.flatnonzero(plain)
        first, last, ends = first[rows], last[rows], ends[rows] - 2
        # A graph is the last of four fields: a text with spaces ends with a quote or a type.
        before_graph = spaces[last - 1]
        has_graph = (last - first > 2) & (self._at(before_graph + 1) == ord("<"))
        has_graph &= (self._at(ends - 1) == ord(">")) & (kind == "nq")
        object_ends = np.where(has_graph, before_graph, ends)
        bounds = [self.starts[rows], spaces[first], spaces[first] + 1, spaces[first + 1]]
        bounds += [spaces[first + 1] + 1, object_ends, np.minimum(object_ends + 1, ends), ends]
        columns = [Terms.of(column) for column in _cut(self.text, np.stack(bounds, axis=1))]
        good = np.ones(len(rows), bool)
        for column, valid in zip(columns, (_is_iri, _is_iri, _is_term, _is_graph), strict=True):
            good &= column.where(valid)
        plain[rows[~good]] = False
        return Statements(*columns).take(good), plain

    def _at(self, places: _Rows) -> npt.NDArray[np.uint8]:
        """The bytes at these places; outside of the text there is nothing to be found."""
        if not len(self._bytes):
            return np.zeros(len(places), np.uint8)
        found = self._bytes[np.clip(places, 0, len(self._bytes) - 1)]
        return np.where((places >= 0) & (places < len(self._bytes)), found, 0).astype(np.uint8)


def _cut(text: bytes, bounds: npt.NDArray[np.int64]) -> list[pa.Array]:
    """The pieces of a text between the 1st and the 2nd bound, the 3rd and the 4th, and so on.

    Bounds rise, so the pieces and what is between them are one array without a copy.
    """
    offsets = np.append(bounds.ravel(), bounds.ravel()[-1:] if bounds.size else 0)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(text)]
    every = pa.Array.from_buffers(NAME_TYPE, len(offsets) - 1, buffers)
    width = bounds.shape[1]
    places = np.arange(0, bounds.size, width)
    return [every.take(to_arrow(places + column)) for column in range(0, width, 2)]


def _is_iri(terms: pa.Array) -> pa.Array:
    return pc.match_substring_regex(terms, f"^<(?:{IRI})>$")


def _is_graph(terms: pa.Array) -> pa.Array:
    return pc.or_(_is_iri(terms), pc.equal(terms, to_text("")))


def _is_term(terms: pa.Array) -> pa.Array:
    """IRIs and literals, if they are written as pyoxigraph would write them."""
    found = pc.match_substring_regex(terms, _PLAIN_TERM)
    for ending in SPECIAL_TYPES:
        found = pc.and_not(found, pc.ends_with(terms, ending))
    return found


def _what_is_wrong(line: bytes) -> str:
    """What the parser should not even be asked about."""
    if len(line) > LONGEST_LINE:
        return TOO_LONG
    if b"\r" in line:
        return (
            "holds a carriage return within; if the file has old line ends, "
            "convert it: tr '\\r' '\\n'"
        )
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return (
            f"is not UTF-8 (byte 0x{line[error.start]:02x}); if the whole file is in another "
            "encoding, convert it: iconv -f latin1 -t utf-8"
        )
    # Quoted triples can be nested until the parser has no stack left.
    if b"<<" in line and b"<<" in _STRING.sub(b"", line):
        return QUOTED
    return ""


def _merged(found: Statements, rows: _Rows, more: dict[int, Row]) -> tuple[Statements, _Rows]:
    """Both kinds of lines in the order of the file."""
    others = Statements.of(list(more.values()))
    all_rows = np.concatenate([rows, np.fromiter(more, np.int64, len(more))])
    order = np.argsort(all_rows, kind="stable")
    columns = []
    for mine, theirs in zip(found, others, strict=True):
        known = pa.chunked_array([mine.known, theirs.known], NAME_TYPE).combine_chunks()
        codes = np.concatenate([mine.codes, theirs.codes + np.int32(len(mine.known))])
        columns.append(Terms(codes[order].astype(np.int32), known))
    return Statements(*columns), all_rows[order]
