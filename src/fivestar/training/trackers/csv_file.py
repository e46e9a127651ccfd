"""Track a training in a CSV file: one row per epoch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fivestar.errors import OutputError, SettingsError
from fivestar.files import write_atomic
from fivestar.training.trackers.base import TrackedRun, Tracker

FILE = "history.csv"


class CsvTracker(Tracker):
    """Writes a CSV file; the target is its name, by default history.csv in the folder of the run.

    The file is replaced after each epoch, so it is complete at any time.
    """

    def start(self, run: TrackedRun) -> Mapping[str, str]:
        """Check that no other file is overwritten; write the epochs that are done."""
        if not self.target and run.folder is None:
            raise SettingsError("the tracker csv needs a file, as in csv:history.csv")
        self._path = Path(self.target) if self.target else (run.folder or Path()) / FILE
        if not run.state and self._path.exists():
            raise OutputError(f"{self._path} exists; delete it, or track to another file")
        if self.target and not self._path.parent.is_dir():
            raise OutputError(f"{self._path.parent} is not a folder; create it first")
        self._lines = [dict(line) for line in run.history]
        if self._lines:
            self._write()
        return {"file": str(self._path)}

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a row."""
        self._lines.append(dict(line))
        self._write()

    def _write(self) -> None:
        columns = list(dict.fromkeys(name for line in self._lines for name in line))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._lines)
        write_atomic(self._path, text.getvalue().encode())
