from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = (
    "import sys; sys.argv = ['fivestar', *sys.argv[1:]]; from fivestar.cli.main import main; main()"
)


def fivestar(*arguments, **env):
    command = [sys.executable, "-c", CODE, *arguments]
    result = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, check=False
    )
    return result.stdout


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("tra", "train"), ("graph in", "info"), ("ask --exc", "--exclude-known")],
)
def test_bash_completes_commands_and_options(typed, wanted):
    words = f"fivestar {typed}"
    found = fivestar(
        _FIVESTAR_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert found.split() == [wanted]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_commands(shell):
    found = fivestar(
        _FIVESTAR_COMPLETE=f"complete_{shell}",
        _TYPER_COMPLETE_ARGS="fivestar cali",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert "calibration" in found
    assert "evaluate" not in found


def test_the_script_is_shown():
    found = fivestar("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_FIVESTAR_COMPLETE=complete_bash" in found
