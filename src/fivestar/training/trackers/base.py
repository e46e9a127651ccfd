"""What a tracker is: it receives the start, each epoch and the end of a training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

from fivestar.plugins import TRACKERS

Outcome = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class TrackedRun:
    """A training that starts or resumes.

    Attributes:
        name: the name of the run.
        folder: its folder, if it has one; it may not exist yet.
        settings: all settings, as in `{"model.name": "fivestar", "training.lr": 0.1}`.
        history: the lines of history so far, one per epoch; none if the training starts.
        state: what `Tracker.start` returned when the training started; empty before.
    """

    name: str
    folder: Path | None
    settings: Mapping[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    state: Mapping[str, str] = field(default_factory=dict)


class Tracker(ABC):
    """Receives the history of a training.

    `start` is called in the main thread, and its errors refuse the training. `log` and `finish` are
    called in a thread of their own, so that a slow network does not slow training down; after an
    error there, training continues without the tracker.

    Args:
        target: what follows the name and a colon in `--track NAME:TARGET`.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target

    @abstractmethod
    def start(self, run: TrackedRun) -> Mapping[str, str]:
        """Start tracking, or continue if `run.state` is not empty.

        Returns:
            What is needed to continue after an interruption, such as the id of a run. It is saved
            with the run, so it must hold no secrets.
        """

    @abstractmethod
    def log(self, line: Mapping[str, Any]) -> None:
        """Log an epoch.

        Args:
            line: a line of history: `epoch`, `loss`, `seconds`, with a validation `valid_mrr` …,
                and `refit: True` in a refit, whose epochs count from 1 again.
        """

    def finish(self, metrics: Mapping[str, float], outcome: Outcome) -> None:  # noqa: B027
        """End tracking.

        Args:
            metrics: the final metrics, as in `{"valid/mrr": 0.37}`; none if training did not end.
            outcome: whether the training finished, was interrupted (it can be resumed), or failed.
        """


TrackerClass = Callable[[str], Tracker]


@overload
def register_tracker(name: str) -> Callable[[TrackerClass], TrackerClass]: ...
@overload
def register_tracker(name: str, tracker: TrackerClass) -> TrackerClass: ...
def register_tracker(name: str, tracker: TrackerClass | None = None) -> Any:
    """Register a tracker under a name, for `trackers=["NAME:TARGET"]`.

    For the command line, declare it as an entry point of the group `fivestar.trackers` instead.

    Args:
        name: the name.
        tracker: a subclass of `fivestar.Tracker`, which is called with the target; without it, a
            decorator is returned.

    Raises:
        RegistrationError: if the name is taken or malformed, or this is no such class.

    Example::

        @fivestar.register_tracker("print")
        class Print(fivestar.Tracker):
            def start(self, run):
                return {}

            def log(self, line):
                print(line["epoch"], line["loss"])
    """
    if tracker is None:
        return lambda given: TRACKERS.register(name, given)
    return TRACKERS.register(name, tracker)


def series_of(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a line of history by the name of their series, those of a refit apart.

    >>> series_of({"epoch": 3, "loss": 0.5, "refit": True})
    {'refit/loss': 0.5}
    """
    prefix = "refit/" if line.get("refit") else ""
    return {
        prefix + name: float(value)
        for name, value in line.items()
        if name not in ("epoch", "refit")
    }
