"""The argument RUN: a folder, or the address of a run, which is downloaded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.terminal import err, reading_progress

HELP = "Run folder, or an address: hf://, s3://, gs:// or file://."


def path(value: str) -> Path:
    """Return the folder of a run; its name is what --help shows as the type."""
    if ":/" not in value:
        return Path(value)
    from fivestar.runs.remote import locate_run  # noqa: PLC0415  (slow to import)

    with reading_progress() as progress:
        return locate_run(
            value,
            progress=progress,
            announce=lambda text: err.print(text, markup=False, soft_wrap=True),
        )


RunFolder = Annotated[Path, typer.Argument(help=HELP, parser=path)]
RunFolders = Annotated[list[Path], typer.Argument(help=f"One or more runs. {HELP}", parser=path)]
