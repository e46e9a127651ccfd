"""Atomic writes, file locks, checksums, and checks of folders that somebody else may have written.

Everything is written under a unique temporary name, synced (files and folders) and renamed, so that
a file or folder is either complete or absent. What a killed process leaves behind ends in
`.partial` and is removed by the next one that writes in the same place.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fivestar.errors import DamagedRun, OutputError

if TYPE_CHECKING:
    from filelock import FileLock

try:
    import fcntl
except ImportError:  # Windows, where leftovers are not removed
    fcntl = None  # type: ignore[assignment]

_PARTIAL = ".partial"
# Younger leftovers may belong to a process that has not locked them yet.
_YOUNG = 60.0  # seconds


@contextmanager
def output_errors(path: Path, note: str = "") -> Iterator[None]:
    """Turn what the operating system refuses into an `OutputError` that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot be written: {reason}{note}") from error


@contextmanager
def atomic_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` on success and deleted on failure.

    Args:
        folder: the new folder. Missing parent folders are created.

    Raises:
        OutputError: if the folder exists or cannot be written.
    """
    target = Path(folder)
    if os.path.lexists(target):
        raise OutputError(f"{target} exists already; choose another folder or remove it first")
    draft = _draft_of(target)
    with output_errors(target):
        make_folder(target.parent)
        remove_leftovers(target.parent, target.name)
        try:
            draft.mkdir()
            with _held(draft, os.O_RDONLY):
                yield draft
                sync_tree(draft)
                draft.rename(target)
                _sync_name(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` on success.

    Args:
        path: the file to write or replace. Its folder must exist. A link is replaced, not followed.

    Raises:
        OutputError: if it cannot be written. The previous content is then intact.
    """
    draft = _draft_of(path)
    with output_errors(path, "; what was written before is intact"):
        remove_leftovers(path.parent, path.name)
        try:
            with _held(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL):
                yield draft
                sync_file(draft)
                draft.replace(path)
                _sync_name(path)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and sync them.

    Raises:
        OutputError: if one cannot be created.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with output_errors(folder):
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder; what remains if that fails or is interrupted is removed as a leftover."""
    draft = _draft_of(folder)
    with suppress(OSError):
        folder.rename(draft)
        shutil.rmtree(draft)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{_PARTIAL}")


@contextmanager
def _held(draft: Path, flags: int) -> Iterator[None]:
    """Open and lock a draft, so that others see that its process is alive."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(draft, flags, 0o666)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes have left of a file or folder.

    Args:
        folder: Where to look.
        name: The name of the file or folder that was not completed; None: any.
    """
    if fcntl is None:
        return
    wanted = "*" if name is None else glob.escape(name)
    for leftover in folder.glob(f".{wanted}.*{_PARTIAL}"):
        with suppress(OSError):
            if _is_abandoned(leftover):
                if leftover.is_dir():
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()


def _is_abandoned(draft: Path) -> bool:
    kind = draft.lstat()
    if not (stat.S_ISDIR(kind.st_mode) or stat.S_ISREG(kind.st_mode)):
        return False
    if time.time() - kind.st_mtime < _YOUNG:
        return False
    descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def check_plain_folder(folder: Path) -> None:
    """Refuse a folder that holds links, pipes or devices.

    A link could lead a write or a read out of the folder, and a pipe would block it.

    Raises:
        DamagedRun: There is one.
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            with suppress(FileNotFoundError):  # written and removed by somebody else
                mode = path.lstat().st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                    kind = "a link" if stat.S_ISLNK(mode) else "not a regular file"
                    raise DamagedRun(
                        f"{path}: is {kind}; a run holds plain files only: remove it, or replace "
                        "a link by a copy of its target"
                    )


def write_atomic(path: Path, content: bytes) -> None:
    """Write or replace a file, or leave it as it was.

    Raises:
        OutputError: if it cannot be written.
    """
    with atomic_file(path) as draft:
        draft.write_bytes(content)


def file_hash(path: Path, kind: Literal["sha256", "md5"] = "sha256") -> str:
    """Return the checksum of a file in hexadecimal; MD5 guards against damage, not forgery."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False))
        return digest.hexdigest()


def sync_file(path: Path) -> None:
    """Flush a written file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_tree(folder: Path) -> None:
    """Flush all files and folders of a folder to the disk."""

    def fail(error: OSError) -> None:
        raise error

    for parent, _, files in os.walk(folder, onerror=fail):
        for name in files:
            sync_file(Path(parent, name))
        _sync_folder(Path(parent))


def _sync_name(path: Path) -> None:
    """Sync the name of a file or folder that has just been renamed."""
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path}: is complete, but may be lost with the power: its folder cannot be synced "
            f"({error.strerror}); check the disk"
        ) from error


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
    """Wait for an exclusive lock between processes, and hold it until the end of the block.

    Raises:
        OutputError: if the file of the lock cannot be written.
    """
    from filelock import FileLock  # noqa: PLC0415  (60 ms to import)

    lock = FileLock(path)
    with output_errors(path):
        lock.acquire()
    with _released(lock):
        yield


@contextmanager
def try_file_lock(path: Path) -> Iterator[bool]:
    """Yield whether the lock was free; if so, hold it until the end of the block.

    The operating system releases the lock of a process that dies, however it dies.

    Raises:
        OutputError: if the file of the lock cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  (60 ms to import)

    lock, is_free = FileLock(path), True
    with output_errors(path):
        try:
            lock.acquire(blocking=False)
        except Timeout:  # an OSError, too
            is_free = False
    if not is_free:
        yield False
        return
    with _released(lock):
        yield True


@contextmanager
def _released(lock: FileLock) -> Iterator[None]:
    """Release a lock at the end of the block, also if its file cannot be closed without error."""
    try:
        yield
    finally:
        with suppress(OSError):
            lock.release()
