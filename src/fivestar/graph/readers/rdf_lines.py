"""N-Triples and N-Quads: RDF with one statement a line, at any size.

A block of lines is read in two ways. Lines of plain IRIs, which are most, are taken apart by one
regular expression over the whole block; all others go to pyoxigraph. Both ways give the same: tests
hold them against each other. A bad line costs itself only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import Mask, to_arrow, to_mask
from fivestar.graph.rdf_terms import IRI
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.blocks import Block, line_blocks
from fivestar.graph.readers.compression import refuse_binary
from fivestar.graph.readers.delimited import LONGEST_LINE, TOO_LONG, reject_overlong
from fivestar.graph.readers.statements import QUOTED, Sorter, Statements
from fivestar.graph.vocabulary import NAME_TYPE

Terms = tuple[str, str, str, str]
_Rows = npt.NDArray[np.int64]
_OXIGRAPH_NAMES = {"nt": "N_TRIPLES", "nq": "N_QUADS"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SAMPLE_BYTES = 1 << 12
_PLAIN = r'<[^\x00-\x20<>"{}|^`\\]*>'
_PLAIN_LINE = {
    "nt": rf"^(?P<s>{_PLAIN}) (?P<p>{_PLAIN}) (?P<o>{_PLAIN}) \.\r?\n?$",
    "nq": rf"^(?P<s>{_PLAIN}) (?P<p>{_PLAIN}) (?P<o>{_PLAIN})(?: (?P<g>{_PLAIN}))? \.\r?\n?$",
}
_VALID = f"^<(?:{IRI})>$"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PLACE = re.compile(r"^Parser error at .*?: | \(line \d+\)$")


def terms_of(quad: Any) -> Terms:
    """A statement of pyoxigraph as terms; the graph without a name is an empty string."""
    subject, predicate, item, graph = quad
    named = str(graph)
    return str(subject), str(predicate), str(item), "" if named == "DEFAULT" else named


class LineReader:
    """Reads one file of N-Triples ("nt") or N-Quads ("nq")."""

    def __init__(self, oxigraph: Any, kind: str, options: ReadOptions, tally: Tally) -> None:
        self._parse = oxigraph.parse
        self._format = getattr(oxigraph.RdfFormat, _OXIGRAPH_NAMES[kind])
        self._plain_line = _PLAIN_LINE[kind]
        self._options = options
        self._tally = tally

    def read(self, stream: BinaryIO) -> Iterator[TripleColumns]:
        """The facts of all lines, block by block."""
        sorter = Sorter(self._options, self._tally)
        for number, block in enumerate(line_blocks(stream)):
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
        marked = block.starts_with(_BYTE_ORDER_MARK)
        return block.without(len(_BYTE_ORDER_MARK)) if marked else block

    def _statements(self, block: Block) -> tuple[Statements, _Rows]:
        """The statements of a block in order, and the lines that they are on."""
        text = bytes(memoryview(block.buffer)[block.start : block.end])
        offsets = _line_offsets(text)
        before = self._tally.lines
        self._tally.lines += len(offsets) - 1
        found, rows = self._plain(text, offsets)
        if len(rows) == len(offsets) - 1:
            return found, rows
        others = np.setdiff1d(np.arange(len(offsets) - 1), rows, assume_unique=True)
        lines = {int(at): text[offsets[at] : offsets[at + 1]] for at in others}
        more = self._careful(lines, before + 1)
        return _merged(found, rows, more)

    def _plain(self, text: bytes, offsets: _Rows) -> tuple[Statements, _Rows]:
        """Lines of valid IRIs and nothing else."""
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        lines = pa.Array.from_buffers(NAME_TYPE, len(offsets) - 1, buffers)
        try:
            lines.validate(full=True)
        except pa.ArrowInvalid:  # somewhere it is not UTF-8
            return Statements.of([]), np.empty(0, np.int64)
        found = pc.extract_regex(lines, self._plain_line)
        good = to_mask(found.is_valid()) & (np.diff(offsets) <= LONGEST_LINE)
        columns = found.flatten()
        for column in columns:
            good &= _are_valid(column)
        if len(columns) == 3:
            columns.append(pa.repeat(pa.scalar("", NAME_TYPE), len(lines)))
        return Statements(*columns).take(good), np.flatnonzero(good)

    def _careful(self, lines: dict[int, bytes], first: int) -> dict[int, Terms]:
        """The statements of lines by their row, each line looked at by itself."""
        promising: dict[int, bytes] = {}
        for row, raw in lines.items():
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if not line.strip(b" \t") or line.lstrip(b" \t").startswith(b"#"):
                self._tally.blanks += 1
            elif reason := _what_is_wrong(line):
                self._reject(first + row, reason, line)
            else:
                promising[row] = line
        found = self._parsed_at_once(list(promising.values()))
        if found is not None:
            return dict(zip(promising, found, strict=True))
        statements: dict[int, Terms] = {}
        for row, line in promising.items():
            try:
                (quad,) = self._parse(line, format=self._format)
                statements[row] = terms_of(quad)
            except (SyntaxError, MemoryError) as error:
                reason = _PLACE.sub("", str(error))
                self._reject(first + row, f"is no statement: {reason}", line)
        return statements

    def _parsed_at_once(self, lines: list[bytes]) -> list[Terms] | None:
        """The statement of each line, or None if there is something wrong somewhere."""
        try:
            found = [terms_of(quad) for quad in self._parse(b"\n".join(lines), format=self._format)]
        except (SyntaxError, MemoryError):
            return None
        return found if len(found) == len(lines) else None

    def _reject(self, number: int, reason: str, line: bytes) -> None:
        shown = line[:1_000].decode("utf-8", "backslashreplace")
        self._tally.reject(number, reason, shown, self._options)


def _line_offsets(text: bytes) -> _Rows:
    """Where each line begins, and where the last one ends."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    unfinished = [len(text)] if not len(ends) or ends[-1] < len(text) else []
    return np.concatenate([[0], ends, unfinished]).astype(np.int64)


def _are_valid(terms: pa.Array) -> Mask:
    """Which of these are IRIs, or nothing (a graph without a name)."""
    coded = terms.dictionary_encode()
    known = coded.dictionary
    valid = pc.or_(pc.match_substring_regex(known, _VALID), pc.equal(known, pa.scalar("")))
    found = to_mask(pc.fill_null(valid, fill_value=False))
    if found.all():
        return to_mask(coded.is_valid())
    return found[pc.fill_null(coded.indices, 0).to_numpy()]  # type: ignore[no-any-return]


def _what_is_wrong(line: bytes) -> str:
    """What the parser should not even be asked about."""
    if len(line) > LONGEST_LINE:
        return TOO_LONG
    if b"\r" in line:
        return "holds a carriage return within; if the file has old line ends, convert it: tr '\\r' '\\n'"
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


def _merged(found: Statements, rows: _Rows, more: dict[int, Terms]) -> tuple[Statements, _Rows]:
    """Both kinds of lines in the order of the file."""
    others = Statements.of(list(more.values()))
    all_rows = np.concatenate([rows, np.fromiter(more, np.int64, len(more))])
    order = np.argsort(all_rows, kind="stable")
    places = to_arrow(order)
    joined = (pa.concat_arrays(pair) for pair in zip(found, others, strict=True))
    return Statements(*(column.take(places) for column in joined)), all_rows[order]
