"""A search: resumed, shared, pruned, and never near the test triples."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.graphs import people_graph

import fivestar
from fivestar.analysis.plots.search import history, importance
from fivestar.errors import MissingExtra, OutputError, Paused, SettingsError
from fivestar.experiments.reproduction import recipe
from fivestar.graph.writing import write_graph
from fivestar.runs.identity import settings_hash
from fivestar.runs.settings import make_settings, read_settings
from fivestar.training import validation
from fivestar.training.search import study
from fivestar.training.search.journal import Journal
from fivestar.training.search.space import (
    Range,
    Space,
    read_space,
    space_around,
    starting_points,
    with_point,
)
from fivestar.training.search.study import Search
from fivestar.training.search.trials import Plan
from fivestar.training.train import train

QUICK = {"epochs": 3, "evaluate_every": 1, "batch_size": 20, "threads": 1}
SPACE = Space("made up", {"training.lr": (0.03, 0.1, 0.3), "training.reg_weight": (0.01, 0.1)})


class Watcher:
    def __init__(self, stop_after=None):
        self.begun, self.ended_with = [], []
        self.stop_after = stop_after

    def begins(self, number, point, epochs):
        self.begun.append(point)
        steps = 0

        def step(_):
            nonlocal steps
            steps += 1
            if steps == self.stop_after:
                raise Paused("enough")

        return (lambda _: None), step

    def ended(self, tried):
        self.ended_with.append(tried)


def plan(trials=3, space=SPACE, training=(), **more):
    base = make_settings({"model": {"dim": 4}, "training": {**QUICK, **dict(training)}})
    return Plan(people_graph(), base, space, trials, **more)


def test_a_search_is_resumed_and_its_best_settings_are_a_file(tmp_path):
    study, out = tmp_path / "new" / "study", tmp_path / "also new" / "best.toml"
    first = Search(plan(trials=2), study)
    first.run(Watcher(), out)
    assert [t.state for t in first.tried()] == ["complete", "complete"]
    second = Search(plan(trials=4), study)
    watcher = Watcher()
    second.run(watcher, out)
    assert len(watcher.begun) == 2
    assert len(second.tried()) == 4
    settings, best = second.best()
    assert best.mrr == max(t.mrr for t in second.tried() if t.state == "complete")
    assert read_settings(out) == settings
    assert settings.training.lr == best.point["training.lr"]
    assert settings.training.max_minutes == 0
    run = train(people_graph(), read_settings(out))
    assert run.metrics["valid"]["mrr"] == best.mrr
    Search(plan(trials=4), study).run(watcher, out)
    assert len(watcher.begun) == 2, "there are enough"
    assert not list(study.parent.glob(".*.*.*.lock")), "no lock of a process is left"


def test_the_same_seed_tries_the_same_settings(tmp_path):
    found = []
    for name in ("one", "other"):
        search = Search(plan(trials=3, space=read_space("small", "x")), tmp_path / name)
        search.run(Watcher())
        found.append([(t.point, t.mrr) for t in search.tried()])
    assert found[0] == found[1]


def test_a_grid_is_visited_point_by_point(tmp_path):
    search = Search(plan(trials=100, sampler="grid", pruner="none"), tmp_path / "study")
    search.run(Watcher())
    points = [t.point for t in search.tried()]
    assert len(points) == 6
    assert all(point in points for point in SPACE.grid())


def test_a_study_with_other_settings_is_refused(tmp_path):
    Search(plan(), tmp_path / "study")
    for other, what in [
        (plan(training={"epochs": 4}), "settings"),
        (plan(space=SPACE.without("training.reg_weight")), "space"),
        (plan(trial_minutes=1.0), "trial-minutes"),
    ]:
        with pytest.raises(SettingsError, match=f"another {what}, whose"):
            Search(other, tmp_path / "study")


def test_a_diverging_trial_fails_and_the_search_continues(tmp_path):
    space = Space("made up", {"training.lr": (1e30, 0.1)})
    search = Search(plan(2, space, {"optimizer": "sgd"}, sampler="grid"), tmp_path / "study")
    search.run(Watcher(), tmp_path / "best.toml")
    states = {t.point["training.lr"]: t for t in search.tried()}
    assert states[1e30].state == "failed"
    assert "the loss is" in states[1e30].why
    assert states[0.1].state == "complete"
    assert read_settings(tmp_path / "best.toml").training.lr == 0.1
    assert "1 failed" in (tmp_path / "best.toml").read_text()


def test_a_trial_below_the_median_is_pruned(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "_UNPRUNED_TRIALS", 1)
    space = Space("made up", {"training.lr": (0.3, 1e-9)})
    # A seed whose order of the grid has the good point first.
    for seed in range(10):
        search = Search(plan(2, space, {"seed": seed}, sampler="grid"), tmp_path / f"study-{seed}")
        search.run(Watcher())
        first, second = search.tried()
        if first.point["training.lr"] == 0.3:
            break
    assert first.state == "complete"
    assert second.state == "pruned"
    assert second.epochs < QUICK["epochs"]
    assert second.mrr < first.mrr
    unpruned = Search(plan(2, space, {"seed": seed}, sampler="grid", pruner="none"), tmp_path / "u")
    unpruned.run(Watcher())
    assert [t.state for t in unpruned.tried()] == ["complete", "complete"]


def test_halving_promotes_the_best_third(tmp_path):
    space = Space("made up", {"training.lr": (0.3, 1e-9, 2e-9, 3e-9)})
    # Points that are given are tried first, in their order.
    starts = tuple({"training.lr": lr} for lr in space.choices["training.lr"])
    halving = plan(4, space, {"epochs": 18}, pruner="halving", starts=starts)
    search = Search(halving, tmp_path / "study")
    search.run(Watcher())
    first, *others = search.tried()
    assert [t.point for t in search.tried()] == list(starts)
    assert [t.state for t in search.tried()] == ["complete", "pruned", "pruned", "pruned"]
    assert [rung["epochs"] for rung in first.rungs] == [2, 6, 18]
    assert [rung["epochs"] for t in others for rung in t.rungs] == [2, 2, 2]
    run = train(people_graph(), with_point(halving.base, starts[0]))
    assert first.mrr == run.metrics["valid"]["mrr"]
    assert first.rungs[1]["valid_mrr"] == run.history[5]["valid_mrr"]
    with pytest.raises(SettingsError, match="another rungs"):
        Search(plan(4, space, {"epochs": 18}), tmp_path / "study")
    with pytest.raises(SettingsError, match="remove the epochs"):
        Search(plan(space=Space("x", {"training.epochs": (1, 2)}), pruner="halving"), tmp_path)


def test_the_default_comes_first_and_given_settings_are_not_searched():
    base = make_settings({"model": {"dim": 4}, "training": {"reg_weight": 0.05}})
    space = space_around(base, {"training.lr"}, num_entities=100)
    assert set(space.choices) == {"training.reg_weight", "model.init"}
    default, *others = starting_points(base, space)
    assert with_point(base, default) == base
    changed = [{k: v for k, v in point.items() if v != default[k]} for point in others]
    assert all(len(change) == 1 for change in changed), "one setting at a time"
    regs = [change["training.reg_weight"] for change in changed if "training.reg_weight" in change]
    assert regs[:2] == pytest.approx([0.05 / 3, 0.15])
    assert regs[2:] == pytest.approx([0.005, 0.3])
    assert {"model.init": "identity"} in changed
    large = space_around(base, set(), num_entities=50_000, dims=(4, 8))
    assert large.choices["training.num_candidates"] == (0, 1024, 4096)
    assert large.choices["model.dim"] == (4, 8)
    sampled = make_settings({"training": {"num_candidates": 4096}})
    assert 0 not in space_around(sampled, set(), 50_000).choices["training.num_candidates"]


@pytest.mark.parametrize(
    ("training", "low", "high"),
    [
        ({"optimizer": "adagrad", "regularizer": "n3"}, 0.1, 0.5),
        ({"optimizer": "adagrad", "regularizer": "none"}, 0.05, 0.8),
        ({"optimizer": "adam", "regularizer": "n3"}, 0.05, 0.8),
    ],
)
def test_without_a_regularizer_more_learning_rates_are_searched(training, low, high):
    base = make_settings({"training": {"lr": 0.2, "reg_weight": 0.1, **training}})
    rates = space_around(base, set(), num_entities=100).choices["training.lr"]
    assert rates == Range(low, high, log=True)


def test_an_interrupted_trial_is_tried_again(tmp_path):
    search = Search(plan(trials=1), tmp_path / "study")
    cut = Watcher(stop_after=3)
    search._try(search._next("a worker"), cut, None)
    assert search.tried() == []
    assert search.best() is None
    again = Watcher()
    search.run(again)
    assert again.begun == cut.begun
    assert [t.state for t in search.tried()] == ["complete"]


def test_the_time_ends_within_a_trial(tmp_path, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("fivestar.training.clock._read", lambda: next(clock))
    search = Search(plan(trials=9, minutes=0.1), tmp_path / "study")
    watcher = Watcher()
    search.run(watcher)
    assert len(watcher.begun) == 1
    assert search.tried() == []
    with pytest.raises(SettingsError, match="hold no trial"):
        Search(plan(minutes=0.1, trial_minutes=1.0), tmp_path / "other")


def test_the_trial_of_a_killed_process_is_tried_again(tmp_path):
    killed = Search(plan(trials=1), tmp_path / "study")
    trial = killed._next("a process that is no more")
    alive = Search(plan(trials=1), tmp_path / "study")
    assert [t.state for t in alive.tried()] == ["running"]
    watcher = Watcher()
    alive.run(watcher)
    assert watcher.begun == [trial.params]
    assert [t.state for t in alive.tried()] == ["complete"]


def test_a_trial_that_another_process_runs_is_not_started_again(tmp_path):
    busy = Search(plan(trials=1), tmp_path / "study")
    with busy._working() as worker:
        busy._next(worker)
        other = Search(plan(trials=1), tmp_path / "study")
        watcher = Watcher()
        other.run(watcher)
        assert watcher.begun == []


def test_two_processes_share_a_study(tmp_path):
    write_graph(people_graph(), tmp_path / "data")
    (tmp_path / "space.toml").write_text("[training]\nlr = [0.1, 0.3]\nreg-weight = [0.01, 0.1]\n")
    code = "from fivestar.cli.main import main; main()"
    command = [sys.executable, "-c", code, "search", "data", "--space", "space.toml"]
    command += ["--sampler", "grid", "--trials", "4", "--dim", "4", "--epochs", "5"]
    command += ["--storage", "study", "--out", "best.toml", "--pruner", "none"]
    options = {"cwd": tmp_path, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **options, **pipes) for _ in range(2)]
    spoken = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], spoken
    assert sum(text.count("  complete") for text in spoken) == 4
    base = recipe("data", "fivestar", {"model": {"dim": 4}, "training": {"epochs": 5}})
    graph = fivestar.read_graph(str(tmp_path / "data"))
    space = read_space(str(tmp_path / "space.toml"), "data")
    joined = Search(Plan(graph, base, space, 4, "grid", "none"), tmp_path / "study")
    points = [t.point for t in joined.tried()]
    assert len(points) == 4
    assert all(point in points for point in space.grid())


def test_the_test_split_is_never_used(tmp_path, monkeypatch):
    asked = []
    evaluate = validation.evaluate

    def watched(model, graph, triples, *rest):
        asked.append(triples)
        return evaluate(model, graph, triples, *rest)

    monkeypatch.setattr(validation, "evaluate", watched)
    search = Search(plan(trials=2), tmp_path / "study")
    search.run(Watcher())
    valid = search.plan.graph.valid
    assert asked
    assert all(np.array_equal(triples.tails, valid.tails) for triples in asked)


def test_trials_are_not_refit_but_the_best_settings_are(tmp_path):
    search = Search(plan(trials=1), tmp_path / "study")
    search.plan = replace(search.plan, base=with_point(search.plan.base, {"training.refit": True}))
    lines = []
    watcher = Watcher()
    watcher.begins = lambda number, point, epochs: (lines.append, lambda epochs: None)
    search.run(watcher)
    assert lines
    assert not any("refit" in line for line in lines)
    assert search.best()[0].training.refit


def test_plots_of_a_search(tmp_path):
    search = Search(plan(trials=6, sampler="grid", pruner="none"), tmp_path / "study")
    assert search.importances() == {}
    assert history(search.tried()).axes[0].get_ylabel() == "validation MRR"
    search.run(Watcher())
    shares = search.importances()
    assert set(shares) == set(SPACE.choices)
    assert len(history(search.tried()).axes[0].collections) == 1
    bars = importance(shares).axes[0].patches
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(shares.values()))


def test_without_optuna_the_error_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[search\]"):
        Search(plan(), tmp_path / "study")


def test_a_search_needs_validation(tmp_path):
    with pytest.raises(SettingsError, match="chooses by validation"):
        Search(plan(training={"evaluate_every": 0}), tmp_path / "study")


def test_the_grid_of_the_paper():
    grid = read_space("paper", "wn18rr").grid()
    assert len(grid) == 96
    assert {point["model.dim"] for point in grid} == {100, 500}
    nell = read_space("paper", "nell-995-h25").grid()
    assert {point["model.dim"] for point in nell} == {100, 200}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nlr = 0.1", "must be a list"),
        ("[training]\nlr = []", "must be a list"),
        ("[training]\nlr = { low = 1, high = 0 }", "must be a list"),
        ("[training]\nlr = { low = 0, high = 1, log = true }", "must be a list"),
        ("[training]\nlr = { low = 0.1, hi = 1 }", "must be a list"),
        ("[training]\nseed = [1, 2]", "cannot be searched"),
        ("[model]\nname = ['complex']", "cannot be searched"),
        ("[other]\nlr = [1]", "not a section"),
        ("", "no settings to search"),
        ("[", "is not TOML"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(tmp_path, text, message):
    (tmp_path / "space.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        read_space(str(tmp_path / "space.toml"), "x")


def test_a_space_of_settings_that_do_not_exist_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="did you mean 'reg_weight'"):
        Search(plan(space=Space("x", {"training.reg_weigth": (1,)})), tmp_path / "study")
    with pytest.raises(SettingsError, match="did you mean 'small'"):
        read_space("smal", "x")
    with pytest.raises(SettingsError, match="is a range"):
        Search(plan(space=read_space("small", "x"), sampler="grid"), tmp_path / "study")


def test_a_range_of_whole_numbers_stays_whole(tmp_path):
    space = Space("x", {"training.batch_size": Range(10, 40)})
    search = Search(plan(trials=2, space=space), tmp_path / "study")
    search.run(Watcher())
    assert all(isinstance(t.point["training.batch_size"], int) for t in search.tried())


def test_a_point_changes_its_settings_and_nothing_else():
    base = make_settings({"model": {"name": "complex"}})
    assert settings_hash(with_point(base, {})) == settings_hash(base)
    changed = with_point(base, {"training.lr": 0.7, "model.dim": 9})
    assert (changed.training.lr, changed.model.dim) == (0.7, 9)
    assert changed.training.reg_weight == base.training.reg_weight


def test_a_lock_that_cannot_be_released_is_a_clear_error(tmp_path, monkeypatch):
    optuna = pytest.importorskip("optuna")
    journal = Journal(tmp_path / "journal", optuna)

    def refuse():
        raise RuntimeError("Error: did not possess lock")

    monkeypatch.setattr(journal._lock, "release", refuse)
    with pytest.raises(OutputError, match="its lock cannot be released; check the disk"):
        journal.append_logs([{"op_code": 0}])
