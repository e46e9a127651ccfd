"""Track a training in Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fivestar.extras import require
from fivestar.training.trackers.base import Outcome, TrackedRun, Tracker, series_of

PROJECT = "fivestar"


class WandbTracker(Tracker):
    """Logs to Weights & Biases; the target is PROJECT or ENTITY/PROJECT, by default "fivestar".

    WANDB_MODE, WANDB_DIR and the other variables of W&B apply. The step is the number of epochs,
    those before a refit included, because W&B steps never go back.
    """

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._wandb = require("wandb", "wandb", "the tracker wandb")

    def start(self, run: TrackedRun) -> Mapping[str, str]:
        """Start a run with all settings, or continue the one of before."""
        entity, _, project = self.target.rpartition("/")
        self._run = self._wandb.init(
            entity=entity or None,
            project=project or PROJECT,
            name=run.name,
            id=run.state.get("id"),
            resume="allow" if run.state else None,
            config=dict(run.settings),
            reinit="create_new",
        )
        self._step = 0
        if run.state:  # W&B has these epochs
            self._step = len(run.history)
        for line in () if run.state else run.history:
            self.log(line)
        return {"id": self._run.id}

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the values of an epoch, unless W&B has them from before an interruption."""
        self._step += 1
        if self._step >= self._run.step:
            self._run.log({**series_of(line), "epoch": line["epoch"]}, step=self._step)

    def finish(self, metrics: Mapping[str, float], outcome: Outcome) -> None:
        """Set the final metrics as the summary and end the run."""
        self._run.summary.update({f"final/{key}": value for key, value in metrics.items()})
        self._run.finish(exit_code=0 if outcome == "finished" else 1)
