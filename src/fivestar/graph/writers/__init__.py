"""Writers of files; the file extension selects the format."""

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
from fivestar.graph.readers.streams import COMPRESSED, suffix_of
from fivestar.graph.writers.base import Sink, WriteOptions
from fivestar.graph.writers.rdf import RdfSink
from fivestar.graph.writers.tabular import ColumnarSink, TextSink

# Formats by file extension.
FORMATS = {
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
FORMATS_WITH_SPLITS = frozenset({"nq", "parquet", "arrow"})
FORMATS_WITH_ANNOTATIONS = frozenset({"nt", "nq", "ttl"})


def output_format(path: Path) -> str | None:
    """Return the format of an output file by its name; None if there is no such format.

    >>> output_format(Path("graph.nt.gz")), output_format(Path("graph"))
    ('nt', None)
    """
    return FORMATS.get(suffix_of(path))


def folder_file_ending(to: str) -> str:
    """Return the file extension, without its dot, for the files of a folder.

    Raises:
        OutputError: There is no such format.

    >>> folder_file_ending(".NT.gz")
    'nt.gz'
    """
    ending = to.lower().removeprefix(".")
    if output_format(Path(f"train.{ending}")) is None:
        endings = ", ".join(suffix.removeprefix(".") for suffix in FORMATS)
        raise OutputError(f"to={to!r} is not an output format; use one of {endings}")
    return ending


@contextmanager
def open_sink(path: Path, draft: Path, options: WriteOptions) -> Iterator[Sink]:
    """Open an output file.

    Args:
        path: the final path, which selects format and compression.
        draft: the path to write to.
        options: how to write splits, blank nodes and literals.

    Raises:
        OutputError: if the format cannot be compressed or cannot include splits.
    """
    file_format = output_format(path)
    if file_format in ("parquet", "arrow") and path.suffix.lower() in COMPRESSED:
        raise OutputError(f"{path}: {file_format} is compressed already; omit {path.suffix}")
    if options.splits == "include" and file_format not in FORMATS_WITH_SPLITS:
        raise OutputError(f"{path}: this format cannot include splits")
    with ExitStack() as stack:
        file = stack.enter_context(draft.open("wb"))
        stream = stack.enter_context(_compressed(file, path.suffix.lower()))
        if file_format in ("tsv", "csv"):
            delimiter = "," if file_format == "csv" else "\t"
            sink: Sink = TextSink(stream, path.name, delimiter, options)
        elif file_format in ("parquet", "arrow"):
            sink = ColumnarSink(stream, file_format, options)
        else:
            sink = RdfSink(stream, options)
        yield sink
        sink.close()


@contextmanager
def _compressed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":
        # Without a timestamp, so that the same graph gives the same file.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as compressed:
            yield cast("BinaryIO", compressed)
    elif suffix == ".bz2":
        with bz2.BZ2File(file, "wb") as compressed_bz2:
            yield cast("BinaryIO", compressed_bz2)
    elif suffix == ".xz":
        with lzma.LZMAFile(file, "wb") as compressed_xz:
            yield cast("BinaryIO", compressed_xz)
    elif suffix == ".zst":
        with pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd") as compressed_zst:
            yield cast("BinaryIO", compressed_zst)
    else:
        yield file
