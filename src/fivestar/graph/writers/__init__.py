"""One module a format. What a file becomes is told by how its name ends."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from fivestar.errors import OutputError
from fivestar.graph.readers.compression import SUFFIXES as PACKED
from fivestar.graph.readers.compression import suffix_of
from fivestar.graph.writers.base import Sink, WriteChoices
from fivestar.graph.writers.columnar import ColumnarSink
from fivestar.graph.writers.rdf import RdfSink
from fivestar.graph.writers.text import TextSink

# What each ending means.
WRITTEN = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".nq": "nq",
    ".ttl": "ttl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
KEEPS_SPLITS = frozenset({"nq", "parquet", "arrow"})
KEEPS_ANNOTATIONS = frozenset({"nt", "nq", "ttl"})


def format_written(path: Path) -> str | None:
    """The format that a file of this name is written in; None if there is no such.

    >>> format_written(Path("graph.nt.gz")), format_written(Path("graph"))
    ('nt', None)
    """
    return WRITTEN.get(suffix_of(path))


@contextmanager
def open_sink(path: Path, draft: Path, choices: WriteChoices) -> Iterator[Sink]:
    """A sink for a file that is to be called `path` and is written under the name `draft`."""
    kind = format_written(path)
    if kind in ("parquet", "arrow") and path.suffix.lower() in PACKED:
        raise OutputError(f"{path}: {kind} is packed within; leave {path.suffix} out")
    if choices.splits == "told" and kind not in KEEPS_SPLITS:
        raise OutputError(f"{path}: this format cannot tell splits apart")
    with ExitStack() as stack:
        file = stack.enter_context(draft.open("wb"))
        stream = stack.enter_context(_packed(file, path.suffix.lower()))
        if kind in ("tsv", "csv"):
            sink: Sink = TextSink(stream, path.name, "," if kind == "csv" else "\t")
        elif kind in ("parquet", "arrow"):
            sink = ColumnarSink(stream, kind, choices)
        else:
            sink = RdfSink(stream, choices)
        yield sink
        sink.close()


@contextmanager
def _packed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":
        # Without a time of writing, so that the same graph is the same file.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".bz2":
        with bz2.BZ2File(file, "wb") as packed_bz2:
            yield cast("BinaryIO", packed_bz2)
    elif suffix == ".xz":
        with lzma.LZMAFile(file, "wb") as packed_xz:
            yield cast("BinaryIO", packed_xz)
    elif suffix == ".zst":
        with pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd") as packed_zst:
            yield cast("BinaryIO", packed_zst)
    else:
        yield file
