"""The commands and snippets of the pages run, in order, and print what the pages show.

How a page says what is run: scripts/run_docs.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from scripts.run_docs import run_page

import fivestar

ROOT = Path(__file__).parents[2]
# Each runs in a new folder, beside the run that `make demo` leaves in demo_run.
PAGES: list[str] = []


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("demo") / "demo_run"
    fivestar.train(out=run)
    return run


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page, demo_run, tmp_path):
    shutil.copytree(demo_run, tmp_path / "demo_run")
    run_page(ROOT / page, tmp_path, path=str(Path(sys.executable).parent))
