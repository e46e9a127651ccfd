"""Play a new user: clone the repository, and do what README and tutorial say, word for word.

    python scripts/newcomer.py

Everything happens in a temporary folder: a fresh clone of the current commit, a fresh environment
that `make demo` fills, and the blocks of the pages in order (see run_docs.py), with their outputs
compared. Prints how long each step took.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from run_docs import DocsError, run_page

ROOT = Path(__file__).parents[1]
# In a new folder, with the environment that the README has installed and the file it names.
TUTORIAL = Path("docs/tutorial/index.md")
GRAPH = Path("docs/tutorial/debian.csv.gz")


def main() -> None:
    """Clone, run the pages, print the times."""
    # Only what a new user has: no environment of ours.
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "FIVESTAR_DATA"):
        os.environ.pop(name, None)
    start, cpu = time.perf_counter(), os.times()
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "fivestar"
        command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]
        subprocess.run(command, check=True)  # noqa: S603
        _play(clone / "README.md", clone, None)
        folder = Path(temporary) / "tutorial"
        folder.mkdir()
        shutil.copy(clone / GRAPH, folder)
        _play(clone / TUTORIAL, folder, str(clone / ".venv/bin"))
    used = os.times()
    seconds = used.children_user + used.children_system - cpu.children_user - cpu.children_system
    print(f"{time.perf_counter() - start:8.1f} s  in all, {seconds:.0f} s of CPU time")


def _play(page: Path, folder: Path, path: str | None) -> None:
    try:
        outcomes = run_page(page, folder, with_blocks=("setup",), path=path)
    except DocsError as error:
        sys.exit(str(error))
    for outcome in outcomes:
        first = outcome.step.code.strip().partition("\n")[0]
        print(f"{outcome.seconds:8.1f} s  {page.name}:{outcome.step.line + 1}  {first}", flush=True)


if __name__ == "__main__":
    main()
