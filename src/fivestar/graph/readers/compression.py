"""Opening a file whatever it is packed in, told by its first bytes rather than by its name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Progress

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# A progress bar is for waits that one notices.
PROGRESS_FROM_BYTES = 50_000_000

_BINARY_FORMATS = {
    b"PK\x03\x04": "a ZIP archive (or an Office file); unpack it and give the file inside",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it and give the file inside",
    b"PAR1": "a Parquet file; name it .parquet or say --format parquet",
    b"ARROW1": "an Arrow file; name it .arrow or say --format arrow",
    b"\x89HDF": "an HDF5 file; export its triples as text",
    b"SQLite format 3": "an SQLite database; export its triples as text",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW",
    b"\xfe\xff": "UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW",
}


def suffix_of(path: Path) -> str:
    """The ending of a file name that tells the format, whatever the file is packed in.

    >>> suffix_of(Path("My.Graph.NT.gz"))
    '.nt'
    """
    name = path.name.casefold()
    for packed in SUFFIXES:
        name = name.removesuffix(packed)
    return Path(name).suffix


@contextmanager
def open_bytes(path: Path, progress: Progress | None = None) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file; anything wrong with the file itself is a `BadSource`."""
    try:
        size = path.stat().st_size
        shown = progress if size >= PROGRESS_FROM_BYTES else None
        with _Counted(path, size, shown) as raw:
            yield _unpacked(io.BufferedReader(raw))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, pa.ArrowException) as error:
        raise BadSource(
            f"{path}: the packed file is damaged or cut short ({error}); fetch it again"
        ) from error
    except OSError as error:
        if error.errno is None:  # a decompressor speaking, not the operating system
            raise BadSource(
                f"{path}: the packed file is damaged or cut short ({error}); fetch it again"
            ) from error
        raise BadSource(f"{path}: cannot be read: {error.strerror}") from error


def refuse_binary(sample: bytes, name: str) -> None:
    """Stop if the beginning of a file is not that of a text."""
    if looks_binary(sample):
        raise BadSource(f"{name}: is no UTF-8 text but {_binary_format(sample)}")


def looks_binary(sample: bytes) -> bool:
    """Are there more control characters than in a text?"""
    odd = sum(sample.count(byte) for byte in range(32) if byte not in b"\t\n\r")
    return odd * 100 > len(sample)


def _binary_format(start: bytes) -> str:
    """What a file that is no text seems to be, and what to do with it."""
    for magic, meaning in _BINARY_FORMATS.items():
        if start.startswith(magic):
            return meaning
    return "some binary format; give a text file of triples"


def _unpacked(raw: io.BufferedReader) -> BinaryIO:
    start = raw.peek(16)
    if start.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    # A name may begin with BZh; a bzip2 file goes on with digits of pi or, if empty, of its root.
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return cast("BinaryIO", bz2.BZ2File(raw))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast("BinaryIO", lzma.LZMAFile(raw))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))
    return raw


class _Counted(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, size: int, progress: Progress | None) -> None:
        super().__init__(path, "rb")
        self._size = size
        self._progress = progress
        self._done = 0

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        count = super().readinto(buffer)
        if self._progress is not None and count:
            self._done += count
            self._progress(self._done, self._size)
        return count
