"""Triples as tab- or comma-separated text, Parquet or Arrow (Feather)."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fivestar.errors import OutputError
from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.readers.dialect import header_columns
from fivestar.graph.readers.streams import looks_binary
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.graph.writers.base import WriteOptions, concatenated, weight_column

_HEADER = ("head", "relation", "tail")
_SAMPLE_BYTES = 1 << 16
_NAME_FIELDS = [(title, NAME_TYPE) for title in _HEADER]
_WEIGHT_FIELD = [("weight", pa.float64())]
_SPLIT_FIELD = [("split", pa.dictionary(pa.int8(), pa.string()))]
_SPLITS = pa.array(["train", "valid", "test"])


class TextSink:
    """Write unquoted tab-separated or quoted comma-separated lines, which read back the same.

    Weights are a fourth column, named in a header.
    """

    def __init__(self, stream: BinaryIO, name: str, delimiter: str, options: WriteOptions) -> None:
        self._stream = stream
        self._name = name
        self._delimiter = delimiter
        self._has_weights = options.weights == "include"
        self._quote = '"' if delimiter == "," else ""
        self._sample = b""
        self._is_empty = True

    def write(self, piece: TripleColumns) -> None:
        """Write lines."""
        if not len(piece.heads):
            return
        names = [column.cast(NAME_TYPE) for column in piece.names]
        for column in names:
            self._check_characters(column)
        if self._is_empty:
            self._write_start([column[0].as_py() for column in names])
        columns = [_quoted(column, self._delimiter, self._quote) for column in names]
        if self._has_weights:
            columns.append(pa.chunked_array([weight_column(piece).cast(NAME_TYPE)]))
        lines = pc.binary_join_element_wise(*columns, pa.scalar(self._delimiter, NAME_TYPE))
        end, empty = pa.scalar("\n", NAME_TYPE), pa.scalar("", NAME_TYPE)
        for chunk in lines.chunks:
            self._put(concatenated(pc.binary_join_element_wise(chunk, end, empty)))

    def write_annotations(self, annotations: Annotations) -> None:
        """Do nothing: text has no place for annotations."""

    def close(self) -> None:
        """Check that readers will recognize the file as text."""
        if looks_binary(self._sample):
            raise OutputError(
                f"{self._name}: the names contain too many control characters for readers "
                "to recognize the file as text; write .parquet"
            )

    def _write_start(self, first: list[str]) -> None:
        self._is_empty = False
        # A first triple that looks like a header would be read as one.
        if self._has_weights or header_columns(first) is not None:
            header = (*_HEADER, "weight") if self._has_weights else _HEADER
            self._put(f"{self._delimiter.join(header)}\n".encode())
        # Readers drop one byte order mark at the beginning of a file.
        elif first[0].startswith("\ufeff"):
            self._put("\ufeff".encode())

    def _check_characters(self, names: pa.ChunkedArray) -> None:
        invalid = "\n\r\0" + ("" if self._quote else self._delimiter)
        matches = pc.match_substring_regex(names, f"[{invalid}]")
        if pc.any(matches).as_py():
            name = names.filter(matches)[0].as_py()
            character = next(c for c in name if c in invalid)
            advice = (
                "write .csv or .parquet"
                if character == "\t"
                else "use save_graph or write .parquet"
            )
            raise OutputError(
                f"{self._name}: the name {name!r} contains {character!r}, which this format cannot "
                f"represent; {advice}"
            )

    def _put(self, content: bytes | memoryview) -> None:
        if len(self._sample) < _SAMPLE_BYTES:
            self._sample += bytes(content[: _SAMPLE_BYTES - len(self._sample)])
        self._stream.write(content)


def _quoted(column: pa.ChunkedArray, delimiter: str, quote: str) -> pa.ChunkedArray:
    if not quote:
        return column
    needs_quotes = pc.match_substring_regex(column, f"[\t{delimiter}{quote}]")
    doubled = pc.replace_substring(column, quote, quote * 2)
    around, empty = pa.scalar(quote, column.type), pa.scalar("", column.type)
    quoted = pc.binary_join_element_wise(around, doubled, around, empty)
    return pc.if_else(needs_quotes, quoted, column)


class ColumnarSink:
    """Write a table with the columns head, relation, tail and optionally weight and split."""

    def __init__(self, stream: BinaryIO, file_format: str, options: WriteOptions) -> None:
        self._has_splits = options.splits == "include"
        self._has_weights = options.weights == "include"
        self._schema = pa.schema(
            _NAME_FIELDS
            + (_WEIGHT_FIELD if self._has_weights else [])
            + (_SPLIT_FIELD if self._has_splits else [])
        )
        if file_format == "parquet":
            self._writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        else:
            self._writer = pa.ipc.new_file(stream, self._schema)

    def write(self, piece: TripleColumns) -> None:
        """Write rows."""
        columns = [column.cast(NAME_TYPE) for column in piece.names]
        if self._has_weights:
            columns.append(weight_column(piece))
        if self._has_splits:
            code = _SPLITS.to_pylist().index(piece.split)
            codes = pa.repeat(pa.scalar(code, pa.int8()), len(piece.heads))
            columns.append(pa.DictionaryArray.from_arrays(codes, _SPLITS))
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def write_annotations(self, annotations: Annotations) -> None:
        """Do nothing: a table of triples has no place for annotations."""

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()
