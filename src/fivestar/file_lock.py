"""One process at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)

    def _lock_if_free(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _lock_if_free(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def alone(lock: Path) -> Iterator[IO[bytes]]:
    """Wait until nobody else holds this file; it is held until the end of the block."""
    with lock.open("a+b") as file:
        _lock(file)
        yield file


@contextmanager
def if_free(lock: Path) -> Iterator[bool]:
    """Whether nobody else holds this file; if so, it is held until the end of the block.

    A process that dies, however it dies, holds nothing any more.
    """
    with lock.open("a+b") as file:
        try:
            _lock_if_free(file)
        except OSError:
            yield False
            return
        yield True
