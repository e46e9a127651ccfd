"""docs/defaults.md is what the committed trials give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_defaults_is_made_of_the_trials():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import table; print(table.page(), end='')"
    folder = ROOT / "experiments" / "defaults"
    command = [sys.executable, "-c", code, str(folder)]
    made = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    assert made == (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8"), (
        "run python experiments/defaults/table.py"
    )
