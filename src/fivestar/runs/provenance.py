"""What is written beside every published figure: where it comes from."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shutil
import subprocess
from pathlib import Path

import torch

from fivestar.version import __version__


def provenance() -> dict[str, str]:
    """The commit (or the version, outside of a checkout), the machine and the day."""
    return {
        "commit": _commit() or f"version {__version__}",
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "rev-parse", "--short", "HEAD"]
    place = Path(__file__).parent
    done = subprocess.run(command, cwd=place, check=False, capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip() or None
