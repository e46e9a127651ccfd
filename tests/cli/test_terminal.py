"""Messages of the library show flags on the command line."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from fivestar.cli import terminal
from fivestar.cli.main import app
from fivestar.cli.terminal import print_error, warn, with_flags


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass on_bad_line='skip' to skip", "pass --on-bad-line skip to skip"),
        ("as in columns=(0, 1, 2) or", "as in --columns 0,1,2 or"),
        ("columns=('s', 'p', 'o')", "--columns s,p,o"),
        ("pass quote=''", "pass --quote ''"),
        ("select them with graphs=['IRI']", "select them with --graph IRI"),
        ("or existing='replace'", "or --force"),
        ("with splits='merge'", "with --all"),
        ("with model.to_fivestar()", "with fivestar convert"),
        (
            "resume it with fivestar.resume('my run')",
            "resume it with fivestar train --resume my run",
        ),
        ("or use sampler='tpe'", "or use --sampler tpe"),
        ("use model.predict_tails, or", "use fivestar ask, or"),
        ("train with warm_start to", "train with --from to"),
        ("a batch_size of at most 3", "a batch-size of at most 3"),
        ("did you mean 'in_country'?", "did you mean 'in_country'?"),
        ("other='value' stays", "other='value' stays"),
        ("line 3: bad\n  | header='yes'\nFix it", "line 3: bad\n  | header='yes'\nFix it"),
    ],
)
def test_arguments_are_shown_as_flags(message, shown):
    assert with_flags(message) == shown


def test_errors_and_warnings_show_flags(capsys):
    print_error("pass header='yes'")
    warn("pass header='no'")
    assert capsys.readouterr().err == "error: pass --header yes\nwarning: pass --header no\n"


def test_warnings_of_a_graph_show_flags(tmp_path):
    (tmp_path / "graph.tsv").write_text("name\trelation\tother\na\tr\tb\n")
    arguments = ["graph", "info", str(tmp_path / "graph.tsv"), "--header", "no"]
    assert "pass --header yes" in " ".join(CliRunner().invoke(app, arguments).output.split())


def test_long_work_without_a_terminal_prints_lines(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_LINE_SECONDS", 0)
    with terminal.counting_progress("scoring") as progress:
        progress(0, 2000)
        progress(500, 2000)
        progress(2000, 2000)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"scoring: 500 of 2,000 \(25\.0%\), about \d+:\d\d left", line)


def test_short_work_without_a_terminal_prints_nothing(capsys):
    with terminal.counting_progress("scoring") as progress:
        progress(500, 2000)
    assert capsys.readouterr() == ("", "")
