"""A progress bar for training, on a terminal and in notebooks."""

from __future__ import annotations

import time
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fivestar.training.loop import Callback, StepCallback
from fivestar.training.validation import Stage, StageCallback

# Seconds between two drawings in a notebook.
_REDRAW = 0.2


def shows_progress(*, progress: bool | None) -> bool:
    """Return whether to show progress: as asked, or by default on a terminal or in a notebook."""
    if progress is not None:
        return progress
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


class _TerminalBar:
    """A progress bar on a terminal."""

    def __init__(self, epochs: int, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.1f}/{task.total} epochs"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("training", total=epochs)

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        self._bar.stop()

    def update(self, done: float, text: str | None = None) -> None:
        self._bar.update(self._task, completed=done, description=text)

    def restart(self, epochs: int, text: str) -> None:
        self._bar.reset(self._task, total=epochs, description=text)


class _NotebookBar:
    """A progress bar in a notebook: one output that is redrawn, without ipywidgets."""

    def __init__(self, epochs: int) -> None:
        self._epochs, self._done, self._text = epochs, 0.0, "training"
        self._handle: Any = None
        self._drawn = 0.0

    def start(self) -> None:
        # A notebook has it; it is no dependency of ours.
        display: Any = import_module("IPython.display").display
        self._handle = display(self, display_id=True)

    def stop(self) -> None:
        self._draw()

    def update(self, done: float, text: str | None = None) -> None:
        self._done, self._text = done, text or self._text
        if time.monotonic() - self._drawn >= _REDRAW:
            self._draw()

    def restart(self, epochs: int, text: str) -> None:
        self._epochs = epochs
        self.update(0, text)

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def __repr__(self) -> str:
        return f"{self._text}: {self._done:.1f}/{self._epochs} epochs"

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._done:.2f}" max="{self._epochs}"></progress>'
        return f"<div>{bar} {escape(repr(self))}</div>"


class TrainingProgress:
    """Shows epochs, loss and validation MRR while a model is trained; a context manager.

    Args:
        epochs: number of epochs.
        enabled: whether anything is shown.
        console: where to draw; by default standard error.
    """

    def __init__(self, epochs: int, *, enabled: bool, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar = _NotebookBar(epochs) if console.is_jupyter else _TerminalBar(epochs, console)
        self._enabled = enabled
        self._mrr = ""

    def __enter__(self) -> TrainingProgress:
        if self._enabled:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._enabled:
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
            self._bar.update(line["epoch"], text)
            if on_epoch is not None:
                on_epoch(line)

        def step(epochs_done: float) -> None:
            self._bar.update(epochs_done)
            if on_step is not None:
                on_step(epochs_done)

        def stage(name: Stage, done: int, total: int) -> None:
            if name == "refit":
                self._mrr = ""
                self._bar.restart(total, "refit")
            if on_stage is not None:
                on_stage(name, done, total)

        return epoch, step, stage
