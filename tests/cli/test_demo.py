from __future__ import annotations

import sys

from typer.testing import CliRunner

from fivestar.cli import demo
from fivestar.cli.main import app


def test_the_demo_ends_with_the_command_that_opens_the_page(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--epochs", "1", "--out", f"{tmp_path}/run"])
    assert result.exit_code == 0, result.output
    assert "Held-out facts: the model ranks the tail of" in result.output
    assert result.output.endswith(f"fivestar serve {tmp_path}/run\n")
    assert (tmp_path / "run" / "manifest.json").is_file()


def test_commands_are_shown_as_this_shell_calls_them(tmp_path, monkeypatch):
    command = tmp_path / "fivestar"
    command.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(command)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo._command_as_typed() == str(command)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo._command_as_typed() == "fivestar"
    monkeypatch.setattr(sys, "argv", ["/somewhere/pytest"])
    assert demo._command_as_typed() == "fivestar"
