"""`fivestar train` on one file, without a validation split and without --out."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import fivestar
from fivestar.cli import training_display
from fivestar.cli.main import app
from fivestar.cli.run_folder import new_run_folder
from fivestar.cli.training_display import TrainingDisplay
from fivestar.errors import SettingsError

QUICK = ("--dim", 4, "--epochs", 4, "--evaluate-every", 2, "--threads", 1)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def my_csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts = [(f"a{i // 20}", "r", f"b{i % 20}") for i in range(400)]
    (tmp_path / "my.csv").write_text("".join(",".join(fact) + "\n" for fact in facts))
    return "my.csv"


def test_one_file_and_no_flags(my_csv):
    result = run("train", my_csv, *QUICK)
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "Holding out" in line]
    assert line == (
        "Holding out 80 of 400 facts for validation. They are not trained on; --refit trains on "
        "them afterwards, --valid 0 turns this off."
    )
    folder = Path("runs") / f"my-fivestar-{date.today().isoformat()}"  # noqa: DTZ011
    assert f"Writing the run to {folder}" in result.stderr
    assert f"saved {folder}" in result.stdout
    assert len(fivestar.load(folder).graph.valid) == 80
    again = run("train", my_csv, *QUICK)
    assert f"saved {folder}-2" in again.stdout
    assert fivestar.load(f"{folder}-2").graph == fivestar.load(folder).graph


@pytest.mark.parametrize("flag", ["--method", "--recipe"])
def test_the_method_of_the_paper_by_a_flag(my_csv, flag):
    words = ("train", my_csv, *QUICK, flag, "paper", "--denominator", "phase", "--out", "paper")
    result = run(*words)
    assert result.exit_code == 0, result.output
    settings = fivestar.load("paper").settings
    assert (settings.model.options["pairing"], settings.training.regularizer) == ("bilinear", "n3")
    refused = run("train", my_csv, "--model", "complex", "--method", "paper", "--out", "other")
    assert isinstance(refused.exception, SettingsError)
    assert not Path("other").exists()


@pytest.mark.parametrize(("valid", "count"), [("0.1", 40), ("30", 30)])
def test_the_share_or_number_of_facts_held_out(my_csv, valid, count):
    result = run("train", my_csv, *QUICK, "--valid", valid, "--out", "run")
    assert f"Holding out {count} of 400 facts" in result.stderr
    assert len(fivestar.load("run").graph.valid) == count


def test_training_without_validation_says_what_is_lost(my_csv):
    result = run("train", my_csv, *QUICK, "--valid", 0, "--out", "run")
    assert result.exit_code == 0, result.output
    assert "warning: training without validation: there is no early stopping" in result.stderr
    assert "Holding out" not in result.stderr
    assert "validation MRR" not in result.stdout


def test_valid_is_for_graphs_without_a_valid_split(my_csv):
    assert "validation facts of its own" in str(run("train", "--valid", 0.1).exception)
    resumed = run("train", "--resume", "run", "--valid", 0.1)
    assert "omit all other options" in str(resumed.exception)
    assert "a share between 0 and 1" in str(run("train", my_csv, "--valid", -1).exception)
    assert not Path("runs").exists()


def test_refit_and_what_is_said_of_it(my_csv):
    result = run("train", my_csv, *QUICK, "--refit", "--out", "run")
    assert result.exit_code == 0, result.output
    assert "Holding out 80 of 400 facts for validation; only the refit" in result.stderr
    best = fivestar.load("run").metrics["best_epoch"]
    assert f"refit: training again on train and valid for {best} epochs" in result.stderr
    assert f"refit: epoch {best}/{best}  loss" in result.stderr
    assert f"refit on 400 facts for {best} epochs (the validation metrics" in result.stdout
    with pytest.warns(fivestar.GraphWarning, match="was refit on its validation triples"):
        run("evaluate", "run", "--split", "valid")
    assert run("train", "--resume", "run").exit_code == 0


def test_a_sampled_validation_is_said_to_be_one(my_csv):
    result = run("train", my_csv, *QUICK, "--validation-queries", 10, "--out", "run")
    assert "5 of 80 validation facts ranked" in result.stdout
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["validation"] == {"triples": 80, "ranked": 5}


def test_the_bar_says_in_which_epoch_its_mrr_was_measured(monkeypatch):
    monkeypatch.setattr(training_display.err, "_force_terminal", True)
    bar = Progress(disable=True)
    shown = TrainingDisplay(bar, epochs=3)
    line = {"loss": 1.0, "triples_per_second": 9.0}
    shown.on_epoch({"epoch": 2, "valid_mrr": 0.5, **line})
    shown.on_epoch({"epoch": 3, **line})
    assert "valid MRR 0.500 (epoch 2)" in bar.tasks[0].description


def test_a_long_validation_says_once_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(training_display, "_LONG", 0.0)
    shown = TrainingDisplay(Progress(disable=True), epochs=3)
    for _ in range(2):
        for done in (10, 20, 30):
            shown.on_stage("validation", done, 30)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["validation: 10 of 30 queries ranked so far"] * 2


def test_a_long_epoch_says_how_far_it_is_without_a_terminal(monkeypatch, capsys):
    shown = TrainingDisplay(Progress(disable=True), epochs=40)
    shown.on_step(0.1)
    monkeypatch.setattr(training_display, "_QUIET", 0.0)
    shown.on_step(0.25)
    assert capsys.readouterr().err.splitlines() == ["0.25 of 40 epochs"]


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        ("umls", "umls"),
        ("../../etc/passwd", "etc-passwd"),
        ("a b:c*d?", "a-b-c-d"),
        ("Länder", "Länder"),
        (".hidden", "hidden"),
        ("--", "graph"),
        ("", "graph"),
        ("x" * 300, "x" * 80),
    ],
)
def test_odd_names_of_graphs_make_good_folders(tmp_path, graph, name):
    day = date(2026, 11, 17)
    for number in ("", "-2", "-3"):
        folder = new_run_folder(graph, "complex", day, tmp_path)
        assert folder == tmp_path / f"{name}-complex-2026-11-17{number}"
        folder.mkdir()
