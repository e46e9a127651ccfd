"""`fivestar ask http://…` prints what `fivestar ask RUN` does, without importing torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.server.serving import serving
from tests.server.test_client import TOKEN, same
from typer.testing import CliRunner

from fivestar.cli.main import app, main
from fivestar.server.settings import ServerSettings


def run(*arguments):
    return CliRunner().invoke(app, ["ask", *map(str, arguments)])


def failure(capsys, monkeypatch, *arguments):
    """Return what the command prints when it fails."""
    monkeypatch.setattr(sys, "argv", ["fivestar", "ask", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("lyon", "in_country", "_", "--top", 4),
        ("?", "in_country", "France", "--exclude-known", "--types", "city"),
        ("Lyon", "_", "France", "--only-known"),
    ],
)
def test_the_answers_are_those_of_the_run(server, served_runs, arguments):
    mine, theirs = (run(place, *arguments, "--json") for place in (served_runs[0], server))
    assert mine.exit_code == theirs.exit_code == 0, theirs.output
    same(json.loads(theirs.stdout), json.loads(mine.stdout))
    mine, theirs = (run(place, *arguments) for place in (served_runs[0], server))
    assert [line.split()[:2] for line in theirs.stdout.splitlines()] == [
        line.split()[:2] for line in mine.stdout.splitlines()
    ]


def test_another_run_of_the_server(server, served_runs):
    query = ("Lyon", "in_country", "_", "--json")
    mine, theirs = run(served_runs[1], *query), run(server, *query, "--served-run", "complex")
    same(json.loads(theirs.stdout), json.loads(mine.stdout))


@pytest.mark.parametrize("query", [("Lyyon", "in_country", "_"), ("Lyon", "_", "_")])
def test_errors_are_those_of_the_run(server, served_runs, query, capsys, monkeypatch):
    mine = failure(capsys, monkeypatch, served_runs[0], *query)
    assert failure(capsys, monkeypatch, server, *query) == mine


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--queries and the prompt need the run itself"),
        (("--queries", "queries.tsv"), "--queries and the prompt need the run itself"),
        (("a", "b", "_", "--candidates", "observed"), "--candidates needs the run itself"),
        (("a", "b", "_", "--served-run", "none"), "none"),
    ],
)
def test_what_a_server_cannot_do(server, options, message, capsys, monkeypatch):
    assert message in failure(capsys, monkeypatch, server, *options)


def test_options_of_servers_need_one(served_runs, capsys, monkeypatch):
    query = ("Lyon", "in_country", "_", "--served-run", "complex")
    message = failure(capsys, monkeypatch, served_runs[0], *query)
    assert "--token-file and --served-run are for servers" in message


def test_other_commands_take_no_server(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fivestar", "similar", "http://localhost:8005", "Lyon"])
    with pytest.raises(SystemExit):
        main()
    assert "only fivestar ask takes a server" in capsys.readouterr().err


def test_a_server_that_does_not_answer(capsys, monkeypatch):
    message = failure(capsys, monkeypatch, "http://127.0.0.1:9", "a", "b", "_")
    assert "http://127.0.0.1:9 does not answer" in message


def test_a_token(served_runs, tmp_path, capsys, monkeypatch):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    settings = ServerSettings(runs=served_runs[:1], token_file=token)
    with serving(settings) as address:
        assert run(address, "Lyon", "in_country", "_", "--token-file", token).exit_code == 0
        assert "401" in failure(capsys, monkeypatch, address, "Lyon", "in_country", "_")


def test_nothing_slow_is_imported(server):
    code = (
        "import sys; from fivestar.cli.main import app; app(sys.argv[1:], standalone_mode=False); "
        "assert not {'torch', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    words = ["ask", server, "Lyon", "in_country", "_"]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
