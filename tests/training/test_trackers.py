"""Trackers: what they receive, how they resume, and that none of them stops a training."""

from __future__ import annotations

import csv
import json
import sqlite3
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.graphs import people_graph
from tests.training.test_loop import SMALL, small
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import (
    MissingExtra,
    OutputError,
    Paused,
    RegistrationError,
    SettingsError,
    TrackingFailed,
    TrackingWarning,
)
from fivestar.plugins import TRACKERS
from fivestar.training.trackers import tracking
from fivestar.training.trackers.tracking import STATE, Tracking, make_tracker, read_states
from fivestar.training.train import track_trained


@pytest.fixture(scope="module")
def graph():
    return people_graph()


class Recorder(fivestar.Tracker):
    """Records its calls; fails in one of them where it should."""

    def __init__(self, target=""):
        super().__init__(target)
        self.calls = []

    def _record(self, name, *values):
        self.calls.append((name, *values))
        if self.target == name:
            raise OSError("the disk is full")

    def start(self, run):
        self._record("start", run)
        return {"id": "7"}

    def log(self, line):
        self._record("log", line)

    def finish(self, metrics, outcome):
        self._record("finish", metrics, outcome)

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


def stop_after(epoch, error=Paused):
    def stop(line):
        if line["epoch"] == epoch:
            raise error("stopped by the test")

    return stop


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_tracker_gets_settings_epochs_and_metrics(graph, tmp_path):
    tracker = Recorder()
    model = fivestar.train(graph, SMALL, tmp_path / "run", trackers=[tracker])
    ((run,),) = tracker.named("start")
    assert (run.name, run.folder, run.history) == ("run", tmp_path / "run", [])
    assert dict(run.state) == {}
    assert run.settings["graph"] == graph.name
    assert (run.settings["model.dim"], run.settings["training.epochs"]) == (6, 4)
    assert [line for (line,) in tracker.named("log")] == model.history
    ((metrics, outcome),) = tracker.named("finish")
    assert outcome == "finished"
    assert metrics["valid/mrr"] == model.metrics["valid"]["mrr"]


def test_a_refit_is_tracked_as_such(graph):
    tracker = Recorder()
    fivestar.train(graph, small(refit=True), trackers=[tracker])
    refits = [line.get("refit", False) for (line,) in tracker.named("log")]
    assert refits[:4] == [False] * 4
    assert refits[4:]
    assert all(refits[4:])
    assert len(tracker.named("finish")) == 1


def test_trackers_change_nothing_that_is_learned(graph, tmp_path):
    plain = fivestar.train(graph, SMALL)
    tracked = fivestar.train(graph, SMALL, trackers=[f"csv:{tmp_path / 'log.csv'}"])
    assert plain.model.entities.equal(tracked.model.entities)


@pytest.mark.parametrize("where", ["log", "finish"])
def test_a_tracker_that_fails_causes_one_warning(graph, tmp_path, where):
    broken, other = Recorder(where), f"csv:{tmp_path / 'log.csv'}"
    with pytest.warns(TrackingWarning, match=r"Recorder has failed \(OSError: the disk") as caught:
        model = fivestar.train(graph, SMALL, tmp_path / "run", trackers=[broken, other])
    assert len(caught) == 1
    assert len(model.history) == 4
    fivestar.load(tmp_path / "run")
    assert len(rows(tmp_path / "log.csv")) == 4  # the other one continues
    assert len(broken.named(where)) == 1  # it is not called again


