"""Console output: results on standard output, everything else on standard error."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
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

from fivestar.errors import ProcessLost
from fivestar.runs.units import format_duration

if TYPE_CHECKING:
    from fivestar.graph.readers.base import Progress as ProgressCallback

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

# How often work without a terminal says how far it is.
_LINE_SECONDS = 30

# Flags of arguments that library messages name, where they are not `--name value`.
_OTHER_FLAGS = {
    "existing='replace'": "--force",
    "splits='merge'": "--all",
    "model.to_fivestar()": "fivestar convert",
    "model.predict_tails": "fivestar ask",
    "model.predict_heads": "fivestar ask",
    "train with warm_start": "train with --from",
    "omit weight": "omit --weight-column",
    "weight= is": "--weight-column is",
    "freeze_entities needs entity_vectors": "--freeze-entities needs --entity-vectors",
    "freeze_entities:": "--freeze-entities:",
    "omit entity_vectors": "omit --entity-vectors",
}
_ARGUMENTS = (
    *("columns", "delimiter", "denominator", "format", "graphs", "header", "literals", "mirror"),
    *("on_bad_line", "pairs", "quote", "sampler", "to", "types", "weight"),
)
_RESUME = re.compile(r"fivestar\.resume\('([^']*)'\)")
_TRAIN = re.compile(r"fivestar\.train\('([^']*)'\)")
_ARGUMENT = re.compile(rf"\b({'|'.join(_ARGUMENTS)})=(\([^()]*\)|\['[^']*'\]|'[^']*'|\d+)")


def with_flags(message: str) -> str:
    """Replace the Python arguments that a library message names by the flags of the command line.

    >>> with_flags("Fix the line, or pass on_bad_line='skip' to skip such lines.")
    'Fix the line, or pass --on-bad-line skip to skip such lines.'
    >>> with_flags("pass columns=('s', 'p', 'o') or merge the splits with splits='merge'")
    'pass --columns s,p,o or merge the splits with --all'
    """
    return "\n".join(
        # Lines of user data are quoted after a bar.
        line if line.startswith("  | ") else _with_flags(line)
        for line in message.split("\n")
    )


def _with_flags(line: str) -> str:
    for argument, flag in _OTHER_FLAGS.items():
        line = line.replace(argument, flag)
    line = _settings_pattern().sub(lambda match: match[0].replace("_", "-"), line)
    line = _TRAIN.sub(r"fivestar train \1", _RESUME.sub(r"fivestar train --resume \1", line))
    return _ARGUMENT.sub(_flag, line)


@cache
def _settings_pattern() -> re.Pattern[str]:
    """Return what matches the settings whose names have dashes in flags and files."""
    from fivestar.runs.settings import TrainingSettings  # noqa: PLC0415  (slow to import)

    names = [name for name in TrainingSettings.model_fields if "_" in name]
    return re.compile(rf"\b({'|'.join(names)})\b")


def _flag(match: re.Match[str]) -> str:
    name = match[1].replace("_", "-").replace("graphs", "graph")
    name = "weight-column" if name == "weight" else name
    value = ",".join(part.strip("' ") for part in match[2].strip("()[]").split(", "))
    return f"--{name} {value or repr(value)}"


def print_error(message: str) -> None:
    """Print an error, never as markup: messages quote user data."""
    err.quiet = False  # only the first of several processes prints anything else
    err.print(Text("error: ", style="bold red") + Text(with_flags(message)), soft_wrap=True)


def warn(message: str, console: Console = err) -> None:
    """Print a warning, never as markup."""
    text = Text("warning: ", style="bold yellow") + Text(with_flags(message))
    console.print(text, soft_wrap=True)


@contextmanager
def resumable(advice: str) -> Iterator[None]:
    """Say how to resume when the command is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(advice) from None


@contextmanager
def resumable_run(folder: Path) -> Iterator[None]:
    """Say how to resume a training when it is interrupted, or a process of it has ended."""
    try:
        yield
    except (KeyboardInterrupt, ProcessLost) as error:
        # The settings are written before the first epoch.
        if not (folder / "settings.toml").is_file():
            raise
        advice = f"resume with: fivestar train --resume {shlex.quote(str(folder))}"
        if isinstance(error, ProcessLost):
            raise ProcessLost(f"{error}; {advice}") from error
        raise KeyboardInterrupt(advice) from None


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
    """Show a progress bar from the first update on and remove it at the end.

    Where there is no terminal (a log, a batch job), long work prints a line now and then.
    """
    columns = (TextColumn(text), BarColumn(), amount, TimeRemainingColumn(compact=True))
    began = shown = time.monotonic()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(text, visible=False)

        def show(done: int, total: int) -> None:
            nonlocal shown
            bar.update(task, completed=done, total=total, visible=True)
            now = time.monotonic()
            if bar.disable and 0 < done < total and now - shown >= _LINE_SECONDS:
                shown = now
                left = format_duration((now - began) * (total - done) / done)
                line = f"{text}: {done:,} of {total:,} ({done / total:.1%}), about {left} left"
                err.print(line, markup=False, soft_wrap=True)

        yield show
