"""What is written beside every figure: where it comes from."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from pathlib import Path

import torch


def provenance() -> dict[str, str]:
    """The commit, the machine and the day."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    place = Path(__file__).parent
    done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
    return {
        "commit": done.stdout.strip(),
        "machine": f"{os.cpu_count()} cores, torch {torch.__version__}",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }
