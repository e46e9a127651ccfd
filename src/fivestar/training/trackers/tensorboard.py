"""Track a training in TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError
from fivestar.extras import require
from fivestar.training.trackers.base import Outcome, TrackedRun, Tracker, series_of

FOLDER = "tensorboard"


class TensorBoardTracker(Tracker):
    """Writes events; the target is a folder, by default tensorboard/ in the folder of the run."""

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        require("tensorboard", "tensorboard", "the tracker tensorboard")
        self._writer: Any = None

    def start(self, run: TrackedRun) -> Mapping[str, str]:
        """Start; what is written after a resume replaces former events of the same epochs."""
        if not self.target and run.folder is None:
            raise SettingsError("the tracker tensorboard needs a folder, as in tensorboard:events")
        self._folder = Path(self.target) if self.target else (run.folder or Path()) / FOLDER
        self._purge_step = 1 if run.state else None
        for line in run.history:
            self.log(line)
        return {"folder": str(self._folder)}

    def log(self, line: Mapping[str, Any]) -> None:
        """Write the values of an epoch."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (torch's side of it)

        # Created late: the folder of the run does not exist before training starts.
        self._writer = self._writer or SummaryWriter(self._folder, purge_step=self._purge_step)
        for name, value in series_of(line).items():
            self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()

    def finish(self, metrics: Mapping[str, float], outcome: Outcome) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
