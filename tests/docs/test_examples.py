"""Commands that the pages show but do not run have arguments and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from fivestar.cli.main import app

ROOT = Path(__file__).parents[2]
COMMAND = typer.main.get_command(app)
(USAGE_ERROR,) = typer.BadParameter.__bases__
# Commands in blocks.
SHOWN = re.compile(r"^(?: {4}|\$ )(fivestar .+)$", re.MULTILINE)


def examples():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        commands = [shlex.split(found, comments=True) for found in SHOWN.findall(text)]
        if commands and "_build" not in page.parts:
            yield pytest.param(commands, id=page.relative_to(ROOT).as_posix())


def parse(words):
    command, context = COMMAND, COMMAND.make_context("fivestar", list(words))
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, words, parent=context)


@pytest.mark.parametrize("commands", list(examples()))
def test_shown_commands_can_be_parsed(commands):
    for _, *words in commands:
        # Up to the shell's own signs.
        end = next((n for n, word in enumerate(words) if word in ("|", ">", "&", "&&")), None)
        parse(words[:end])


@pytest.mark.parametrize(
    "words", [["ask", "run", "--topp", "3"], ["tran"], ["train", "--dim", "x"]]
)
def test_what_does_not_exist_is_noticed(words):
    with pytest.raises(USAGE_ERROR):
        parse(words)
