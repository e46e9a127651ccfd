"""The argument RUN: a folder, or the address of a run, which is downloaded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fivestar.cli.terminal import err, reading_progress
from fivestar.errors import SettingsError

# The address of a server; only `fivestar ask` takes one.
SERVER = ("http://", "https://")
HELP = "Run folder, or an address: hf://, s3://, gs:// or file://."
_Command = TypeVar("_Command", bound=Callable[..., None])


def path(value: str) -> Any:
    """Parse the argument; an address stays a string, since a Path joins its slashes."""
    return value if ":/" in value else Path(value)


def local_folder(run: Any) -> Path:
    """Return the folder of a run, and download it if it is an address."""
    if not isinstance(run, str):
        return Path(run)
    if run.startswith(SERVER):
        raise SettingsError(f"{run}: only fivestar ask takes a server; give the folder of the run")
    from fivestar.runs.remote import locate_run  # noqa: PLC0415  (slow to import)

    with reading_progress() as progress:
        return locate_run(
            run,
            progress=progress,
            announce=lambda text: err.print(text, markup=False, soft_wrap=True),
        )


def with_local_runs(command: _Command) -> _Command:
    """Give a command the folders of its arguments `run` or `runs`, also of addresses."""

    @wraps(command)
    def called(*arguments: Any, **named: Any) -> None:
        if "run" in named:
            named["run"] = local_folder(named["run"])
        if "runs" in named:
            named["runs"] = [local_folder(run) for run in named["runs"]]
        command(*arguments, **named)

    return called  # type: ignore[return-value]


RunFolder = Annotated[Path, typer.Argument(help=HELP, parser=path)]
RunFolders = Annotated[list[Path], typer.Argument(help=f"One or more runs. {HELP}", parser=path)]
