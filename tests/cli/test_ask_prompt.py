"""`fivestar ask RUN` without a triple: a prompt, or queries from a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.ask_prompt import Completer, parse_query
from fivestar.cli.main import app
from fivestar.errors import SettingsError

NAMES = [
    ("New York", "part of", "United States"),
    ("New Jersey", "part of", "United States"),
    ("Paris", "in", "France"),
    ("Paris", "part of", "Île-de-France"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("prompt") / "run"
    fivestar.train(people_graph(), dim=4, epochs=1, out=place)
    return place


def ask(folder, text, *options):
    return CliRunner().invoke(app, ["ask", str(folder), *options], input=text)


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("Paris in _", ("Paris", "in", "_")),
        ("New York part of _", ("New York", "part of", "_")),
        ('"New York" "part of" ?', ("New York", "part of", "?")),
        ("_ part of United States", ("_", "part of", "United States")),
        ("new york _ united states", ("new york", "_", "united states")),
        ("New York\tpart of\t_", ("New York", "part of", "_")),
        # An unknown name is what is left beside the known ones: the error suggests others.
        ("New Yrok part of _", ("New Yrok", "part of", "_")),
        ("Nowhere nohow _", ("Nowhere", "nohow", "_")),
    ],
)
def test_a_line_is_divided_by_the_names_of_the_graph(line, query):
    assert parse_query(fivestar.read_graph(NAMES), line) == query


@pytest.mark.parametrize("line", ["Paris", "Paris in", "a\tb", "a\tb\tc\td"])
def test_a_line_with_too_few_parts(line):
    with pytest.raises(SettingsError, match="write head, relation and tail"):
        parse_query(fivestar.read_graph(NAMES), line)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("new ", ['"New Jersey" ', '"New York" ']),
        ("PAR", ["Paris "]),
        ("Paris ", ["Paris in ", 'Paris "part of" ']),
        ('Paris "part of" Î', ['Paris "part of" Île-de-France ']),
        ("New York part of Un", ['New York part of "United States" ']),
        ("_ in Fr", ["_ in France "]),
        ("Atlantis pa", []),
        ("Paris in France ", []),
        ('"New J', ['"New Jersey" ']),
    ],
)
def test_tab_completes_names(line, completed):
    assert Completer(fivestar.read_graph(NAMES)).complete(line) == completed


def test_labels_are_completed_too(tmp_path):
    for name, text in {
        "train.tsv": "http://a/1\thttp://r\thttp://a/2\n",
        "entity_labels.tsv": "http://a/1\tOne\nhttp://a/2\tTwo\n",
    }.items():
        (tmp_path / name).write_text(text)
    completer = Completer(fivestar.read_graph(tmp_path))
    assert completer.complete("o") == ["One "]
    assert completer.complete("One http://r t") == ["One http://r Two "]
    assert completer.complete("http://a/") == ["http://a/1 ", "http://a/2 "]


def test_a_pipe_is_answered_line_by_line(folder):
    result = ask(folder, "p3 lives_in _\n\n_ lives_in c1\nquit\np4 lives_in _\n", "--top", "2")
    assert result.exit_code == 0, result.output
    assert re.findall(r"^.*lives_in.*$", result.stdout, re.MULTILINE) == [
        "p3  lives_in  _",
        "_  lives_in  c1",
    ]
    lines = ask(folder, "p3 lives_in _\np3 _ c3\n", "--top", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["query"] for line in lines] == [
        ["p3", "lives_in", "_"],
        ["p3", "_", "c3"],
    ]
    assert [len(json.loads(line)["answers"]) for line in lines] == [2, 2]


def test_errors_do_not_end_the_prompt(folder):
    result = ask(folder, "p3 live_in _\np3 lives_in c3\np3 lives_in _\n", "--top", "1")
    assert result.exit_code == 1  # not all lines of the pipe were answered
    assert "no relation 'live_in'; did you mean 'lives_in'?" in result.stderr
    assert "exactly one of head, relation and tail must be missing" in result.stderr
    assert "p3  lives_in  _" in result.stdout


def test_help_shows_queries_that_work(folder):
    shown = ask(folder, "help\n").stdout
    queries = re.findall(r"^  (.*?)   the (?:tails|heads|relations)$", shown, re.MULTILINE)
    assert len(queries) == 3
    assert ask(folder, "\n".join(queries)).exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_prompt_on_a_terminal(folder, tmp_path):
    import pty  # noqa: PLC0415

    main, side = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "80"}
    command = [sys.executable, "-m", "fivestar", "ask", str(folder), "--top", "2"]
    with subprocess.Popen(
        command, stdin=side, stdout=side, stderr=side, env=environment
    ) as process:
        os.close(side)
        text = _read_until(main, "? ")
        assert "Tab completes names" in text
        os.write(main, b"p3 liv\t_\n")
        assert "lives_in" in _read_until(main, "\n? ")
        os.write(main, b"\x04")  # Ctrl-D
        assert process.wait(60) == 0
    os.close(main)
    assert (tmp_path / "fivestar" / "ask_history").read_text().strip() == "p3 lives_in _"


def _read_until(terminal, end, seconds=120):
    text, deadline = "", time.monotonic() + seconds
    while not text.replace("\r", "").endswith(end):
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 4096).decode()
    return text
