"""Parquet, Arrow and Feather files, read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from fivestar.errors import BadSource
from fivestar.graph.choices import FormatName
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.frames import TablePlan
from fivestar.graph.readers.streams import suffix_of

_BATCH_SIZE = 100_000
_PARQUET = b"PAR1"
_ARROW = b"ARROW1"
_OLD_FEATHER = b"FEA1"


class ColumnarReader:
    """Read tables in columnar files."""

    formats: ClassVar[Formats] = {
        "parquet": (".parquet", ".pq"),
        "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    }

    def accepts(self, source: object) -> bool:
        """Return whether it is a file with one of these extensions."""
        return isinstance(source, Path) and any(
            suffix_of(source) in endings for endings in self.formats.values()
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples of a file in batches."""
        path = Path(str(source))
        tally.unit = "row"
        file_format = options.format or self._format_of(path)
        try:
            magic = _first_bytes(path)
            if file_format == "parquet":
                yield from _read_parquet(path, magic, options, tally)
            else:
                yield from _read_arrow(path, magic, options, tally)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadSource(
                f"{path}: the file is damaged or cut short ({reason}); write or download it again"
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadSource(f"{path}: cannot be read: {reason}") from error

    def _format_of(self, path: Path) -> FormatName:
        return "parquet" if suffix_of(path) in self.formats["parquet"] else "arrow"


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _read_parquet(
    path: Path, magic: bytes, options: ReadOptions, tally: Tally
) -> Iterator[TripleColumns]:
    if not magic.startswith(_PARQUET):
        raise BadSource(f"{path}: is not a Parquet file; {_advice(magic)}")
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        plan = TablePlan.of(schema, options, tally.source)
        if len(set(schema.names)) != len(schema.names):
            raise BadSource(f"{path}: several columns have the same name; rename them")
        names = [schema.names[column] for column in plan.columns]
        narrowed = plan.narrowed()
        for batch in file.iter_batches(_BATCH_SIZE, columns=names):
            yield from _read_validated(batch, narrowed, options, tally)


def _read_arrow(
    path: Path, magic: bytes, options: ReadOptions, tally: Tally
) -> Iterator[TripleColumns]:
    if magic.startswith(_OLD_FEATHER):
        raise BadSource(f"{path}: is a Feather file of version 1; write it as version 2")
    with pa.memory_map(str(path)) as mapped:
        if magic.startswith(_ARROW):
            reader = pa.ipc.open_file(mapped)
            batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        else:
            try:
                reader = pa.ipc.open_stream(mapped)
            except (pa.ArrowException, OSError):  # an OSError without errno, of invalid content
                raise BadSource(f"{path}: is not an Arrow file; {_advice(magic)}") from None
            batches = iter(reader)
        plan = TablePlan.of(reader.schema, options, tally.source)
        for batch in batches:
            yield from _read_validated(batch, plan, options, tally)


def _read_validated(
    batch: pa.RecordBatch, plan: TablePlan, options: ReadOptions, tally: Tally
) -> Iterator[TripleColumns]:
    """Read a batch after validating its buffers, which a damaged file may describe wrongly."""
    for column in plan.columns:
        batch.column(column).validate(full=True)
    yield from plan.read(batch, options, tally)


def _advice(magic: bytes) -> str:
    compressed = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"BZh": "bunzip2"}
    for start, tool in compressed.items():
        if magic.startswith(start):
            return f"it is compressed as a whole, which is not supported: {tool} it first"
    if magic.startswith(_PARQUET):
        return "it is a Parquet file: name it .parquet or pass format='parquet'"
    if magic.startswith(_ARROW):
        return "it is an Arrow file: name it .arrow or pass format='arrow'"
    return "if it is text, name it .tsv or pass format='text'"
