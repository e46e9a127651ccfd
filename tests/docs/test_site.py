"""The tutorial and the how-to pages do what they show.

Commands of fivestar and snippets of all pages run in one process, which imports torch once.
With UPDATE_DOCS=1 the pages get what is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from scripts.run_docs import DocsError, Session, check, parse, updated

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial" / "index.md"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
EXIT = "exit code "

_COMMAND = """
import sys
from fivestar.cli.main import main
sys.argv = {words!r}
try:
    main()
    print("\\n" + {exit!r} + "0")
except SystemExit as stopped:
    print("\\n" + {exit!r} + str(stopped.code or 0))
"""
_NEW_PAGE = """
for _name in [name for name in globals() if not name.startswith("__")]:
    del globals()[_name]
import os
os.chdir({folder!r})
"""


class OneProcess(Session):
    """Runs commands of fivestar and snippets in one Python process, other commands in bash."""

    def begin_page(self, folder: Path) -> None:
        self.cwd = folder
        self._run_python(_NEW_PAGE.format(folder=str(folder)))

    def _run_command(self, code: str) -> tuple[str, int]:
        words = shlex.split(code)
        if words[0] != "fivestar" or set("|&;<>$") & set(code):
            return super()._run_command(code)
        printed, _ = self._run_python(_COMMAND.format(words=words, exit=EXIT))
        text, _, exit_code = printed.rpartition(EXIT)
        return text, int(exit_code)


def run_page(session: OneProcess, page: Path, folder: Path) -> None:
    """Run a page in a folder, and compare what it prints or write that into the page."""
    session.begin_page(folder)
    text = page.read_text(encoding="utf-8")
    update, outcomes = bool(os.environ.get("UPDATE_DOCS")), []
    try:
        for step in parse(text):
            if "setup" not in step.directives:
                outcomes.append(session.run(step))
                if not update:
                    check(outcomes[-1])
    except DocsError as error:
        raise DocsError(f"{page.name}, {error}") from None
    if update:
        page.write_text(updated(text, outcomes), encoding="utf-8")


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