def test_a_tracker_that_hangs_does_not_hold_up_the_training(graph, monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE", 0.05)
    release = threading.Event()

    class Hangs(Recorder):
        def log(self, line):
            release.wait(30)

    with pytest.warns(TrackingWarning, match="no answer within"):
        model = fivestar.train(graph, SMALL, trackers=[Hangs()])
    release.set()
    assert len(model.history) == 4


def test_a_tracker_that_cannot_start_refuses_the_training(graph, tmp_path):
    first = Recorder()
    trackers = [first, type("Other", (Recorder,), {})("start")]
    with pytest.raises(TrackingFailed, match=r"Other cannot start: OSError: the disk is full"):
        fivestar.train(graph, SMALL, tmp_path / "run", trackers=trackers)
    assert not (tmp_path / "run").exists()
    assert first.named("finish") == [({}, "failed")]


def test_a_training_that_is_complete_is_not_lost_to_a_tracker(graph):
    run = fivestar.train(graph, SMALL)
    with pytest.warns(TrackingWarning, match="complete, but not tracked: .* the disk is full"):
        track_trained(run, None, Tracking([Recorder("start")]))
    tracker = Recorder()
    track_trained(run, None, Tracking([tracker]))
    assert [line for (line,) in tracker.named("log")] == run.history


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["cvs:log.csv"], "no tracker 'cvs'; known: csv, mlflow"),
        ([7], "7 is no tracker"),
        ("csv:log.csv", "trackers is a list"),
        (["csv:a", "csv:a"], "csv:a is given twice"),
        (["csv"], "the tracker csv needs a file"),
        (["mlflow:https://me:secret@host"], "has a user name or password"),
    ],
)
def test_bad_trackers_are_refused(graph, given, problem):
    with pytest.raises(SettingsError, match=problem) as refused:
        fivestar.train(graph, SMALL, trackers=given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["mlflow", "wandb", "tensorboard"])
def test_a_missing_package_is_named_before_training(graph, monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtra, match=rf"fivestar-kge\[{name}\]"):
        fivestar.train(graph, SMALL, trackers=[name])


def test_an_interrupted_run_continues_its_trackers(graph, tmp_path):
    first, folder = Recorder(), tmp_path / "run"
    with pytest.raises(Paused):
        fivestar.train(graph, SMALL, folder, trackers=[first], on_epoch=stop_after(2))
    assert first.named("finish") == [({}, "interrupted")]
    second = Recorder()
    model = fivestar.resume(folder, trackers=[second])
    ((run,),) = second.named("start")
    assert dict(run.state) == {"id": "7"}
    assert run.history[:2] == model.history[:2]
    lines = [line["epoch"] for (line,) in second.named("log")]
    assert lines == [line["epoch"] for line in model.history[len(lines) and lines[0] - 1 :]]
    assert lines[-1] == 4
    fivestar.load(folder)  # the state is no part of the run's hashes
    assert STATE not in json.loads((folder / "manifest.json").read_text())["files"]


def test_a_damaged_state_says_what_to_do(tmp_path):
    (tmp_path / STATE).write_text("[1]")
    with pytest.raises(TrackingFailed, match="delete it, and trackers start again"):
        read_states(tmp_path)


def test_a_csv_file_has_all_epochs_also_after_a_resume(graph, tmp_path):
    folder = tmp_path / "run"
    options = {"trackers": ["csv"]}
    settings = small(checkpoint_every=3, epochs=5)
    with pytest.raises(KeyboardInterrupt):  # two epochs after the last checkpoint
        fivestar.train(
            graph, settings, folder, on_epoch=stop_after(2, KeyboardInterrupt), **options
        )
    assert [row["epoch"] for row in rows(folder / "history.csv")] == ["1", "2"]
    model = fivestar.resume(folder, **options)
    found = rows(folder / "history.csv")
    assert [row["epoch"] for row in found] == ["1", "2", "3", "4", "5"]
    assert [float(row["loss"]) for row in found] == [line["loss"] for line in model.history]
    assert (found[0]["valid_mrr"], found[1]["valid_mrr"] == "") == ("", False)


