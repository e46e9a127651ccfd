"""Resumable downloads of limited size, and safe extraction of archives."""

from __future__ import annotations

import errno
import gzip
import http.client
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast
from urllib.parse import urlsplit

from fivestar.errors import DownloadFailed
from fivestar.version import __version__

# Called with the bytes received and, where it is known, the total.
Report = Callable[[int, int | None], None]
# Maximum size of all extracted members together.
MAX_EXTRACTED_BYTES = 1 << 30
_EXTRACT_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_USER_AGENT = f"fivestar/{__version__}"
# Local errors, for which another attempt is useless.
_LOCAL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT}


@dataclass(frozen=True)
class RetryPolicy:
    """When to retry a download, and when to give up.

    Attributes:
        attempts: the maximum number of attempts.
        pause: seconds after the first attempt, doubled after each further one.
        timeout: seconds without a byte.
        min_rate: bytes per second, after `timeout` seconds.
    """

    attempts: int = 5
    pause: float = 0.4
    timeout: float = 30.0
    min_rate: float = 1024.0


def download(
    url: str, file: Path, max_bytes: int, report: Report, policy: RetryPolicy | None = None
) -> None:
    """Download a URL to a file, and resume a partial file.

    Args:
        url: an http or https URL.
        file: the file to write; may hold the first part already.
        max_bytes: the maximum size.
        report: called with the bytes received and the total.
        policy: when to retry.

    Raises:
        DownloadFailed: if the server has no such file, a larger one, or does not respond.
    """
    policy = policy or RetryPolicy()
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DownloadFailed(f"{url}: only http and https URLs are supported")
    for attempt in range(policy.attempts):
        if attempt:
            time.sleep(policy.pause * 2 ** (attempt - 1))
        try:
            if _attempt(url, file, max_bytes, report, policy):
                return
            problem = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"the server says {error.code} {error.reason}"
            if error.code == 416:  # the partial file is not part of this one
                file.unlink(missing_ok=True)
            elif error.code < 500 and error.code != 429:
                raise DownloadFailed(f"{url}: {problem}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            if getattr(error, "errno", None) in _LOCAL_ERRORS:
                raise
            problem = str(getattr(error, "reason", None) or error) or type(error).__name__
    raise DownloadFailed(f"{url}: {problem} ({policy.attempts} attempts)")


def _attempt(url: str, file: Path, max_bytes: int, report: Report, policy: RetryPolicy) -> bool:
    """Download the rest; return whether the file is complete."""
    received = file.stat().st_size if file.exists() else 0
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if received:
        headers["Range"] = f"bytes={received}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (checked above)
    with _opener().open(request, timeout=policy.timeout) as response:
        received = _resume_offset(response, received)
        length = response.headers.get("Content-Length", "")
        total = received + int(length) if length.isdecimal() else None
        if total is not None and total > max_bytes:
            raise DownloadFailed(f"{url}: {total:,} bytes, expected at most {max_bytes:,}")
        started, first = time.monotonic(), received
        with file.open("r+b" if received else "wb") as out:
            out.seek(received)
            while chunk := response.read1(_READ_BYTES):
                out.write(chunk)
                received += len(chunk)
                if received > max_bytes:
                    raise DownloadFailed(f"{url}: more than the expected {max_bytes:,} bytes")
                report(received, total)
                seconds = time.monotonic() - started
                if seconds > policy.timeout and received - first < policy.min_rate * seconds:
                    raise TimeoutError(f"slower than {policy.min_rate:,.0f} bytes per second")
    return total is None or received == total


def _resume_offset(response: http.client.HTTPResponse, received: int) -> int:
    """Return where the response continues: after the partial file, or at 0."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
        raise ValueError("the server continues at another offset than requested")
    return received


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for http and https only, also after redirects."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class _LimitedStream:
    """A stream that fails when it yields too much: a decompression bomb is small on disk."""

    def __init__(self, stream: gzip.GzipFile, max_bytes: int, name: str) -> None:
        self._stream, self._left, self._name = stream, max_bytes, name

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(min(size, _EXTRACT_BYTES) if size >= 0 else _EXTRACT_BYTES)
        self._left -= len(chunk)
        if self._left < 0:
            raise DownloadFailed(
                f"{self._name}: unpacks to more than {MAX_EXTRACTED_BYTES:,} bytes"
            )
        return chunk


def extract(archive: Path, sizes: Mapping[str, int], folder: Path) -> None:
    """Extract files of a .tar.gz by name; no path in the archive is ever followed.

    Args:
        archive: the .tar.gz.
        sizes: the maximum size by file name.
        folder: where the files are written.

    Raises:
        DownloadFailed: if a file is missing, duplicate or too large, or the archive is malicious.
    """
    extracted: set[str] = set()
    try:
        with gzip.open(archive) as stream:
            limited = cast("BinaryIO", _LimitedStream(stream, MAX_EXTRACTED_BYTES, archive.name))
            with tarfile.open(fileobj=limited, mode="r|") as tar:
                for member in tar:
                    _extract_member(tar, member, archive.name, sizes, folder, extracted)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DownloadFailed(f"{archive.name}: is not a readable archive ({error})") from error
    if missing := sizes.keys() - extracted:
        raise DownloadFailed(f"{archive.name}: does not contain {', '.join(sorted(missing))}")


def _extract_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    archive: str,
    sizes: Mapping[str, int],
    folder: Path,
    extracted: set[str],
) -> None:
    name = _safe_name(member, archive)
    if name not in sizes or not member.isfile():
        return
    if name in extracted:
        raise DownloadFailed(f"{archive}: contains {name} twice")
    if member.size > sizes[name]:
        raise DownloadFailed(
            f"{archive}: {member.name} has {member.size:,} bytes, expected {sizes[name]:,}"
        )
    content = tar.extractfile(member)
    if content is not None:
        copy_limited(content, folder / name, sizes[name], member.name)
        extracted.add(name)


def _safe_name(member: tarfile.TarInfo, archive: str) -> str:
    """Return the file name of a member; refuse archives with unsafe paths, links or devices."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise DownloadFailed(f"{archive}: contains a path outside of it: {member.name!r}")
    if not (member.isfile() or member.isdir()):
        raise DownloadFailed(f"{archive}: {member.name!r} is a link or a device")
    return path.name


def copy_limited(content: IO[bytes], file: Path, max_bytes: int, name: str) -> None:
    """Write a stream to a file, but no more than expected.

    Raises:
        DownloadFailed: if there is more; the file is then incomplete.
    """
    with file.open("wb") as out:
        while chunk := content.read(_EXTRACT_BYTES):
            max_bytes -= len(chunk)
            if max_bytes < 0:
                raise DownloadFailed(f"{name}: unpacks to more than expected")
            out.write(chunk)
