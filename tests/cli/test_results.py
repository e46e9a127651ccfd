"""The commands around the ledger, once from the beginning to the end."""

from __future__ import annotations

import json

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

from fivestar.cli import reproduce
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.experiments.ledger import default_ledger, read_ledger
from fivestar.experiments.tables import table_names
from fivestar.graph.writing import write_graph

SETTINGS = """[model]
name = "{model}"
[training]
epochs = 3
evaluate-every = 1
batch-size = 60
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of work, with the graphs of the smallest table."""
    for graph in ("wn18", "fb15k"):
        write_graph(people_graph(), tmp_path / "datasets" / graph)
    for model in ("fivestar", "complex"):
        (tmp_path / f"{model}.toml").write_text(SETTINGS.format(model=model))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path


def test_reproduce_lists_everything_that_can_be_reproduced():
    result = run("reproduce")
    assert result.exit_code == 0
    for command in reproduce.app.registered_commands:
        assert command.name in result.stdout
    assert {c.name for c in reproduce.app.registered_commands} >= set(table_names())
    assert "estimated" in result.stdout


def test_a_table_from_nothing_to_a_page(place):
    command = ["reproduce", "table-wn18-fb15k", "--dim", 4, "--models", "fivestar,complex"]
    command += ["--settings", "fivestar.toml", "--settings", "complex.toml", "--seeds", 2]
    result = run(*command, "--threads", 1, "--out", "tables", "--runs", "my_runs")
    assert result.exit_code == 0, result.output
    assert "run 8 of 8: fb15k complex d=4 seed 1" in result.stderr
    assert (place / "tables" / "table-wn18-fb15k.tex").is_file()
    assert result.stdout == (place / "tables" / "table-wn18-fb15k.md").read_text()
    assert "| 5★E | 4 | ours | **." in result.stdout
    assert "| TransE | 4 | ours | no run yet |" in result.stdout
    ledger = default_ledger()
    assert ledger.is_relative_to(place / "home")
    entries = read_ledger(ledger)
    assert len(entries) == 8
    assert {e.experiment for e in entries} == {"table-wn18-fb15k"}
    again = run(*command, "--threads", 1, "--runs", "my_runs")
    assert "run 1" not in again.stderr
    assert again.stdout == result.stdout
    assert read_ledger(ledger) == entries

    compared = json.loads(run("reproduce", "compare", "fivestar", "complex", "--json").stdout)
    assert [each["data"] for each in compared] == ["fb15k", "wn18"]
    assert compared[0]["models"]["fivestar"]["seeds"] == [0, 1]
    only = run("reproduce", "compare", "fivestar", "complex", "--graph", "wn18").stdout
    assert "| wn18 | 4 |" in only
    assert "fb15k" not in only
    with pytest.raises(SettingsError, match="both fivestar and rotate"):
        raise run("reproduce", "compare", "fivestar", "rotate").exception
    page = run("reproduce", "results").stdout
    assert "| fb15k | 4 | fivestar ." in page
    run("reproduce", "results", "--ledger", ledger, "--out", "page.md")
    assert (place / "page.md").read_text() == page


def test_options_of_a_table(place):
    table = ["reproduce", "table-wn18-fb15k", "--models", "fivestar", "--ledger", "l.jsonl"]
    table += ["--settings", "fivestar.toml", "--dim", 4]
    stopped = run(*table, "--minutes", 1e-9)
    assert "2 of 2 runs left; run the same command again" in stopped.stderr
    assert stopped.exit_code == 0
    run(*table, "--run-minutes", 1e-5, "--graphs", "fb15k")
    assert [(e.data, e.epochs) for e in read_ledger(place / "l.jsonl")] == [("fb15k", 1)]
    for arguments, message in [
        (["--models", "fivestar,mure"], "choose from fivestar, transe"),
        (["--graphs", "wn18,umls"], "--graphs wn18,umls: choose from wn18, fb15k"),
        (["--models", "complex", "--settings", "fivestar.toml"], "not among the models to train"),
    ]:
        with pytest.raises(SettingsError, match=message):
            raise run("reproduce", "table-wn18-fb15k", *arguments).exception


def test_a_run_is_recorded_once(place):
    run("train", place / "datasets" / "wn18", "--settings", "fivestar.toml", "--out", "my_run")
    first = run("reproduce", "record", "my_run", "--ledger", "l.jsonl", "--note", "mine")
    assert first.exit_code == 0, first.output
    assert "test MRR" in first.stdout
    second = run("reproduce", "record", "my_run", "--ledger", "l.jsonl", "--experiment", "x")
    assert "in the ledger already" in second.stderr
    assert second.stdout == first.stdout
    (entry,) = read_ledger(place / "l.jsonl")
    assert (entry.note, entry.experiment) == ("mine", "by hand")


def test_the_ledger_of_the_checkout_around_here_is_the_default(place, monkeypatch):
    (place / "results").mkdir()
    (place / "results" / "ledger.jsonl").touch()
    (place / "inner").mkdir()
    monkeypatch.chdir(place / "inner")
    assert default_ledger() == place / "results" / "ledger.jsonl"


def test_search_from_the_command_line(place):
    (place / "space.toml").write_text("[training]\nlr = [0.03, 0.3]\n[model]\ndim = [4, 8]\n")
    command = ["search", "wn18", "--settings", "fivestar.toml", "--space", "space.toml"]
    command += ["--sampler", "grid", "--out", "best.toml", "--trials", 4, "--pruner", "none"]
    result = run(*command, "--plots", "plots", "--evaluate-every", 3, "--seed", 5)
    assert result.exit_code == 0, result.output
    assert (place / "searches" / "wn18-fivestar.journal").is_file()
    assert (place / "plots" / "history.png").is_file()
    assert "best: trial" in result.stdout
    assert "trial 3: lr 0" in result.stderr
    trained = run("train", "wn18", "--settings", "best.toml", "--out", "best_run")
    assert trained.exit_code == 0
    fixed = [*command, "--dim", 5, "--epochs", 2, "--storage", "fixed", "--json"]
    found = json.loads(run(*fixed, "--minutes", 10, "--trial-minutes", 1).stdout)
    assert [trial["epochs"] for trial in found["trials"]] == [2, 2]
    assert list(found["trials"][0]["point"]) == ["training.lr"]
    other = run("search", "wn18", "--model", "complex", "--trials", 1, "--epochs", 2)
    assert "best: trial 0" in other.stdout
    assert (place / "searches" / "wn18-complex.journal").is_file()
