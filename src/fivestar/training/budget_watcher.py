"""What is told while a time budget is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fivestar.training.budget_state import Clock, Finalist
from fivestar.training.loop import Callback, StepCallback
from fivestar.training.trials import Tried, Watcher


class BudgetWatcher(Watcher, Protocol):
    """What is shown while a budget is used; of trials, what a search shows."""

    def clock(self, clock: Clock) -> None:
        """Take the clock of the run."""

    def message(self, text: str) -> None:
        """Say something about the plan."""

    def final(self, finalist: Finalist) -> tuple[Callback, StepCallback]:
        """Announce a training to the end; return what to call after each epoch and step."""


class Recording:
    """Shows trials as another watcher does, and records them."""

    def __init__(self, watcher: Watcher, record: Callable[[], None]) -> None:
        self._watcher, self._record = watcher, record

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        """Pass it on."""
        return self._watcher.begins(number, point, epochs)

    def ended(self, tried: Tried) -> None:
        """Record it and pass it on."""
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
