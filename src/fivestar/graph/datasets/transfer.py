"""Bytes from an address into a file: resumed after a cut, never more than expected."""

from __future__ import annotations

import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fivestar.errors import DownloadFailed
from fivestar.version import __version__

# Called with the bytes that have come and, where it is known, how many there are in all.
Arrived = Callable[[int, int | None], None]
_AT_ONCE = 1 << 16
_AGENT = f"fivestar/{__version__}"
# What is wrong here and not there: trying again does not help.
_OWN_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT}


@dataclass(frozen=True)
class Patience:
    """How long to put up with a server."""

    attempts: int = 5
    pause: float = 0.4  # seconds after the first attempt, then twice as long each time
    silence: float = 30.0  # seconds without a byte
    slowest: float = 1024.0  # bytes a second, once it has had `silence` seconds


def transfer(
    address: str, file: Path, most: int, arrived: Arrived, patience: Patience | None = None
) -> None:
    """Fetch what is at an address into a file, of which a part may be here already."""
    patience = patience or Patience()
    if urlsplit(address).scheme not in {"http", "https"}:
        raise DownloadFailed(f"{address}: only http and https addresses are fetched")
    for attempt in range(patience.attempts):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        try:
            if _attempt(address, file, most, arrived, patience):
                return
            problem = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"the server says {error.code} {error.reason}"
            if error.code == 416:  # what is here does not belong to what is there
                file.unlink(missing_ok=True)
            elif error.code < 500 and error.code != 429:
                raise DownloadFailed(f"{address}: {problem}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            if getattr(error, "errno", None) in _OWN_TROUBLE:
                raise
            problem = str(getattr(error, "reason", None) or error) or type(error).__name__
    raise DownloadFailed(f"{address}: {problem} ({patience.attempts} attempts)")


def _attempt(address: str, file: Path, most: int, arrived: Arrived, patience: Patience) -> bool:
    """Fetch the rest; whether it has all come."""
    have = file.stat().st_size if file.exists() else 0
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(address, headers=headers)  # noqa: S310  (checked above)
    with _opener().open(request, timeout=patience.silence) as answer:
        have = _resumed_at(answer, have)
        length = answer.headers.get("Content-Length", "")
        whole = have + int(length) if length.isdecimal() else None
        if whole is not None and whole > most:
            raise DownloadFailed(f"{address}: {whole:,} bytes, expected at most {most:,}")
        began, first = time.monotonic(), have
        with file.open("r+b" if have else "wb") as out:
            out.seek(have)
            while piece := answer.read1(_AT_ONCE):
                out.write(piece)
                have += len(piece)
                if have > most:
                    raise DownloadFailed(f"{address}: more than the expected {most:,} bytes")
                arrived(have, whole)
                taken = time.monotonic() - began
                if taken > patience.silence and have - first < patience.slowest * taken:
                    raise TimeoutError(f"slower than {patience.slowest:,.0f} bytes a second")
    return whole is None or have == whole


def _resumed_at(answer: http.client.HTTPResponse, have: int) -> int:
    """How much of the file is kept: all of it, or nothing if the server begins anew."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return 0
    if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        raise ValueError("the server goes on at another place than it was asked to")
    return have


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https only, wherever a server redirects to."""
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
