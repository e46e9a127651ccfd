"""Triples as Parquet or Arrow (Feather)."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.graph.writers.base import WriteChoices

_NAMES = [(title, NAME_TYPE) for title in ("head", "relation", "tail")]
_SPLIT = [("split", pa.dictionary(pa.int8(), pa.string()))]
_SPLITS = pa.array(["train", "valid", "test"])


class ColumnarSink:
    """Writes a table with the columns head, relation and tail, and split where splits are told."""

    def __init__(self, stream: BinaryIO, kind: str, choices: WriteChoices) -> None:
        self._told = choices.splits == "told"
        self._schema = pa.schema(_NAMES + (_SPLIT if self._told else []))
        if kind == "parquet":
            self._writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        else:
            self._writer = pa.ipc.new_file(stream, self._schema)

    def write(self, piece: TripleColumns) -> None:
        """Add rows."""
        columns = [column.cast(NAME_TYPE) for column in piece.names]
        if self._told:
            code = _SPLITS.to_pylist().index(piece.split)
            codes = pa.repeat(pa.scalar(code, pa.int8()), len(piece.heads))
            columns.append(pa.DictionaryArray.from_arrays(codes, _SPLITS))
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def tell(self, told: Annotations) -> None:
        """A table of triples has no place for labels."""

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()
