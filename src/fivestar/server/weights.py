"""Verified copies of the weights of runs that nobody can change while they are served.

A mapped file that is truncated in place ends the process (SIGBUS), and one that is overwritten
changes the answers. So the weights are copied once into anonymous memory, which all workers map;
the kernel seals it against writing and truncation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fivestar.errors import DamagedRun
from fivestar.runs.manifest import MANIFEST, listed_files, read_manifest
from fivestar.runs.run import WEIGHTS

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_CHUNK = 1 << 22


@contextmanager
def sealed_copies(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths of sealed copies of the weights of runs, for `fivestar.load(weights=…)`.

    They can be opened until the end of the block, also by other processes of the same user. Where
    the system has no sealed memory (it is not Linux), there are none, and each process loads the
    weights into memory of its own.

    Raises:
        SourceNotFound, DamagedRun: a folder is not a complete run.
    """
    if not hasattr(os, "memfd_create") or not hasattr(fcntl, "F_ADD_SEALS"):
        yield []
        return
    with ExitStack() as opened:
        paths = []
        for folder in folders:
            descriptor = _sealed_copy(folder)
            opened.callback(os.close, descriptor)
            paths.append(Path(f"/proc/{os.getpid()}/fd/{descriptor}"))
        yield paths


def is_current(copy: Path, folder: Path) -> bool:
    """Return whether a copy of the weights is that of the run that a folder holds now."""
    try:
        listed = read_manifest((folder / MANIFEST).read_bytes(), str(folder))
    except OSError:
        return True  # loading the run says what is wrong
    return _name(listed.get(WEIGHTS)) in str(copy.readlink())


def _name(digest: str | None) -> str:
    """Return the name of a copy, which tells what it holds, so that nobody hashes it again."""
    return f"{WEIGHTS}:{hashlib.sha256(ascii(digest).encode()).hexdigest()}"


def _sealed_copy(folder: Path) -> int:
    digest = listed_files(folder).get(WEIGHTS)
    descriptor = os.memfd_create(_name(digest), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    hashed = hashlib.sha256()
    try:
        with (folder / WEIGHTS).open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as copy:
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
                copy.write(chunk)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError as error:
        os.close(descriptor)
        raise DamagedRun(f"{folder}: its weights cannot be copied: {error.strerror}") from error
    if hashed.hexdigest() != digest:
        os.close(descriptor)
        raise DamagedRun(
            f"{folder / WEIGHTS}: has changed since it was written; restore it or train again"
        )
    return descriptor
