"""Progress lines on standard error for long-running commands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fivestar.cli.terminal import err, warn

if TYPE_CHECKING:
    from fivestar.experiments.ledger import Entry
    from fivestar.experiments.reproduction import Job
    from fivestar.training.search.budget_state import BudgetWatcher
    from fivestar.training.search.trials import Tried

# Seconds between progress lines.
_QUIET = 20.0


class WatchedJobs:
    """Print a line per run and validation."""

    def started(
        self, job: Job, number: int, of: int
    ) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
        """Announce a run."""
        say(f"run {number} of {of}: {job.title}")
        return epoch_lines(job.settings.training.epochs)

    def searching(self, job: Job, number: int, of: int) -> BudgetWatcher:
        """Announce a run within a time budget."""
        from fivestar.cli.budget import budget_lines  # noqa: PLC0415  (imports this module)

        say(f"run {number} of {of}: {job.title}")
        return budget_lines()

    def recorded(self, job: Job, entry: Entry) -> None:
        """Print the result of a run."""
        say(f"  test MRR {entry.test.mrr:.4f} (validation {entry.valid.mrr:.4f}): {job.title}")

    def failed(self, job: Job, reason: str) -> None:
        """Print why a run failed."""
        warn(f"{job.title}: {reason}")


class WatchedTrials:
    """Print a line per trial and validation."""

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
        """Announce a training of a trial."""
        say(f"trial {number}: {describe_settings(point)}")
        return epoch_lines(epochs)

    def ended(self, tried: Tried) -> None:
        """Print the result of a trial."""
        mrr = "" if tried.mrr is None else f", validation MRR {tried.mrr:.4f}"
        say(f"  {tried.state}{mrr}{f': {tried.why}' if tried.why else ''}")


def say(text: str) -> None:
    """Print to standard error, without markup."""
    err.print(text, markup=False, soft_wrap=True)


def describe_settings(point: dict[str, Any]) -> str:
    """Return the settings of a trial in one line.

    >>> describe_settings({"training.lr": 0.123456, "training.batch_size": 500})
    'lr 0.123, batch-size 500'
    """
    return ", ".join(
        f"{name.partition('.')[2].replace('_', '-')} "
        + (f"{value:.3g}" if isinstance(value, float) else str(value))
        for name, value in point.items()
    )


def epoch_lines(
    epochs: int,
) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
    """Return callbacks per epoch and step that print validations and occasional progress."""
    last_line = time.monotonic()

    def epoch(line: dict[str, Any]) -> None:
        nonlocal last_line
        validated = "valid_mrr" in line
        if validated or time.monotonic() - last_line >= _QUIET:
            mrr = f", validation MRR {line['valid_mrr']:.4f}" if validated else ""
            say(f"  epoch {line['epoch']} of {epochs}: loss {line['loss']:.3f}{mrr}")
            last_line = time.monotonic()

    def step(done: float) -> None:
        nonlocal last_line
        if time.monotonic() - last_line >= _QUIET:
            say(f"  {done:.2f} of {epochs} epochs")
            last_line = time.monotonic()

    return epoch, step
