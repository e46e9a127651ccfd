"""The journal of a study: the file of Optuna, in which a line that was cut off does no harm.

A process that is killed while it appends leaves part of a line. Optuna would append the next line
to that part, and nobody could read the journal any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fivestar.errors import DamagedRun, OutputError
from fivestar.files import output_errors


class Journal:
    """A journal as Optuna reads and writes it (`BaseJournalBackend`).

    Args:
        path: the file.
        optuna: the module.
    """

    def __init__(self, path: Path, optuna: Any) -> None:
        self._path = path
        journal = optuna.storages.journal
        # A lock file works on network drives and on Windows.
        self._lock = journal.JournalFileOpenLock(str(path))
        with output_errors(path):
            self._backend = journal.JournalFileBackend(str(path), lock_obj=self._lock)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Return all lines from a number on.

        Raises:
            DamagedRun: A line is not JSON.
        """
        try:
            yield from self._backend.read_logs(log_number_from)
        except (OSError, ValueError) as error:
            raise DamagedRun(
                f"{self._path}: cannot be read ({error}); move it away and search again"
            ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines, after the last complete one.

        Raises:
            OutputError: The file cannot be written.
        """
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with output_errors(self._path):
            self._lock.acquire()
            try:
                self._append(text.encode())
            finally:
                self._release()

    def _release(self) -> None:
        try:
            self._lock.release()
        except RuntimeError as error:  # Optuna's word for a lock file that cannot be removed
            raise OutputError(
                f"{self._path}: its lock cannot be released; check the disk"
            ) from error

    def _append(self, content: bytes) -> None:
        with self._path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            while end and _last_byte(file, end) != b"\n":
                end -= 1
            file.truncate(end)
            file.seek(end)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _last_byte(file: Any, end: int) -> bytes:
    file.seek(end - 1)
    last: bytes = file.read(1)
    return last
