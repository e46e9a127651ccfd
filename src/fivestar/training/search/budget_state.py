"""What a training within a time budget keeps in its folder, so that it survives any interruption.

search/state.json   the request, the schedule of each model, the final trainings
search/clock        seconds used so far, over all processes
search/journal      the study (see study.py)
search/MODEL-N/     the checkpoint of a trial that is, or may be, trained to the end
trials.jsonl        one line per rung of a trial, and per final training

The folder `search` is removed when the run is complete.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from fivestar.errors import DamagedRun, OutputError
from fivestar.files import make_folder, write_atomic
from fivestar.runs.run import TRIALS, WORK
from fivestar.runs.settings import Settings
from fivestar.training.clock import now
from fivestar.training.loop import Callback, StepCallback
from fivestar.training.search.schedule import Schedule, Speed
from fivestar.training.search.trials import Tried, Watcher

_TICK = 1.0  # seconds between two writes of the time


class Request(BaseModel):
    """The request of the user; `values` are the settings that are not searched."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, Any]
    seconds: float
    models: tuple[str, ...]
    dims: tuple[int, ...] = ()

    @property
    def fixed(self) -> frozenset[str]:
        """Return the settings that are not searched, as in `training.lr`."""
        return frozenset(
            f"{section}.{str(key).replace('-', '_')}"
            for section in ("model", "training")
            for key in self.values.get(section, {})
        )


class Finalist(BaseModel):
    """A training to the end of a trial, or of the default settings if there was no search."""

    trial: int
    is_default: bool
    point: dict[str, Any]
    settings: Settings
    speed: Speed
    # From the search: minus the number of rungs missing to the last one and the MRR at the rung
    # that was reached, and its epochs.
    judged: tuple[int, float] = (-9, 0.0)
    judged_at: int = 0
    state: Literal["waiting", "complete", "failed"] = "waiting"
    epochs: int = 0
    seconds: float = 0.0
    valid_mrr: float | None = None
    why: str | None = None


class State(BaseModel):
    """The progress of a run: schedules once the speed is measured, finalists after the search."""

    request: Request
    schedules: list[Schedule] = []
    finalists: list[Finalist] = []

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a run."""
        make_folder(folder / WORK)
        write_atomic(_state_file(folder), self.model_dump_json(indent=1).encode())


def has_budget(folder: Path) -> bool:
    """Return whether a run was started with a time budget and is not complete."""
    return _state_file(folder).is_file()


def load_state(folder: Path) -> State:
    """Read the state of a run."""
    path = _state_file(folder)
    try:
        return State.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DamagedRun(
            f"{path}: cannot be read ({error}); train again into another folder"
        ) from error


def _state_file(folder: Path) -> Path:
    return folder / WORK / "state.json"


class Clock:
    """The time that a run has used over all its processes, written to a file every second."""

    def __init__(self, file: Path, seconds: float, seconds_used: float) -> None:
        self.seconds = seconds
        self._file = file
        self._before = seconds_used
        with suppress(OSError, ValueError):
            self._before += float(file.read_text())
        self._began = now()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def used(self) -> float:
        """Return the seconds used."""
        return self._before + now() - self._began

    def left(self) -> float:
        """Return the seconds left, below 0 if there are none."""
        return self.seconds - self.used()

    def __enter__(self) -> Clock:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._write()

    def _tick(self) -> None:
        while not self._stopped.wait(_TICK):
            with suppress(OutputError):  # the training itself fails on a full disk as well
                self._write()

    def _write(self) -> None:
        write_atomic(self._file, f"{self.used():.2f}".encode())


def trial_lines(
    trials: Sequence[tuple[str, Tried]], finalists: Sequence[Finalist]
) -> list[dict[str, Any]]:
    """Return one line per rung of each trial, then one per final training.

    Args:
        trials: the trials in their order, each with the name of its model.
        finalists: the final trainings.
    """
    lines = []
    for model, tried in trials:
        head = {"trial": tried.number, "model": model, "settings": short_names(tried.point)}
        for level, rung in enumerate(tried.rungs):
            last = level == len(tried.rungs) - 1
            state = tried.state if last else "promoted"
            if state != "failed":
                lines.append({**head, "rung": level + 1, **_measured(rung), "state": state})
        if tried.state == "failed":
            failed = {"rung": len(tried.rungs) + 1, "epochs": tried.epochs, "why": tried.why}
            lines.append({**head, **failed, "state": "failed"})
    for finalist in finalists:
        if finalist.state != "waiting":
            model = finalist.settings.model.name
            line = {"trial": finalist.trial, "model": model}
            line |= {"settings": short_names(finalist.point), "rung": "final"}
            line |= _measured(finalist.model_dump()) | {"state": finalist.state}
            lines.append(line | ({"why": finalist.why} if finalist.why else {}))
    return lines


def short_names(point: dict[str, Any]) -> dict[str, Any]:
    """Return a point with the settings named as flags.

    >>> short_names({"training.reg_weight": 0.05, "model.init": "rotation"})
    {'reg-weight': 0.05, 'init': 'rotation'}
    """
    return {name.partition(".")[2].replace("_", "-"): value for name, value in point.items()}


def _measured(training: dict[str, Any]) -> dict[str, Any]:
    return {
        "epochs": training["epochs"],
        "minutes": round(training["seconds"] / 60, 3),
        "valid_mrr": training["valid_mrr"],
    }


def save_trials(lines: Sequence[dict[str, Any]], folder: Path) -> None:
    """Replace the list of trials of a run."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_atomic(folder / TRIALS, text.encode())


class BudgetWatcher(Watcher, Protocol):
    """Receives the progress of a training within a time budget, and of the trials of its search."""

    def clock(self, clock: Clock) -> None:
        """Receive the clock of the run."""

    def message(self, text: str) -> None:
        """Show a message about the plan."""

    def final(self, finalist: Finalist) -> tuple[Callback, StepCallback]:
        """Announce a training to the end; return what to call after each epoch and step."""


class Recording:
    """Records trials and passes them on to another watcher."""

    def __init__(self, watcher: Watcher, record: Callable[[], None]) -> None:
        self._watcher, self._record = watcher, record

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        """Pass the call on."""
        return self._watcher.begins(number, point, epochs)

    def ended(self, tried: Tried) -> None:
        """Record the trial and pass the call on."""
        self._record()
        self._watcher.ended(tried)


class Quiet:
    """Shows nothing; the callbacks are called in the final trainings only."""

    def __init__(
        self, on_epoch: Callback | None = None, on_step: StepCallback | None = None
    ) -> None:
        self._callbacks = on_epoch or _ignore, on_step or _ignore

    def clock(self, clock: Clock) -> None:
        """Show nothing."""

    def message(self, text: str) -> None:
        """Show nothing."""

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        """Show nothing."""
        return _ignore, _ignore

    def ended(self, tried: Tried) -> None:
        """Show nothing."""

    def final(self, finalist: Finalist) -> tuple[Callback, StepCallback]:
        """Return the user's callbacks."""
        return self._callbacks


def _ignore(_: object) -> None:
    pass
