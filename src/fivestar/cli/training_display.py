"""Progress of a training: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fivestar.cli.terminal import err

# Seconds after which a validation without a terminal says how far it is.
_LONG = 10.0
# Seconds between lines within an epoch without a terminal: one of a large graph takes hours.
_QUIET = 60.0


class TrainingDisplay:
    """Callbacks for a training.

    Args:
        bar: progress bars, shown if standard error is a terminal.
        epochs: the epochs that are trained at most.
    """

    def __init__(self, bar: Progress, epochs: int) -> None:
        self._bar = bar
        self._epochs = epochs
        self._training = bar.add_task("training", total=epochs, unit="epochs", digits=".1f")
        self._ranking = bar.add_task(
            "validation", total=0, unit="queries", digits=",.0f", visible=False
        )
        self._ranking_began: float | None = None
        self._said = False
        self._said_at = time.monotonic()
        self._mrr = self._phase = ""

    def on_epoch(self, line: dict[str, Any]) -> None:
        """Show a line of history; the bar says in which epoch its MRR was measured."""
        loss, speed = f"loss {line['loss']:.3f}", f"{line['triples_per_second']:,.0f} triples/s"
        measured = f"  valid MRR {line['valid_mrr']:.3f}" if "valid_mrr" in line else ""
        if not err.is_terminal:
            self._say(
                f"{self._phase}epoch {line['epoch']}/{self._epochs}  {loss}{measured}  {speed}"
            )
            return
        if measured:
            self._mrr = f"{measured} (epoch {line['epoch']})"
        text = f"{self._phase}{loss}{'' if self._phase else self._mrr}  {speed}"
        self._bar.update(self._training, completed=line["epoch"], description=text)

    def on_step(self, epochs_done: float) -> None:
        """Move the bar; without a terminal, say now and then how far the training is."""
        self._bar.update(self._training, completed=epochs_done)
        if not err.is_terminal and time.monotonic() - self._said_at >= _QUIET:
            self._say(f"{self._phase}{epochs_done:.2f} of {self._epochs} epochs")

    def on_stage(self, stage: str, done: int, total: int) -> None:
        """Show how far a validation or a calibration is, or that a refit begins."""
        if stage == "refit":
            self._epochs, self._phase = total, "refit: "
            self._bar.reset(self._training, total=total, description="refit")
            self._say(f"refit: training again on train and valid for {total} epochs")
            return
        now = time.monotonic()
        if self._ranking_began is None:
            self._ranking_began, self._said = now, False
            self._bar.reset(self._ranking)
        unfinished = done < total
        self._bar.update(
            self._ranking, description=stage, completed=done, total=total, visible=unfinished
        )
        if unfinished and not self._said and now - self._ranking_began >= _LONG:
            self._said = True
            if not err.is_terminal:
                self._say(f"{stage}: {done:,} of {total:,} queries ranked so far")
        if not unfinished:
            self._ranking_began = None

    def _say(self, text: str) -> None:
        self._said_at = time.monotonic()
        err.print(text, markup=False, soft_wrap=True)


@contextmanager
def training_display(epochs: int) -> Iterator[TrainingDisplay]:
    """Show a training of at most this many epochs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:{task.fields[digits]}}/{task.total:,} {task.fields[unit]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        yield TrainingDisplay(bar, epochs)
