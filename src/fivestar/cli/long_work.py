"""What is said on standard error while something trains for hours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fivestar.cli.terminal import err, warn

if TYPE_CHECKING:
    from fivestar.experiments.ledger import Entry
    from fivestar.experiments.reproduction import Job
    from fivestar.training.trials import Tried

# Seconds between lines when there is nothing of importance to say.
_QUIET = 20.0


class WatchedJobs:
    """A line for each run and each validation."""

    def begins(
        self, job: Job, number: int, of: int
    ) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
        """A run begins or goes on."""
        say(f"run {number} of {of}: {job.title}")
        return epoch_lines(job.settings.training.epochs)

    def ended(self, job: Job, entry: Entry) -> None:
        """A run is in the ledger."""
        say(f"  test MRR {entry.test.mrr:.4f} (validation {entry.valid.mrr:.4f}): {job.title}")

    def failed(self, job: Job, why: str) -> None:
        """A run has diverged."""
        warn(f"{job.title}: {why}")


class WatchedTrials:
    """A line for each trial and each validation."""

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
        """Announce a training of a trial."""
        say(f"trial {number}: {spoken(point)}")
        return epoch_lines(epochs)

    def ended(self, tried: Tried) -> None:
        """A trial is complete, pruned or failed."""
        mrr = "" if tried.mrr is None else f", validation MRR {tried.mrr:.4f}"
        say(f"  {tried.state}{mrr}{f': {tried.why}' if tried.why else ''}")


def say(text: str) -> None:
    """On standard error, as it is."""
    err.print(text, markup=False, soft_wrap=True)


def spoken(point: dict[str, Any]) -> str:
    """Settings of a trial in a line.

    >>> spoken({"training.lr": 0.123456, "training.batch_size": 500})
    'lr 0.123, batch 500'
    """
    return ", ".join(
        f"{name.partition('.')[2].replace('_', '-')} "
        + (f"{value:.3g}" if isinstance(value, float) else str(value))
        for name, value in point.items()
    )


def epoch_lines(
    epochs: int,
) -> tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]:
    """What to call after an epoch and after a step; validations are told, others now and then."""
    told = time.monotonic()

    def epoch(line: dict[str, Any]) -> None:
        nonlocal told
        validated = "valid_mrr" in line
        if validated or time.monotonic() - told >= _QUIET:
            mrr = f", validation MRR {line['valid_mrr']:.4f}" if validated else ""
            say(f"  epoch {line['epoch']} of at most {epochs}: loss {line['loss']:.3f}{mrr}")
            told = time.monotonic()

    def step(done: float) -> None:
        nonlocal told
        if time.monotonic() - told >= _QUIET:
            say(f"  {done:.2f} of at most {epochs} epochs")
            told = time.monotonic()

    return epoch, step
