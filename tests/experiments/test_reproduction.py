"""Filling a table: an interrupted run resumes and gives the same ledger lines."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

from fivestar.cli.main import app
from fivestar.errors import DamagedLedger, Paused, SettingsError
from fivestar.experiments import reproduction
from fivestar.experiments.ledger import read_ledger
from fivestar.experiments.reproduction import Budget, Job, make_jobs, reproduce
from fivestar.experiments.searches import read_searches
from fivestar.experiments.tables import published_table
from fivestar.files import try_file_lock
from fivestar.graph.writing import write_graph
from fivestar.runs.settings import make_settings
from fivestar.training.search.time_budget import Quiet

TRAINING = {"epochs": 4, "evaluate_every": 2, "batch_size": 20, "threads": 1}
SETTINGS = """[model]
name = "fivestar"
[training]
epochs = 50
evaluate-every = 5
batch-size = 60
patience = 0
"""


class Watcher:
    """Counts calls, and stops a training after some steps."""

    def __init__(self, stop_after=None):
        self.begun, self.ended_with, self.why = [], [], []
        self.steps = 0
        self.stop_after = stop_after

    def started(self, job, number, of):
        self.begun.append(job.title)

        def step(_):
            self.steps += 1
            if self.steps == self.stop_after:
                raise Paused("enough")

        return (lambda _: None), step

    def searching(self, job, number, of):
        self.begun.append(job.title)
        return Quiet()

    def recorded(self, job, entry):
        self.ended_with.append(entry)

    def failed(self, job, why):
        self.why.append(why)


def job(seed=0, **training):
    training = {**TRAINING, "seed": seed, **training}
    values = {"defaults": 1, "model": {"dim": 4}, "training": training}
    return Job("graph", make_settings(values))


def reproduced(jobs, folder, watcher=None, minutes=0.0):
    def read(_):
        return people_graph()

    arguments = (folder / "ledger.jsonl", folder / "runs", "a test", read, watcher or Watcher())
    return reproduce(jobs, *arguments, minutes)


def metrics(entry):
    values = entry.model_dump(exclude={"date", "commit", "minutes", "curve"})
    return values | {"curve": [(epoch, mrr) for epoch, _, mrr in entry.curve]}


def test_a_paused_run_resumes_to_the_same_result(tmp_path):
    whole = reproduced([job()], tmp_path / "whole").done
    watcher = Watcher(stop_after=7)
    stopped = reproduced([job()], tmp_path / "parts", watcher)
    assert [len(stopped.done), len(stopped.remaining)] == [0, 1]
    assert not (tmp_path / "parts" / "ledger.jsonl").exists()
    watcher = Watcher()
    parts = reproduced([job()], tmp_path / "parts", watcher).done
    steps_of_an_epoch = watcher.steps + 7
    assert steps_of_an_epoch % TRAINING["epochs"] == 0, "no step was done twice"
    assert [metrics(e) for e in parts] == [metrics(e) for e in whole]


def test_what_is_in_the_ledger_is_not_trained_again(tmp_path):
    jobs = [job(seed=0), job(seed=1)]
    first = Watcher()
    done = reproduced(jobs, tmp_path, first).done
    assert first.begun == ["graph fivestar d=4 seed 0", "graph fivestar d=4 seed 1"]
    assert first.ended_with == done
    second = Watcher()
    assert reproduced(jobs, tmp_path, second).done == done
    assert second.begun == []
    assert read_ledger(tmp_path / "ledger.jsonl") == done


def test_a_trained_run_that_is_not_in_the_ledger_is_only_evaluated(tmp_path):
    (entry,) = reproduced([job()], tmp_path).done
    (tmp_path / "ledger.jsonl").unlink()
    watcher = Watcher()
    (again,) = reproduced([job()], tmp_path, watcher).done
    assert watcher.steps == 0
    assert metrics(again) == metrics(entry)


def budget_jobs(models=("fivestar", "complex"), seeds=range(2), seconds=4.0):
    training = {"threads": 1}
    return make_jobs(["graph"], list(models), [4], seeds, training, budget=Budget(seconds))


def test_a_budget_searches_each_cell_once_and_further_seeds_use_what_it_found(tmp_path):
    watcher = Watcher()
    done = reproduced(budget_jobs(), tmp_path, watcher).done
    assert watcher.begun == [
        "graph fivestar d=4 seed 0 within 0:04",
        "graph complex d=4 seed 0 within 0:04",
        "graph fivestar d=4 seed 1",
        "graph complex d=4 seed 1",
    ]
    searches = read_searches(tmp_path / "ledger.jsonl")
    assert [(s.model, s.seconds, s.seed) for s in searches] == [
        ("fivestar", 4.0, 0),
        ("complex", 4.0, 0),
    ]
    for number, search in enumerate(searches):
        own = [entry for entry in done if entry.model == search.model]
        assert [(e.settings, e.seed) for e in own] == [(search.settings, 0), (search.settings, 1)]
        assert own == [done[number], done[number + 2]]
        assert search.settings_tried <= len(search.trials)
        assert search.valid_mrr == own[0].valid.mrr
        assert (
            search.valid_mrr
            >= max(line["valid_mrr"] for line in search.trials if line["rung"] == "final") - 1e-6
        )
    again = Watcher()
    assert reproduced(budget_jobs(), tmp_path, again).done == done
    assert again.begun == []


def test_a_search_counts_cpu_time_and_keeps_the_precision(tmp_path, monkeypatch):
    monkeypatch.setattr("fivestar.training.resources._has_bf16", lambda _: True)
    training = {"threads": 1, "precision": "bf16"}
    jobs = make_jobs(["graph"], ["complex"], [4], [0], training, budget=Budget(3.0, "cpu"))
    (entry,) = reproduced(jobs, tmp_path).done
    (search,) = read_searches(tmp_path / "ledger.jsonl")
    assert (search.clock, search.settings) == ("cpu", entry.settings)
    assert search.seconds_used <= 3.5
    assert entry.settings_values["training"]["precision"] == "bf16"


def test_a_settings_file_holds_its_settings_fixed_in_a_search(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('[model]\nname = "rotate"\n[training]\nlr = 0.125\n')
    bundled, own = (
        make_jobs(["graph"], ["rotate"], [4], [0], {"threads": 1}, files, Budget(3.0))[0]
        for files in ({}, {"rotate": file})
    )
    assert bundled.fixed == {"model": {"norm": "l2"}, "training": {"regularizer": "none"}}
    assert own.fixed == {"training": {"lr": 0.125}}
    assert bundled.folder(tmp_path) != own.folder(tmp_path)
    done = [reproduced([job], tmp_path).done[0].settings_values for job in (bundled, own)]
    searches = read_searches(tmp_path / "ledger.jsonl")
    assert [search.fixed for search in searches] == [bundled.fixed, own.fixed]
    assert done[0]["model"]["norm"] == "l2"
    assert done[1]["model"]["norm"] == "modulus"
    assert done[1]["training"]["lr"] == 0.125
    again = Watcher()
    reproduced([bundled, own], tmp_path, again)
    assert again.begun == []


def test_other_graphs_and_dimensions_use_the_search_on_one_graph(tmp_path):
    graphs, training = ["one", "two"], {"threads": 1}
    budget = Budget(3.0, search_on="two")
    jobs = make_jobs(graphs, ["complex"], [4, 6], [0], training, budget=budget)
    assert [job.has_own_search for job in jobs] == [True, False, False, False]

    def read(name):
        return dataclasses.replace(people_graph(), name=name)

    place = (tmp_path / "ledger.jsonl", tmp_path / "runs", "a test", read, Watcher())
    waiting = reproduce(jobs[1:], *place)
    assert (waiting.done, len(waiting.remaining)) == ([], 3), "they wait for the search"
    done = reproduce(jobs, *place).done
    assert [(e.data, e.dim) for e in done] == [("two", 4), ("one", 4), ("one", 6), ("two", 6)]
    (search,) = read_searches(tmp_path / "ledger.jsonl")
    assert search.cell == ("two", "complex", 4)

    def found(entry):
        values = dict(entry.settings_values["training"])
        values.pop("max_minutes", None)
        return values

    assert all(found(entry) == found(done[0]) for entry in done)


def test_a_search_that_was_not_recorded_is_not_repeated(tmp_path):
    (entry,) = reproduced(budget_jobs(["complex"], [0]), tmp_path).done
    (tmp_path / "ledger.jsonl").unlink()
    (again,) = reproduced(budget_jobs(["complex"], [0]), tmp_path).done
    assert metrics(again) == metrics(entry)
    assert len(read_searches(tmp_path / "ledger.jsonl")) == 1


def test_a_search_starts_only_if_there_is_time_for_it(tmp_path):
    watcher = Watcher()
    outcome = reproduced(budget_jobs(["complex"], [0]), tmp_path, watcher, minutes=3 / 60)
    assert (len(outcome.remaining), watcher.begun) == (1, [])


def test_a_damaged_file_of_searches_is_refused_with_its_line(tmp_path):
    (tmp_path / "searches.jsonl").write_text('{"data": "graph"}\n')
    with pytest.raises(DamagedLedger, match=r"searches.jsonl, line 1: Field required"):
        read_searches(tmp_path / "ledger.jsonl")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--search-on", "nell-995-h25"], "--search-on needs a --budget"),
        (["--search-on", "nell-995-h25", "--budget", "9s", "--graphs", "nell-995-h50"], "among"),
        (["--budget", "9s", "--run-minutes", "3"], "omit --run-minutes"),
        (["--budget", "soon"], "soon"),
        (["--clock", "cpu", "--threads", "1"], "add --budget"),
        (["--clock", "cpu", "--budget", "9s"], "--threads 1"),
    ],
)
def test_options_of_a_search_that_contradict_each_other_are_refused(options, problem, tmp_path):
    words = ["reproduce", "table-nell", *options, "--runs", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, SettingsError)
    assert problem in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_no_run_starts_after_the_time_limit(tmp_path):
    watcher = Watcher()
    outcome = reproduced([job(), job(seed=1)], tmp_path, watcher, minutes=1e-12)
    assert len(outcome.remaining) == 2
    assert watcher.begun == []


def test_the_time_limit_pauses_a_training(tmp_path, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("fivestar.experiments.reproduction.time.monotonic", lambda: next(clock))
    watcher = Watcher()
    outcome = reproduced([job(), job(seed=1)], tmp_path, watcher, minutes=0.1)
    assert len(watcher.begun) == 1
    assert 1 <= watcher.steps <= 6
    assert len(outcome.remaining) == 2


def test_a_run_that_another_process_trains_is_skipped(tmp_path):
    place = job().folder(tmp_path / "runs")
    place.parent.mkdir(parents=True)
    with try_file_lock(place.with_name(f".{place.name}.lock")) as mine:
        assert mine
        outcome = reproduced([job(), job(seed=1)], tmp_path)
    assert [len(outcome.remaining), len(outcome.done)] == [1, 1]


def test_a_diverged_run_does_not_stop_the_others(tmp_path):
    watcher = Watcher()
    bad = job(optimizer="sgd", lr=1e30)
    outcome = reproduced([bad, job()], tmp_path, watcher)
    assert outcome.failed == [bad]
    assert "the loss is" in watcher.why[0]
    assert len(outcome.done) == 1


def test_a_recipe_file_is_read_once(monkeypatch):
    reproduction._package_values.cache_clear()
    read = []
    values = reproduction.read_values
    monkeypatch.setattr(reproduction, "read_values", lambda f: read.append(f.name) or values(f))
    make_jobs(["wn18rr"], ["fivestar"], [4, 8], range(3))
    assert sorted(read) == ["fivestar.toml", "protocol.toml"]


def test_every_cell_is_filled_before_a_second_seed():
    graphs = ("nell-995-h100", "nell-995-h25")
    jobs = make_jobs(graphs, ["fivestar", "complex"], [4, 8], range(2), {"max_minutes": 3.0})
    assert len(jobs) == 16
    assert [j.settings.training.seed for j in jobs] == [0] * 8 + [1] * 8
    assert {j.settings.training.max_minutes for j in jobs} == {3.0}
    assert len({j.title for j in jobs}) == 16


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_resume_after_kill_9(tmp_path):
    graphs = published_table("table-wn18-fb15k").graphs
    for graph in graphs:
        write_graph(people_graph(), tmp_path / "data" / graph)
    (tmp_path / "s.toml").write_text(SETTINGS)
    code = "from fivestar.cli.main import main; main()"
    command = [sys.executable, "-c", code, "reproduce", "table-wn18-fb15k", "--models", "fivestar"]
    command += ["--dim", "4", "--settings", "s.toml", "--ledger", "l.jsonl", "--threads", "1"]
    environment = {**os.environ, "FIVESTAR_DATA": str(tmp_path / "data")}
    options = {"cwd": tmp_path, "env": environment, "text": True}
    killed = subprocess.Popen(command, **options, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for line in killed.stderr:
        if "epoch 10 of" in line:
            break
    killed.kill()
    killed.communicate()
    assert read_ledger(tmp_path / "l.jsonl") == []
    done = subprocess.run(command, **options, capture_output=True, check=True)
    assert "epoch 5 of" not in done.stderr.split("run 2 of 2")[0], "it resumes from the checkpoint"
    entries = read_ledger(tmp_path / "l.jsonl")
    assert [e.data for e in entries] == list(graphs)
    # Both graphs are the same one here, and only the first run was killed.
    assert len({e.test.mrr for e in entries}) == 1
    assert len({e.epochs for e in entries}) == 1
