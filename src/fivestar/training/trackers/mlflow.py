"""Track a training in MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from fivestar.extras import require
from fivestar.training.trackers.base import Outcome, TrackedRun, Tracker, series_of

EXPERIMENT = "fivestar"
_STATUS: dict[Outcome, str] = {
    "finished": "FINISHED",
    "interrupted": "KILLED",
    "failed": "FAILED",
}
# MLflow refuses longer lists of parameters.
_PARAMETERS_PER_CALL = 100


class MlflowTracker(Tracker):
    """Logs to MLflow; the target is a tracking URI, by default that of MLFLOW_TRACKING_URI.

    The experiment is that of MLFLOW_EXPERIMENT_NAME, by default "fivestar".
    """

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        self._mlflow = require("mlflow", "mlflow", "the tracker mlflow")
        self._logged: set[tuple[str, int]] = set()

    def start(self, run: TrackedRun) -> Mapping[str, str]:
        """Create a run with all settings as parameters, or continue the one of before."""
        # The client, because the functions of the module share one active run and one URI.
        self._client = self._mlflow.MlflowClient(self.target or None)
        if run.state:
            self._id = run.state["run_id"]
            self._client.update_run(self._id, status="RUNNING")
            self._log_missing(run.history)
            return run.state
        created = self._client.create_run(self._experiment(), run_name=run.name)
        self._id = created.info.run_id
        values = [self._mlflow.entities.Param(k, str(v)) for k, v in run.settings.items()]
        for first in range(0, len(values), _PARAMETERS_PER_CALL):
            self._client.log_batch(self._id, params=values[first : first + _PARAMETERS_PER_CALL])
        for line in run.history:
            self.log(line)
        return {"run_id": self._id}

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        existing = self._client.get_experiment_by_name(name)
        found: str = existing.experiment_id if existing else self._client.create_experiment(name)
        return found

    def _log_missing(self, history: list[dict[str, Any]]) -> None:
        """Log the epochs that an interruption has kept from MLflow, none of them twice."""
        self._logged = {
            (key, point.step)
            for key in ("loss", "refit/loss")
            for point in self._client.get_metric_history(self._id, key)
        }
        for line in history:
            self.log(line)

    def log(self, line: Mapping[str, Any]) -> None:
        """Log the values of an epoch, unless MLflow has them from before an interruption."""
        values, epoch = series_of(line), line["epoch"]
        if any((key, epoch) in self._logged for key in values):
            return
        self._log(values, epoch)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        metrics = [metric(metric_name(key), value, now, step) for key, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def finish(self, metrics: Mapping[str, float], outcome: Outcome) -> None:
        """Log the final metrics and end the run."""
        if metrics:
            self._log({f"final/{key}": value for key, value in metrics.items()}, 0)
        self._client.set_terminated(self._id, _STATUS[outcome])


def metric_name(key: str) -> str:
    """Return a name that MLflow accepts.

    >>> metric_name("valid_hits@10")
    'valid_hits_at_10'
    """
    return re.sub(r"[^\w./ -]", "_", key.replace("@", "_at_"))
