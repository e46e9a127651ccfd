"""The examples of docs/commands.md run in order, in a new folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.docs.one_process import OneProcess, run_page

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
COMMAND = re.compile(r"^(?: {4}|\$ )fivestar ", re.MULTILINE)


@pytest.fixture
def session(tmp_path):
    with OneProcess(tmp_path, str(Path(sys.executable).parent)) as opened:
        yield opened


def test_the_commands_run(session, tmp_path):
    run_page(session, PAGE, tmp_path)


@pytest.mark.slow
def test_all_commands_run_with_the_long_ones(session, tmp_path):
    run_page(session, PAGE, tmp_path, ("slow",))


def test_most_commands_are_run():
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(
        r"^(?:<!-- docs: (\w+)[^\n]* -->\n)?(```console\n)(.*?)^```",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert sum(len(COMMAND.findall(body)) for _, _, body in blocks) == len(COMMAND.findall(text))
    assert sum(directive == "skip" for directive, _, _ in blocks) < len(blocks) / 3
