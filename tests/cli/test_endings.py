"""How commands end early: a closed pipe, Ctrl-C, a folder of the wrong kind."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli import main as command_line
from fivestar.cli.main import app
from fivestar.errors import GraphWarning

FIVESTAR = [sys.executable, "-m", "fivestar"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("arguments", [["--help"], ["models", "--json"], ["models"]])
def test_a_reader_that_leaves_is_no_error(arguments):
    # `head` would read one line first; a reader that leaves at once breaks every write.
    with subprocess.Popen(
        [*FIVESTAR, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


def interrupted(*arguments):
    result = run(*arguments)
    assert result.exit_code == 130
    return " ".join(result.stderr.split())


def test_an_interrupted_command_says_so(monkeypatch):
    monkeypatch.setattr("fivestar.graph.statistics.profile_graph", interrupt)
    assert interrupted("graph", "info") == "error: interrupted"


def test_an_interrupted_training_says_how_to_resume(monkeypatch, tmp_path):
    (tmp_path / "graph.tsv").write_text(
        "".join(f"a\tr\tb{i % 9}\nb{i % 9}\tr\ta\n" for i in range(18))
    )
    folder = tmp_path / "my run"
    arguments = ["train", tmp_path / "graph.tsv", "--dim", 2, "--epochs", 2, "--out", folder]
    with monkeypatch.context() as patched:
        patched.setattr("fivestar.cli.training_display.TrainingDisplay.on_epoch", interrupt)
        text = interrupted(*arguments)
    assert text.endswith(f"error: interrupted; resume with: fivestar train --resume '{folder}'")
    resumed = run("train", "--resume", folder)
    assert resumed.exit_code == 0, resumed.output
    assert "2 epochs" in resumed.stdout


def test_an_interrupted_start_promises_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("fivestar.training.train.train", interrupt)
    text = interrupted("train", "--dim", 2, "--out", tmp_path / "run")
    assert text.endswith("error: interrupted")


@pytest.mark.parametrize(
    ("patched", "arguments", "advice"),
    [
        (
            "fivestar.search",
            ["search", "demo", "--storage", "s.journal"],
            "run the same command again to resume: the trials so far are in s.journal",
        ),
        (
            "fivestar.experiments.reproduction.reproduce",
            ["reproduce", "table-nell", "--ledger", "l.jsonl"],
            "run the same command again to resume: finished runs are in l.jsonl",
        ),
        (
            "fivestar.experiments.reproduction.train_all",
            ["reproduce", "figure-shapes", "--out", "x.png"],
            "run the same command again to resume: its runs are in runs",
        ),
        (
            "fivestar.experiments.path_loop.path_beside_loop",
            ["reproduce", "path-beside-loop", "--record", "r.jsonl"],
            "run the same command again to resume: what is done is in r.jsonl",
        ),
    ],
)
def test_long_commands_say_how_to_resume(monkeypatch, tmp_path, patched, arguments, advice):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patched, interrupt)
    assert interrupted(*arguments).endswith(f"interrupted; {advice}")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    graph = people_graph()
    fivestar.train(graph, dim=2, epochs=1, out=folder / "run")
    fivestar.write_graph(graph, folder / "written")
    fivestar.save_graph(graph, folder / "saved")
    (folder / "empty").mkdir()
    (folder / "file.tsv").write_text("a\tr\tb\n")
    return folder


def test_an_interrupted_completion_says_how_to_resume(places, monkeypatch, tmp_path):
    monkeypatch.setattr("fivestar.TrainedModel.complete", interrupt)
    arguments = ["complete", places / "run", "--top", 1, "--out", tmp_path / "new.tsv"]
    assert interrupted(*arguments).endswith("run the same command again to resume")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["evaluate", "written"], "is a graph, not a trained model: train one with"),
        (["ask", "saved", "a", "r", "_"], "is a graph, not a trained model: train one with"),
        (["evaluate", "empty"], "is not the folder of a trained model"),
        (["evaluate", "file.tsv"], "is a file; give the folder of a trained model"),
        (["evaluate", "nothing"], "no folder nothing; give the folder of a trained model"),
        (["train", "run"], "is the folder of a trained model, not a graph; its graph is run/graph"),
        (["graph", "info", "run"], "not a graph; its graph is run/graph"),
    ],
)
def test_a_folder_of_the_wrong_kind(places, monkeypatch, arguments, advice):
    monkeypatch.chdir(places)
    assert advice in str(run(*arguments).exception)


def test_the_advice_for_a_graph_is_a_command(places, monkeypatch, capsys):
    monkeypatch.chdir(places)
    monkeypatch.setattr(sys, "argv", ["fivestar", "evaluate", "written"])
    with pytest.raises(SystemExit):
        command_line.main()
    assert capsys.readouterr().err.endswith("train one with fivestar train written\n")
    assert run("graph", "info", "run/graph").exit_code == 0


def test_a_split_without_validation_is_a_warning():
    graph = fivestar.read_graph([(f"a{i % 3}", "r", f"b{i % 4}") for i in range(12)])
    with pytest.warns(GraphWarning, match="no validation triples: 0.01 of 12 is less than one"):
        assert not len(fivestar.split_graph(graph, valid=0.01, test=0.2).valid)


def test_logs_show_an_mrr_only_where_it_was_measured(tmp_path):
    fivestar.write_graph(people_graph(), tmp_path / "graph")
    options = ["--dim", 4, "--epochs", 4, "--evaluate-every", 2, "--out", tmp_path / "run"]
    lines = run("train", tmp_path / "graph", *options).stderr.splitlines()
    shown = {line.split()[1]: "valid MRR" in line for line in lines if line.startswith("epoch")}
    assert shown == {"1/4": False, "2/4": True, "3/4": False, "4/4": True}
