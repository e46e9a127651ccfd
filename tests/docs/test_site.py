"""The tutorial and the how-to pages do what they show.

How they are run: one_process.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.docs.one_process import OneProcess, run_page

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial" / "index.md"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("session")
    with OneProcess(folder, str(Path(sys.executable).parent)) as opened:
        yield opened


@pytest.fixture(scope="module")
def tutorial(session, tmp_path_factory):
    """The folder that the tutorial leaves."""
    folder = tmp_path_factory.mktemp("tutorial")
    shutil.copy(DOCS / "tutorial" / "debian.csv.gz", folder)
    run_page(session, TUTORIAL, folder)
    return folder


def test_the_tutorial_prints_what_it_shows(tutorial):
    assert {"debian", "run", "new.tsv"} <= {path.name for path in tutorial.iterdir()}


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_prints_what_it_shows(page, session, tutorial, tmp_path):
    folder = tmp_path / page.stem
    shutil.copytree(tutorial, folder)
    run_page(session, page, folder)
