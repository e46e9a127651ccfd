"""Console output: results on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from fivestar.graph.readers.base import Progress as ProgressCallback

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def print_error(message: str) -> None:
    """Print an error, never as markup: messages quote user data."""
    err.print(Text("error: ", style="bold red") + Text(message), soft_wrap=True)


def warn(message: str, console: Console = err) -> None:
    """Print a warning, never as markup."""
    console.print(Text("warning: ", style="bold yellow") + Text(message), soft_wrap=True)


def reading_progress() -> AbstractContextManager[ProgressCallback]:
    """Show the number of bytes read."""
    return _progress("reading", DownloadColumn())


def counting_progress(text: str) -> AbstractContextManager[ProgressCallback]:
    """Show how many items are done."""
    return _progress(text, MofNCompleteColumn())


def ranking_progress() -> AbstractContextManager[ProgressCallback]:
    """Show how many queries have been ranked."""
    return counting_progress("ranking")


@contextmanager
def _progress(text: str, amount: ProgressColumn) -> Iterator[ProgressCallback]:
    """Show a progress bar from the first update on and remove it at the end."""
    columns = (TextColumn(text), BarColumn(), amount, TimeRemainingColumn(compact=True))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(text, visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show
