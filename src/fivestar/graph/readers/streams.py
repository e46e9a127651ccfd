"""Files as streams of bytes and blocks of whole lines, with any compression."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Progress

BLOCK_BYTES = 16 << 20
_SHOWN_BYTES = 1_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
# Smaller files are read too fast for a progress bar.
MIN_PROGRESS_BYTES = 50_000_000

_BINARY_FORMATS = {
    b"PK\x03\x04": "a ZIP archive (or an Office file); unpack it and pass the file inside",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it and pass the file inside",
    b"PAR1": "a Parquet file; name it .parquet or pass format='parquet'",
    b"ARROW1": "an Arrow file; name it .arrow or pass format='arrow'",
    b"\x89HDF": "an HDF5 file; export its triples as text",
    b"SQLite format 3": "an SQLite database; export its triples as text",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW",
    b"\xfe\xff": "UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW",
}


def suffix_of(path: Path) -> str:
    """Return the file extension of the format, without that of a compression.

    >>> suffix_of(Path("My.Graph.NT.gz"))
    '.nt'
    """
    name = path.name.casefold()
    for compression in COMPRESSED:
        name = name.removesuffix(compression)
    return Path(name).suffix


@contextmanager
def open_bytes(path: Path, progress: Progress | None = None) -> Iterator[BinaryIO]:
    """Open a file and decompress it; the compression follows from its first bytes.

    Args:
        path: the file.
        progress: called with (bytes read, bytes in total) if the file is large.

    Raises:
        BadSource: if the file cannot be read or is damaged.
    """
    try:
        size = path.stat().st_size
        reported = progress if size >= MIN_PROGRESS_BYTES else None
        with _ProgressFile(path, size, reported) as raw:
            yield _decompressed(io.BufferedReader(raw))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, pa.ArrowException) as error:
        raise BadSource(
            f"{path}: the compressed file is damaged or cut short ({error}); download it again"
        ) from error
    except OSError as error:
        if error.errno is None:  # from a decompressor, not the operating system
            raise BadSource(
                f"{path}: the compressed file is damaged or cut short ({error}); download it again"
            ) from error
        raise BadSource(f"{path}: cannot be read: {error.strerror}") from error


def refuse_binary(sample: bytes, name: str) -> None:
    """Raise `BadSource` if the beginning of a file is not text."""
    if looks_binary(sample):
        raise BadSource(f"{name}: is not UTF-8 text but {_binary_format(sample)}")


def looks_binary(sample: bytes) -> bool:
    """Return whether there are more control characters than in a text."""
    control = sum(sample.count(byte) for byte in range(32) if byte not in b"\t\n\r")
    return control * 100 > len(sample)


def _binary_format(start: bytes) -> str:
    """Return what a binary file seems to be, and what to do with it."""
    for magic, meaning in _BINARY_FORMATS.items():
        if start.startswith(magic):
            return meaning
    return "an unknown binary format; pass a text file of triples"


def _decompressed(raw: io.BufferedReader) -> BinaryIO:
    start = raw.peek(16)
    if start.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    # A name may begin with BZh; a bzip2 file continues with digits of pi, or of √pi if it is empty.
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return cast("BinaryIO", bz2.BZ2File(raw))
    if start.startswith(b"\xfd7zXZ\x00"):
        return cast("BinaryIO", lzma.LZMAFile(raw))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))
    return raw


class _ProgressFile(io.FileIO):
    """A file that reports how far it has been read."""

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


@dataclass(frozen=True)
class Block:
    """Whole lines in a buffer, which the next block overwrites."""

    buffer: bytearray
    start: int
    end: int
    # The beginning of a line that does not fit into the buffer.
    overlong: bool = False

    def has(self, text: bytes) -> bool:
        """Return whether these bytes occur."""
        return self.buffer.find(text, self.start, self.end) >= 0

    def count(self, text: bytes) -> int:
        """Return the number of occurrences."""
        return self.buffer.count(text, self.start, self.end)

    def starts_with(self, text: bytes) -> bool:
        """Return whether these are the first bytes."""
        return self.buffer.startswith(text, self.start, self.end)

    def has_only_lines_below(self, limit: int) -> bool:
        """Return True only if all lines are shorter than a limit; may return False if they are."""
        window = limit // 2
        return all(
            self.buffer.find(b"\n", start, start + window) >= 0
            for start in range(self.start, self.end - window, window)
        )

    def lines(self) -> list[bytes]:
        """Return the lines without their line feeds; a final line feed ends the last line."""
        lines = bytes(memoryview(self.buffer)[self.start : self.end]).split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines

    def line_count(self) -> int:
        """Return the number of lines."""
        unfinished = self.end > self.start and self.buffer[self.end - 1] != ord("\n")
        return self.count(b"\n") + unfinished

    def without(self, leading: int) -> Block:
        """Return the block without its first bytes."""
        return Block(self.buffer, self.start + leading, self.end, self.overlong)


def line_blocks(stream: BinaryIO, size: int | None = None) -> Iterator[Block]:
    """Yield a stream in blocks of whole lines; only the last line may lack its line feed."""
    buffer = bytearray(size or BLOCK_BYTES)
    carried = 0  # bytes of an unfinished line at the beginning of the buffer
    while True:
        filled = carried + _fill(stream, memoryview(buffer)[carried:])
        if filled < len(buffer):
            if filled:
                yield Block(buffer, 0, filled)
            return
        cut = buffer.rfind(b"\n", 0, filled) + 1
        if cut:
            yield Block(buffer, 0, cut)
        else:
            yield Block(bytearray(buffer[:_SHOWN_BYTES]), 0, _SHOWN_BYTES, overlong=True)
            filled, cut = _skip_line(stream, buffer)
        carried = filled - cut
        buffer[:carried] = buffer[cut:filled]


def _fill(stream: BinaryIO, space: memoryview) -> int:
    filled = 0
    while filled < len(space):
        count = stream.readinto(space[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return filled


def _skip_line(stream: BinaryIO, buffer: bytearray) -> tuple[int, int]:
    """Read to the end of a line; return the bytes in the buffer and where the next line begins."""
    while True:
        filled = _fill(stream, memoryview(buffer))
        cut = buffer.find(b"\n", 0, filled) + 1
        if cut or filled < len(buffer):
            return filled, cut or filled
