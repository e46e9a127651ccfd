"""How commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from fivestar.graph.readers.base import Progress as ProgressCallback

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def complain(message: str) -> None:
    """Say what went wrong. Never as markup: messages quote users' data."""
    err.print(Text("error: ", style="bold red") + Text(message), soft_wrap=True)


def warn(message: str, console: Console = err) -> None:
    """Say what looks wrong."""
    console.print(Text("warning: ", style="bold yellow") + Text(message), soft_wrap=True)


@contextmanager
def reading_progress() -> Iterator[ProgressCallback]:
    """A progress bar that appears with the first report and vanishes at the end."""
    columns = (
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("reading", visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield show
