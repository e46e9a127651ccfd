"""Run commands of fivestar and snippets of pages in one process, which imports torch once.

With UPDATE_DOCS=1 the pages get what is printed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Container
from pathlib import Path

from scripts.run_docs import DocsError, Session, check, chosen, parse, updated

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


def run_page(
    session: OneProcess, page: Path, folder: Path, with_blocks: Container[str] = ()
) -> None:
    """Run a page in a folder, and compare what it prints or write that into the page."""
    session.begin_page(folder)
    text = page.read_text(encoding="utf-8")
    update, outcomes = bool(os.environ.get("UPDATE_DOCS")), []
    try:
        for step in chosen(parse(text), with_blocks):
            outcomes.append(session.run(step))
            if not update:
                check(outcomes[-1])
    except DocsError as error:
        raise DocsError(f"{page.name}, {error}") from None
    if update:
        page.write_text(updated(text, outcomes), encoding="utf-8")
