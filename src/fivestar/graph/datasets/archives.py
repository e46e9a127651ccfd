"""The wanted files of an archive, and nothing else of it: no path in it is ever followed."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from fivestar.errors import DownloadFailed

# Unpacked bytes of all members together.
MOST_UNPACKED = 1 << 30
_AT_ONCE = 1 << 20


class _Counted:
    """A stream that ends in an error when it gives too much: a bomb is small only when packed."""

    def __init__(self, stream: gzip.GzipFile, most: int, name: str) -> None:
        self._stream, self._left, self._name = stream, most, name

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(min(size, _AT_ONCE) if size >= 0 else _AT_ONCE)
        self._left -= len(piece)
        if self._left < 0:
            raise DownloadFailed(f"{self._name}: unpacks to more than {MOST_UNPACKED:,} bytes")
        return piece


def _counted(stream: gzip.GzipFile, name: str) -> BinaryIO:
    return cast("BinaryIO", _Counted(stream, MOST_UNPACKED, name))


def unpack(archive: Path, wanted: Mapping[str, int], folder: Path) -> None:
    """Copy the files of these names (and at most so many bytes) from a .tar.gz to a folder."""
    found: set[str] = set()
    try:
        with (
            gzip.open(archive) as stream,
            tarfile.open(fileobj=_counted(stream, archive.name), mode="r|") as tar,
        ):
            for member in tar:
                name = _safe_name(member, archive.name)
                if name not in wanted or not member.isfile():
                    continue
                if name in found:
                    raise DownloadFailed(f"{archive.name}: holds {name} twice")
                if member.size > wanted[name]:
                    raise DownloadFailed(
                        f"{archive.name}: {member.name} has {member.size:,} bytes, expected "
                        f"{wanted[name]:,}"
                    )
                content = tar.extractfile(member)
                if content is not None:
                    _copy(content, folder / name)
                    found.add(name)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DownloadFailed(f"{archive.name}: is no archive that can be read ({error})") from error
    if missing := wanted.keys() - found:
        raise DownloadFailed(f"{archive.name}: holds no {', '.join(sorted(missing))}")


def _safe_name(member: tarfile.TarInfo, archive: str) -> str:
    """The last part of a member's path; an archive that tries tricks is refused as a whole."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise DownloadFailed(f"{archive}: names a path outside of it: {member.name!r}")
    if not (member.isfile() or member.isdir()):
        raise DownloadFailed(f"{archive}: {member.name!r} is a link or a device")
    return path.name


def _copy(content: IO[bytes], file: Path) -> None:
    with file.open("wb") as out:
        while piece := content.read(_AT_ONCE):
            out.write(piece)
