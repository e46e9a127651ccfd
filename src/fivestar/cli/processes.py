"""Commands in several processes that share the entity table (torchrun)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.terminal import err, out, print_error
from fivestar.errors import SettingsError

Processes = Annotated[
    int,
    typer.Option(
        "--processes",
        help="Processes on this machine that share the entity table by rows. For several machines "
        "use torchrun.",
        min=1,
        rich_help_panel="Advanced",
    ),
]
# Commands that score with the rows of all processes.
_SHARDED = ("train", "evaluate", "complete")


def launched() -> bool:
    """Return whether torchrun has started this process as one of several."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def begin() -> None:
    """Join the other processes, if torchrun has started several; only the first one prints.

    Raises:
        SettingsError: The command cannot run in several processes.
    """
    if not launched():
        return
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if command not in _SHARDED:
        raise SettingsError(
            f"fivestar {command} runs in one process: start it without torchrun (in several "
            f"processes: {', '.join(_SHARDED)})"
        )
    from fivestar.training.processes import join_processes  # noqa: PLC0415  (imports torch)

    join_processes("cpu" if "cpu" in sys.argv else "auto")
    out.quiet = err.quiet = os.environ.get("RANK", "0") != "0"


def launch(processes: int) -> None:
    """Run this command in several processes on this machine, by torchrun, and exit."""
    from torch.distributed import run  # noqa: PLC0415  (slow to import)
    from torch.distributed.elastic.multiprocessing.errors import (  # noqa: PLC0415
        ChildFailedError,
    )

    words = sys.argv[1:]
    for number, word in enumerate(words):
        if word == "--processes":
            del words[number : number + 2]
            break
        if word.startswith("--processes="):
            del words[number]
            break
    options = ["--standalone", "--nproc-per-node", str(processes)]
    try:
        run.main([*options, "-m", "fivestar", *words])
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        how = f"failed ({failure.exitcode}); see above"
        if failure.exitcode < 0:
            how = f"was killed ({failure.signal_name()}): resume with fivestar train --resume RUN"
        print_error(f"process {rank} of {processes} {how}")
        raise typer.Exit(1) from None
    raise typer.Exit


def refuse_launched(option: object, what: str) -> None:
    """Raise SettingsError if an option that needs one process is given in several."""
    if option is not None and launched():
        raise SettingsError(
            f"{what} in one process: do that first, then train with the settings.toml of its run "
            "in several"
        )


def agreed_folder(folder: Path) -> Path:
    """Return the folder that the first process has chosen."""
    if not launched():
        return folder
    from fivestar.models.sharding import text_from_first  # noqa: PLC0415  (imports torch)

    return Path(text_from_first(str(folder)))


def restarted_run(folder: Path | None) -> Path | None:
    """Return the folder of a training that torchrun has restarted, if it had begun before.

    Raises:
        SettingsError: It was restarted, and nobody knows its folder.
    """
    if not launched() or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        return None
    if folder is None:
        raise SettingsError(
            "training was restarted without the folder of its run: name it with --out, so that a "
            "restart can resume it"
        )
    return folder if (folder / "settings.toml").exists() else None
