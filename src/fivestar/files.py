"""Atomic writes and file locks.

Everything is written under a unique temporary name, synced (file and folder) and renamed, so that
a file or folder is either complete or absent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fivestar.errors import OutputError


@contextmanager
def atomic_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` on success and deleted on failure.

    Args:
        folder: the new folder. Missing parent folders are created.

    Raises:
        OutputError: if the folder exists or cannot be written.
    """
    target = Path(folder)
    if target.exists():
        raise OutputError(f"{target} exists already; choose another folder or remove it first")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        yield draft
        draft.chmod(0o755)
        draft.rename(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` on success.

    Args:
        path: the file to write or replace. Its folder must exist.

    Raises:
        OutputError: if it cannot be written. The previous content is then intact.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror or error}; "
            "what was written before is intact"
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write or replace a file, or leave it as it was.

    Raises:
        OutputError: if it cannot be written.
    """
    with atomic_file(path) as draft:
        draft.write_bytes(content)


def sync_file(path: Path) -> None:
    """Flush a written file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait for an exclusive lock between processes, and hold it until the end of the block."""
    from filelock import FileLock  # noqa: PLC0415  (60 ms to import)

    with FileLock(path):
        yield


@contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Yield whether the lock was free; if so, hold it until the end of the block.

    The operating system releases the lock of a process that dies, however it dies.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  (60 ms to import)

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
