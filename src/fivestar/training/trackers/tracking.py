"""Run the trackers of a training so that none of them can stop or slow it."""

from __future__ import annotations

import json
import queue
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fivestar.errors import (
    FivestarError,
    Paused,
    SettingsError,
    TrackingFailed,
    TrackingWarning,
)
from fivestar.files import write_atomic
from fivestar.plugins import TRACKERS
from fivestar.training.trackers.base import Outcome, TrackedRun, Tracker

# Of each tracker, what `start` returned; in the folder of the run.
STATE = "trackers.json"
# Seconds that the end of a training waits for trackers.
PATIENCE = 60.0
_CREDENTIALS = re.compile(r"//[^/@]*@")


def make_tracker(given: str | Tracker) -> Tracker:
    """Return the tracker that a text such as `csv:history.csv` names.

    Raises:
        SettingsError: There is no such tracker, or the target holds a password.
        MissingExtra: Its package is not installed.

    >>> make_tracker("csv:history.csv").target
    'history.csv'
    """
    if isinstance(given, Tracker):
        return given
    if not isinstance(given, str):
        raise SettingsError(
            f"{given!r} is no tracker: give a fivestar.Tracker, or a text such as 'mlflow'"
        )
    name, _, target = given.partition(":")
    if _CREDENTIALS.search(target):
        raise SettingsError(
            f"the target of the tracker {name} has a user name or password, which would be visible "
            "to others; set the environment variables of the tracker instead"
        )
    tracker: Tracker = TRACKERS[name](target)
    return tracker


class Tracking:
    """The trackers of one training.

    Args:
        trackers: trackers, or texts `NAME` or `NAME:TARGET`.

    Raises:
        SettingsError: A tracker is unknown or given twice.
        MissingExtra: The package of a tracker is not installed.
    """

    def __init__(self, trackers: Sequence[str | Tracker] = ()) -> None:
        if isinstance(trackers, str | Tracker):
            raise SettingsError("trackers is a list, as in trackers=['mlflow']")
        self._trackers: dict[str, Tracker] = {}
        for given in trackers:
            key = given if isinstance(given, str) else _class_name(given)
            if key in self._trackers:
                raise SettingsError(f"the tracker {key} is given twice")
            self._trackers[key] = make_tracker(given)
        self._workers: list[_Worker] = []

    def start(self, run: TrackedRun, save_in: Path | None = None) -> None:
        """Start all trackers; on a resume, those that know the run continue.

        Args:
            run: the run; `state` is read from its folder.
            save_in: the folder to save the state in; by default that of the run.

        Raises:
            TrackingFailed: A tracker cannot start. Those before it are ended.
        """
        states = read_states(run.folder)
        for key, tracker in self._trackers.items():
            known = states.get(key, {})
            own = TrackedRun(run.name, run.folder, run.settings, run.history, known)
            try:
                states[key] = dict(tracker.start(own))
            except Exception as error:
                self.finish({}, "failed")
                if isinstance(error, FivestarError):
                    raise
                raise TrackingFailed(f"the tracker {key} cannot start: {_text(error)}") from error
            self._workers.append(_Worker(key, tracker))
        folder = save_in or run.folder
        if self._trackers and folder is not None:
            write_atomic(folder / STATE, json.dumps(states, indent=1).encode())

    def log(self, line: Mapping[str, Any]) -> None:
        """Pass on a line of history; return at once."""
        for worker in self._workers:
            worker.submit(partial(worker.tracker.log, dict(line)))

    def finish(self, metrics: Mapping[str, Any], outcome: Outcome) -> None:
        """End all trackers; wait for slow ones, but not for ever."""
        values = dict(numbers_of(metrics))
        for worker in self._workers:
            worker.submit(partial(worker.tracker.finish, values, outcome))
        for worker in self._workers:
            worker.close(PATIENCE)
        self._workers = []

    @contextmanager
    def ended(self, metrics: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
        """End all trackers when the context ends, with the metrics if no error has ended it."""
        try:
            yield
        except (Paused, KeyboardInterrupt):
            self.finish({}, "interrupted")
            raise
        except BaseException:
            self.finish({}, "failed")
            raise
        self.finish(metrics(), "finished")


class _Worker:
    """A thread that calls one tracker, in order; after an error it is not called any more."""

    def __init__(self, name: str, tracker: Tracker) -> None:
        self.tracker = tracker
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], None]) -> None:
        """Queue a call, or warn that an earlier one has failed."""
        if self._error is None:
            self._calls.put(call)
        self._warn()

    def close(self, seconds: float) -> None:
        """Wait until all calls are done, or for this long."""
        self._calls.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._error = TimeoutError(f"no answer within {seconds:.0f} seconds")
        self._warn()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                if self._error is None:
                    call()
            except Exception as error:  # whatever it is, training continues
                self._error = error

    def _warn(self) -> None:
        if self._error is not None and not self._has_warned:
            self._has_warned = True
            text = (
                f"the tracker {self._name} has failed ({_text(self._error)}); training continues "
                "without it, and history.jsonl of the run has all epochs"
            )
            warnings.warn(text, TrackingWarning, stacklevel=2)


def read_states(folder: Path | None) -> dict[str, dict[str, str]]:
    """Return what trackers need to continue in a run, by tracker.

    Raises:
        TrackingFailed: The file is damaged.
    """
    path = None if folder is None else folder / STATE
    if path is None or not path.is_file():
        return {}
    try:
        read = json.loads(path.read_bytes())
        return {
            str(key): {str(name): str(value) for name, value in state.items()}
            for key, state in read.items()
        }
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise TrackingFailed(
            f"{path}: cannot be read ({error}); delete it, and trackers start again"
        ) from error


def numbers_of(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of nested metrics.

    >>> dict(numbers_of({"valid": {"mrr": 0.5}, "epochs": 3, "note": "text"}))
    {'valid/mrr': 0.5, 'epochs': 3.0}
    """
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


def _class_name(tracker: object) -> str:
    kind = type(tracker)
    return f"{kind.__module__}:{kind.__qualname__}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
