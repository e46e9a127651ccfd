"""Where the ledger is, if nobody says."""

from __future__ import annotations

import os
from pathlib import Path

_IN_CHECKOUT = Path("results") / "ledger.jsonl"


def default_ledger() -> Path:
    """That of the checkout around the current folder, or else the user's own."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / _IN_CHECKOUT).is_file():
            return folder / _IN_CHECKOUT
    home = os.environ.get("XDG_DATA_HOME")
    data = Path(home) if home else Path.home() / ".local" / "share"
    return data / "fivestar" / "ledger.jsonl"
