"""A progress bar for training, on a terminal and in notebooks."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fivestar.training.loop import Callback, StepCallback
from fivestar.training.validation import Stage, StageCallback


def shows_progress(*, progress: bool | None) -> bool:
    """Return whether to show progress: as asked, or by default on a terminal or in a notebook."""
    if progress is not None:
        return progress
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


class TrainingProgress:
    """Shows epochs, loss and validation MRR while a model is trained; a context manager.

    Args:
        epochs: number of epochs.
        enabled: whether anything is shown.
        console: where to draw; by default standard error.
    """

    def __init__(self, epochs: int, *, enabled: bool, console: Console | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.1f}/{task.total} epochs"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            disable=not enabled,
        )
        self._enabled = enabled
        self._task = self._bar.add_task("training", total=epochs)
        self._mrr = ""

    def __enter__(self) -> TrainingProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def wrap(
        self,
        on_epoch: Callback | None,
        on_step: StepCallback | None,
        on_stage: StageCallback | None,
    ) -> tuple[Callback | None, StepCallback | None, StageCallback | None]:
        """Return callbacks that move the bar and then call the given ones."""
        if not self._enabled:
            return on_epoch, on_step, on_stage

        def epoch(line: dict[str, Any]) -> None:
            if "valid_mrr" in line:
                self._mrr = f", valid MRR {line['valid_mrr']:.3f} (epoch {line['epoch']})"
            text = f"loss {line['loss']:.3f}{self._mrr}"
            self._bar.update(self._task, completed=line["epoch"], description=text)
            if on_epoch is not None:
                on_epoch(line)

        def step(epochs_done: float) -> None:
            self._bar.update(self._task, completed=epochs_done)
            if on_step is not None:
                on_step(epochs_done)

        def stage(name: Stage, done: int, total: int) -> None:
            if name == "refit":
                self._bar.reset(self._task, total=total, description="refit")
            if on_stage is not None:
                on_stage(name, done, total)

        return epoch, step, stage
