"""Triples as text: tab-separated and unquoted, or comma-separated and quoted."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import OutputError
from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.readers.compression import looks_binary
from fivestar.graph.readers.dialect import header_columns
from fivestar.graph.vocabulary import NAME_TYPE

_HEADER = ("head", "relation", "tail")
_SAMPLE_BYTES = 1 << 16


class TextSink:
    """Writes lines that the reader of text reads back as the same triples."""

    def __init__(self, stream: BinaryIO, name: str, delimiter: str) -> None:
        self._stream = stream
        self._name = name
        self._delimiter = delimiter
        self._quote = '"' if delimiter == "," else ""
        self._sample = b""
        self._begun = False

    def write(self, piece: TripleColumns) -> None:
        """Add lines."""
        if not len(piece.heads):
            return
        names = [column.cast(NAME_TYPE) for column in piece.names]
        for column in names:
            self._refuse_marks(column)
        if not self._begun:
            self._begin([column[0].as_py() for column in names])
        columns = [_quoted(column, self._delimiter, self._quote) for column in names]
        lines = pc.binary_join_element_wise(*columns, pa.scalar(self._delimiter, NAME_TYPE))
        end = pa.scalar("\n", NAME_TYPE)
        for chunk in lines.chunks:
            self._put(bytes_of(pc.binary_join_element_wise(chunk, end, pa.scalar("", NAME_TYPE))))

    def tell(self, told: Annotations) -> None:
        """Text has no place for labels."""

    def close(self) -> None:
        """See to it that what was written will be taken for text."""
        if looks_binary(self._sample):
            raise OutputError(
                f"{self._name}: the names hold so many control characters that the file would not "
                "be taken for text; write .parquet"
            )

    def _begin(self, first: list[str]) -> None:
        self._begun = True
        # A first triple that looks like a header must not be taken for one.
        if header_columns(first) is not None:
            self._put(f"{self._delimiter.join(_HEADER)}\n".encode())
        # Readers drop one byte order mark at the beginning of a file.
        elif first[0].startswith("\ufeff"):
            self._put("\ufeff".encode())

    def _refuse_marks(self, names: pa.ChunkedArray) -> None:
        marks = "\n\r\0" + ("" if self._quote else self._delimiter)
        found = pc.match_substring_regex(names, f"[{marks}]")
        if pc.any(found).as_py():
            name = names.filter(found)[0].as_py()
            mark = next(mark for mark in name if mark in marks)
            advice = (
                "write .csv or .parquet" if mark == "\t" else "use save_graph or write .parquet"
            )
            raise OutputError(
                f"{self._name}: the name {name!r} holds {mark!r}, which this format cannot keep; "
                f"{advice}"
            )

    def _put(self, content: bytes | memoryview) -> None:
        if len(self._sample) < _SAMPLE_BYTES:
            self._sample += bytes(content[: _SAMPLE_BYTES - len(self._sample)])
        self._stream.write(content)


def bytes_of(lines: pa.Array) -> memoryview | bytes:
    """The texts of an array one after the other, without a copy."""
    _, offsets, content = lines.buffers()
    if content is None or not len(lines):
        return b""
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return memoryview(content)[bounds[0].as_py() : bounds[len(lines)].as_py()]


def _quoted(column: pa.ChunkedArray, delimiter: str, quote: str) -> pa.ChunkedArray:
    if not quote:
        return column
    needs = pc.match_substring_regex(column, f"[\t{delimiter}{quote}]")
    doubled = pc.replace_substring(column, quote, quote * 2)
    around, nothing = pa.scalar(quote, column.type), pa.scalar("", column.type)
    wrapped = pc.binary_join_element_wise(around, doubled, around, nothing)
    return pc.if_else(needs, wrapped, column)