def test_a_csv_file_replaces_no_other_file(graph, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("my own")
    with pytest.raises(OutputError, match="exists; delete it"):
        fivestar.train(graph, SMALL, trackers=[f"csv:{path}"])
    assert path.read_text() == "my own"
    with pytest.raises(OutputError, match="is not a folder; create it first"):
        fivestar.train(graph, SMALL, trackers=[f"csv:{tmp_path / 'no' / 'log.csv'}"])


def test_tensorboard_gets_the_history_once_also_after_a_resume(graph, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = tmp_path / "run"
    with pytest.raises(Paused):
        fivestar.train(graph, SMALL, folder, trackers=["tensorboard"], on_epoch=stop_after(3))
    model = fivestar.resume(folder, trackers=["tensorboard"])
    found = events.EventAccumulator(str(folder / "tensorboard")).Reload()
    for name in ("loss", "valid_mrr"):
        reported = [(event.step, event.value) for event in found.Scalars(name)]
        expected = [(line["epoch"], line[name]) for line in model.history if name in line]
        assert reported == [(step, pytest.approx(value)) for step, value in expected]
    fivestar.load(folder)  # the events are no part of the run's hashes


@pytest.mark.filterwarnings("ignore")  # of MLflow and its database
def test_mlflow_gets_one_run_also_after_a_resume(graph, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    pytest.importorskip("alembic", reason="the local store of MLflow needs alembic")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    folder, trackers = tmp_path / "run", [f"mlflow:{uri}"]
    settings = small(checkpoint_every=3, epochs=5)
    stop = stop_after(2, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):  # two epochs after the last checkpoint
        fivestar.train(graph, settings, folder, trackers=trackers, on_epoch=stop)
    client = mlflow.MlflowClient(uri)
    (experiment,) = [e for e in client.search_experiments() if e.name == "fivestar"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "KILLED")
    model = fivestar.resume(folder, trackers=trackers)
    (run,) = client.search_runs([experiment.experiment_id])  # still one
    assert run.info.status == "FINISHED"
    assert run.data.params["training.epochs"] == "5"
    assert run.data.params["graph"] == graph.name
    losses = sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss"))
    assert losses == [(line["epoch"], pytest.approx(line["loss"])) for line in model.history]
    assert run.data.metrics["valid_hits_at_10"] == model.history[-1]["valid_hits@10"]
    assert run.data.metrics["final/valid/mrr"] == model.metrics["valid"]["mrr"]
    assert "mlflow" not in {path.name for path in folder.iterdir()}
    with sqlite3.connect(tmp_path / "mlflow.db") as database:  # nothing was logged twice
        assert database.execute("select count(*) from metrics where key='loss'").fetchone() == (5,)


@pytest.mark.filterwarnings("ignore")  # of W&B
def test_wandb_gets_the_history_offline(graph, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = tmp_path / "run"
    with pytest.raises(Paused):
        fivestar.train(graph, SMALL, folder, trackers=["wandb:kge"], on_epoch=stop_after(2))
    model = fivestar.resume(folder, trackers=["wandb:kge"])
    (state,) = read_states(folder).values()
    first, second = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    # Both are of one run: W&B joins them when they are uploaded.
    assert first.name == second.name == f"run-{state['id']}.wandb"
    for path, line in ((first, model.history[1]), (second, model.history[3])):
        assert repr(line["valid_mrr"]).encode() in path.read_bytes()
    assert repr(model.history[1]["loss"]).encode() not in second.read_bytes()


def test_own_trackers_by_call_and_by_entry_point(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(TRACKERS, "_registered", {})
    assert fivestar.register_tracker("recorder", Recorder) is Recorder
    assert fivestar.register_tracker("again")(Recorder) is Recorder
    assert make_tracker("recorder:finish").target == "finish"
    with pytest.raises(RegistrationError, match=r"not a subclass of fivestar.Tracker"):
        fivestar.register_tracker("function", print)
    point = EntryPoint("of-a-package", f"{__name__}:Recorder", TRACKERS.group)
    monkeypatch.setattr(TRACKERS, "_loaded", {})
    monkeypatch.setitem(TRACKERS.__dict__, "_entry_points", {point.name: [point]})
    assert type(make_tracker("of-a-package")).__name__ == "Recorder"


def test_the_command_line_tracks_and_resumes(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fivestar.write_graph(graph, "people.tsv", splits="merge")
    arguments = ["--dim", 4, "--epochs", 2, "--valid", 0, "--out", "run"]
    command = ["train", "people.tsv", *arguments, "--track", "csv", "--track", "csv:log.csv"]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    assert rows(tmp_path / "run" / "history.csv") == rows(tmp_path / "log.csv")
    assert len(rows(tmp_path / "log.csv")) == 2
    (Path("run") / "manifest.json").unlink()
    result = CliRunner().invoke(app, ["train", "--resume", "run", "--track", "csv:log.csv"])
    assert result.exit_code == 0, result.output
    assert len(rows(tmp_path / "log.csv")) == 2


def test_without_trackers_nothing_is_written(graph, tmp_path):
    Tracking().start(fivestar.TrackedRun("run", tmp_path, {}))
    assert not list(tmp_path.iterdir())
