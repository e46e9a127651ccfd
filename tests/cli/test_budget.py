"""`fivestar train --budget`, from the command line."""

from __future__ import annotations

import json
import re
import time

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.budget import count_from
from fivestar.cli.main import app
from fivestar.graph.writing import write_graph
from fivestar.training.search import budget_phases

QUICK = ["--dim", 4, "--epochs", 18, "--batch-size", 40, "--evaluate-every", 2, "--threads", 1]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setattr(budget_phases, "_MAX_TRIALS", 3)
    monkeypatch.chdir(tmp_path)
    write_graph(people_graph(), tmp_path / "people")
    return "people"


def test_a_budget_shows_its_trials_and_what_it_chose(graph, tmp_path):
    options = ["--budget", "10m", "--reg-weight", 0.03, "--out", "run", "--tensorboard"]
    result = run("train", graph, *QUICK, *options)
    assert result.exit_code == 0, result.output
    assert (
        "settings are compared after 2 and 6 epochs, the best are trained for 18" in result.stderr
    )
    trials = re.findall(r"^\d+:\d\d of 10:00  trial (\d) \(lr .*MRR", result.stderr, re.MULTILINE)
    assert trials == ["0", "1", "2"]
    assert "training with the defaults for 18 epochs" in result.stderr
    assert "epoch 18 of 18" in result.stderr
    assert re.search(
        r"\d:\d\d of 10:00 used, 3 settings tried; best: model fivestar", result.stdout
    )
    assert "validation MRR" in result.stdout
    assert "saved run" in result.stdout
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert fivestar.load("run").settings.training.reg_weight == 0.03
    again = run("train", "--resume", "run", "--budget", "5m")
    assert "omit all other options" in str(again.exception)


def test_settings_in_a_file_are_not_searched(graph, tmp_path):
    (tmp_path / "some.toml").write_text('[training]\nreg-weight = 0.02\n[model]\ninit = "small"\n')
    options = ["--budget", "10m", "--settings", "some.toml", "--budget-dims", "3,5"]
    result = run("train", graph, *QUICK[2:], *options, "--out", "run")
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "run" / "trials.jsonl").read_text().splitlines()
    assert {tuple(json.loads(line)["settings"]) for line in lines} == {("lr", "dim")}


def test_the_time_counts_from_the_call_of_the_command(graph):
    count_from(time.monotonic() - 300)
    try:
        result = run("train", graph, *QUICK, "--budget", "10m", "--out", "run")
    finally:
        count_from(None)
    assert result.exit_code == 0, result.output
    assert 300 < fivestar.load("run").metrics["budget"]["seconds_used"] < 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "soon"], "'soon' is not a duration"),
        (["--budget", "10m", "--max-minutes", 1], "omit max_minutes"),
        (["--budget", "10m", "--from", "run"], "omit --from"),
        (["--budget", "10m", "--budget-dims", "3,x"], "--budget-dims 3,x: give whole numbers"),
        (["--budget", "10m", "--budget-models", "cp,complx"], "did you mean 'complex'"),
        (["--budget-models", "cp"], "need a --budget"),
        (["--budget-dims", "3,4"], "need a --budget"),
    ],
)
def test_what_makes_no_sense_is_refused(graph, tmp_path, options, message):
    result = run("train", graph, *options, "--out", "run")
    assert message in str(result.exception)
    assert not (tmp_path / "run").exists()
