"""Training within a time budget: the choice, the time, and what survives a kill."""

from __future__ import annotations

import datetime as dt
import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tests.graphs import people_graph

import fivestar
from fivestar.errors import Diverged, MissingExtra, OutputError, Paused, SettingsError
from fivestar.runs.units import parse_duration
from fivestar.training.loop import Trainer
from fivestar.training.search import budget_phases, time_budget
from fivestar.training.search.budget_state import Clock, load_state
from fivestar.training.search.schedule import Speed, epochs_within, schedule

# Small enough that all trials are over long before the budget is.
QUICK = {
    "patience": 0,
    "epochs": 18,
    "batch_size": 40,
    "threads": 1,
    "evaluate_every": 2,
    "checkpoint_every": 2,
}
VALUES = {"model": {"dim": 4}, "training": QUICK}


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """What is loaded once per process takes seconds, which is much of the short budgets here."""
    pytest.importorskip("optuna")
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing has interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget_phases, "_MAX_TRIALS", 4)
        fivestar.train(people_graph(), VALUES, folder, budget="10m")
    return folder


@pytest.fixture
def few_trials(monkeypatch):
    monkeypatch.setattr(budget_phases, "_MAX_TRIALS", 4)


def trials_of(folder):
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1m 30s", 90), ("0.5m", 30)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds
    assert parse_duration(dt.timedelta(seconds=seconds)) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "5m3h", "-1m", "0s", "m", "1d", 10])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(SettingsError, match="as in 90s, 10m or 1h30m"):
        parse_duration(text)


def test_the_best_of_trials_and_default_is_a_run_that_lists_them(tmp_path, few_trials):
    began = time.monotonic()
    lines = []
    model = fivestar.train(
        people_graph(), VALUES, tmp_path / "run", on_epoch=lines.append, budget="10m"
    )
    assert time.monotonic() - began < 300, "it ends when there is nothing left to try"
    trials = trials_of(tmp_path / "run")
    default, second = trials[0], next(line for line in trials if line["trial"] == 1)
    base = fivestar.make_settings(VALUES).for_graph(people_graph())
    assert default["settings"] == {
        "reg-weight": base.training.reg_weight,
        "lr": base.training.lr,
    } | {"init": "rotation"}
    assert second["settings"]["reg-weight"] != default["settings"]["reg-weight"]
    assert second["settings"]["lr"] == default["settings"]["lr"]
    assert {line["trial"] for line in trials} == set(range(4))
    assert [line["epochs"] for line in trials if line["trial"] == 0] == [2, 6, 18]
    finals = [line for line in trials if line["rung"] == "final"]
    assert 0 in {line["trial"] for line in finals}, "the default is trained to the end"
    best = max(line["valid_mrr"] for line in finals)
    assert model.metrics["valid"]["mrr"] == best >= finals[-1]["valid_mrr"]
    budget = model.metrics["budget"]
    assert (budget["seconds"], budget["trials"]) == (600, 4)
    assert 0 < budget["seconds_used"] < 300
    assert budget["default_valid_mrr"] <= best
    chosen = next(line for line in finals if line["valid_mrr"] == best)
    assert budget["winner"] == {"model": "fivestar", **chosen["settings"]}
    # What is saved is a run like any other.
    loaded = fivestar.load(tmp_path / "run")
    assert loaded.settings.training.reg_weight == chosen["settings"]["reg-weight"]
    assert loaded.settings.training.max_minutes == 0
    assert loaded.settings.training.epochs == loaded.metrics["epochs"] == 18
    assert not (tmp_path / "run" / "search").exists()
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    card = (tmp_path / "run" / "README.md").read_text()
    assert card.count("| fivestar |") == len(trials)
    assert {line["epoch"] for line in lines} >= set(range(7, 19)), "of the final trainings"
    # The same settings without a budget give the same model.
    settings = loaded.settings
    again = fivestar.train(people_graph(), settings)
    assert again.metrics["valid"]["mrr"] == best


def test_settings_that_are_given_are_not_searched(tmp_path, few_trials):
    values = {"model": {"dim": 4, "init": "small"}, "training": {**QUICK, "reg_weight": 0.02}}
    fivestar.train(people_graph(), values, tmp_path / "run", budget="10m")
    trials = trials_of(tmp_path / "run")
    assert all(set(line["settings"]) == {"lr"} for line in trials)
    settings = fivestar.load(tmp_path / "run").settings
    assert (settings.training.reg_weight, settings.model.options["init"]) == (0.02, "small")


def test_models_and_dimensions_are_searched_if_requested(tmp_path, few_trials):
    fivestar.train(
        people_graph(),
        {"training": {**QUICK, "lr": 0.3, "reg_weight": 0.01}},
        tmp_path / "run",
        budget="10m",
        budget_models=["complex", "fivestar"],
        budget_dims=[4, 6],
    )
    trials = trials_of(tmp_path / "run")
    assert {line["model"] for line in trials} == {"complex", "fivestar"}
    assert {line["settings"]["dim"] for line in trials} == {4, 6}
    assert trials[0]["settings"] == {"dim": 4}
    finals = [line for line in trials if line["rung"] == "final"]
    assert any(line["model"] == "complex" and line["trial"] == 0 for line in finals)
    loaded = fivestar.load(tmp_path / "run")
    assert loaded.model.entities.shape[0] == len(people_graph().entities)
    assert loaded.metrics["budget"]["winner"]["model"] == loaded.settings.model.name


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        ({"training": {"max_minutes": 1}}, {}, "omit max_minutes"),
        ({"training": {"snapshot_epochs": (1,)}}, {}, "omit snapshot_epochs"),
        ({"training": {"epochs": 0}}, {}, "epochs and evaluate_every above 0"),
        ({"training": {"evaluate-every": 0}}, {}, "epochs and evaluate_every above 0"),
        (fivestar.make_settings({}), {}, "leave nothing for the budget to choose"),
        ({"model": {"dim": 3}}, {"budget_dims": [3, 4]}, "dim or budget-dims"),
        ({"model": {"name": "cp"}}, {"budget_models": ["cp"]}, "model or budget-models"),
        ({}, {"warm_start": "run"}, "from scratch"),
        ({}, {"budget": "10"}, "not a duration"),
        ({}, {"budget": None, "budget_dims": [3]}, "need a budget"),
    ],
)
def test_invalid_budgets_are_refused(tmp_path, values, more, message):
    arguments = {"budget": "10m", **more}
    if isinstance(values, fivestar.Settings):
        fixed = {"lr": 0.1, "reg_weight": 0.1, "num_candidates": 0}
        values = {"model": {"init": "rotation"}, "training": fixed}
    with pytest.raises(SettingsError, match=message):
        fivestar.train(people_graph(), values, tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_a_budget_needs_validation_and_optuna(tmp_path, monkeypatch):
    warned = pytest.warns(fivestar.GraphWarning)
    with warned, pytest.raises(SettingsError, match="chooses settings by validation"):
        fivestar.train(people_graph(valid=0), VALUES, tmp_path / "run", budget="10m", valid=0)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[search\]"):
        fivestar.train(people_graph(), VALUES, tmp_path / "run", budget="10m")
    assert not (tmp_path / "run").exists()


class Slow:
    """Makes each step of every training take this long, whatever the machine."""

    def __init__(self, monkeypatch, seconds):
        take = Trainer._take_step

        def slowly(trainer, step, batch):
            time.sleep(seconds)
            take(trainer, step, batch)

        monkeypatch.setattr(Trainer, "_take_step", slowly)


class Reported(time_budget.Quiet):
    def __init__(self):
        super().__init__()
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def test_the_epochs_are_chosen_so_that_all_is_over_in_time(tmp_path, monkeypatch):
    Slow(monkeypatch, 0.02)
    values = {
        "model": {"dim": 4},
        "training": {"epochs": 1000, "batch_size": 40, "patience": 0, "threads": 1},
    }
    reported, began = Reported(), time.monotonic()
    run = time_budget.train_within(people_graph(), values, "15s", tmp_path / "run", reported)
    seconds = time.monotonic() - began
    assert "settings are compared after" in reported.messages[0]
    budget = run.metrics["budget"]
    # Seconds more than planned for a machine that is busy with other things.
    assert budget["seconds_used"] == pytest.approx(seconds, abs=5)
    assert 7 < seconds < 15 * 1.05 + 5
    finals = [line for line in trials_of(tmp_path / "run") if line["rung"] == "final"]
    searched = [line for line in trials_of(tmp_path / "run") if line["rung"] != "final"]
    assert 20 < run.settings.training.epochs < 1000
    assert run.metrics["epochs"] == run.settings.training.epochs or len(reported.messages) > 1
    assert finals[0]["epochs"] > 2 * max(line["epochs"] for line in searched)


def test_if_no_epoch_fits_the_defaults_are_trained_until_the_time_is_over(tmp_path, monkeypatch):
    Slow(monkeypatch, 0.1)
    values = {"model": {"dim": 4}, "training": {"batch_size": 1, "threads": 1}}
    reported, began = Reported(), time.monotonic()
    run = time_budget.train_within(people_graph(), values, "4s", tmp_path / "run", reported)
    assert time.monotonic() - began < 4 * 1.05 + 5
    assert "more than is left of the budget" in reported.messages[0]
    assert "without a search" in reported.messages[0]
    assert run.history[-1]["part_of_the_epoch"] < 1
    assert run.metrics["budget"]["trials"] == 0
    assert run.metrics["budget"]["winner_is_default"]
    assert [line["rung"] for line in trials_of(tmp_path / "run")] == ["final"]
    assert fivestar.load(tmp_path / "run").settings.training.max_minutes > 0


def test_the_time_is_divided_by_what_fits():
    settings = fivestar.make_settings({"training": {"epochs": 100, "evaluate_every": 10}})
    speed = Speed(startup=0, epoch=1, validation=0, checkpoint=0, finish=0)

    def divided(seconds, speed=speed):
        plan = schedule(settings, frozenset(), speed, seconds)
        return plan.settings.training.epochs, plan.rungs, seconds - plan.search_seconds

    # A third of the final trainings is part of the search.
    assert divided(1000) == (100, (10, 30), pytest.approx(2 * 70 / 0.93)), "the default as well"
    assert divided(250) == (100, (10, 30), pytest.approx(70 / 0.93))
    epochs, rungs, final = divided(100)
    assert (epochs, rungs) == (62, (7, 21))
    assert final == pytest.approx(41 / 0.93)
    assert divided(20) == (18, (), 20), "no search"
    assert schedule(settings, frozenset(), speed, 20).fits
    assert not schedule(settings, frozenset(), speed, 0.5).fits
    assert divided(100, speed.model_copy(update={"finish": 50.0}))[0] == 43
    assert epochs_within(settings, speed, 1e9) == 100


def test_validations_and_checkpoints_take_little_of_the_time():
    training = {"epochs": 90, "evaluate_every": 5, "patience": 4}
    settings = fivestar.make_settings({"training": training})
    speed = Speed(startup=0, epoch=1, validation=3, checkpoint=0.5, finish=0)
    changed = schedule(settings, frozenset(), speed, 1000).settings.training
    assert (changed.evaluate_every, changed.checkpoint_every, changed.patience) == (20, 5, 1)
    dear = speed.model_copy(update={"validation": 30.0})
    judged = schedule(settings, frozenset(), dear, 1000)
    assert (judged.settings.training.evaluate_every, judged.rungs) == (30, (30,))
    fixed = frozenset({"training.evaluate_every", "training.patience"})
    given = schedule(settings, fixed, speed, 1000).settings.training
    assert (given.evaluate_every, given.checkpoint_every, given.patience) == (5, 5, 4)


def test_settings_that_diverge_leave_the_default(tmp_path, monkeypatch, few_trials):
    run = Trainer.run
    default = fivestar.make_settings(VALUES).for_graph(people_graph())

    def diverges(trainer, *args, **kwargs):
        training, model = trainer.settings.training, trainer.settings.model
        changed = (training.reg_weight, training.lr, model.init) != (
            default.training.reg_weight,
            default.training.lr,
            default.model.init,
        )
        if trainer.folder is not None and changed:
            raise Diverged("the loss is nan")
        return run(trainer, *args, **kwargs)

    monkeypatch.setattr(Trainer, "run", diverges)
    model = fivestar.train(people_graph(), VALUES, tmp_path / "run", budget="10m")
    assert model.metrics["budget"]["winner_is_default"]
    finals = [line for line in trials_of(tmp_path / "run") if line["rung"] == "final"]
    states = {line["trial"]: line["state"] for line in finals}
    assert states.pop(0) == "complete"
    assert set(states.values()) == {"failed"}
    assert "the loss is nan" in {line.get("why") for line in finals}


def test_a_paused_run_resumes_and_is_locked_meanwhile(tmp_path, few_trials):
    def pause(line):
        if line["epoch"] == 10:
            with pytest.raises(OutputError, match=r"process \d+ on .* writes to this run"):
                fivestar.resume(tmp_path / "run")
            raise Paused("enough")

    with pytest.raises(Paused):
        fivestar.train(people_graph(), VALUES, tmp_path / "run", on_epoch=pause, budget="10m")
    used = float((tmp_path / "run" / "search" / "clock").read_text())
    before = [line for line in trials_of(tmp_path / "run") if line["rung"] != "final"]
    epochs = []
    model = fivestar.resume(tmp_path / "run", on_epoch=lambda line: epochs.append(line["epoch"]))
    assert epochs[0] == 11, "from its checkpoint"
    assert model.metrics["budget"]["seconds_used"] > used
    after = [line for line in trials_of(tmp_path / "run") if line["rung"] != "final"]
    assert after == before, "the search is not repeated"
    whole = fivestar.train(people_graph(), model.settings)
    assert whole.metrics["valid"]["mrr"] == model.metrics["valid"]["mrr"]


def test_the_budget_is_saved_before_the_run_is_visible(tmp_path, monkeypatch):
    rename = Path.rename

    def last_rename(self, target):
        if target != tmp_path / "run":  # a part of the run
            return rename(self, target)
        assert (self / "search" / "state.json").is_file()
        raise OSError(errno.EIO, "no more")

    monkeypatch.setattr(Path, "rename", last_rename)
    with pytest.raises(OutputError, match="no more"):
        fivestar.train(people_graph(), VALUES, tmp_path / "run", budget="10m")
    assert not list(tmp_path.iterdir())


def test_the_clock_counts_all_processes(tmp_path):
    (tmp_path / "search").mkdir()
    for already in (10.0, 5.0):
        with Clock(tmp_path / "search" / "clock", 100.0, already) as clock:
            assert clock.left() == pytest.approx(100 - clock.used(), abs=0.1)
    assert 15 <= clock.used() < 16


KILLED = """
import json, os, signal, sys
from tests.graphs import people_graph
from fivestar.training.search import budget_phases, time_budget

budget_phases._MAX_TRIALS = 4
point = sys.argv[1]

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Watcher(time_budget.Quiet):
    def begins(self, number, settings, epochs):
        # In the search: within the third trial.
        return (kill if point == "search" and number == 2 else (lambda _: None)), (lambda _: None)

    def final(self, finalist):
        if point == "between":
            kill()
        # In the final training: after an epoch that no checkpoint has.
        return (lambda line: kill() if line["epoch"] == 11 else None), (lambda _: None)

values = json.loads(sys.argv[2])
time_budget.train_within(people_graph(), values, "10m", "run", Watcher())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process by a signal")
@pytest.mark.parametrize("point", ["search", "between", "final"])
def test_a_kill_at_any_point_is_survived(tmp_path, monkeypatch, few_trials, whole, point):
    root = str(__file__).rsplit("/tests/", 1)[0]
    monkeypatch.setenv("PYTHONPATH", root, prepend=":")
    command = [sys.executable, "-c", KILLED, point, json.dumps(VALUES)]
    killed = subprocess.run(command, cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    run = tmp_path / "run"
    state = load_state(run)
    assert bool(state.finalists) == (point != "search")
    used = float((run / "search" / "clock").read_text())
    model = fivestar.resume(run)
    assert used < model.metrics["budget"]["seconds_used"] < 600
    assert {line["trial"] for line in trials_of(run)} >= {0, 1}
    # As without a kill: the same trials with the same results, and the same model.
    kept = ("settings", "rung", "epochs", "valid_mrr")
    compared = [
        sorted(str([line[key] for key in kept]) for line in trials_of(folder))
        for folder in (run, whole)
    ]
    assert compared[0] == compared[1]
    uninterrupted = fivestar.load(whole)
    assert model.metrics["valid"] == uninterrupted.metrics["valid"]
    assert model.settings == uninterrupted.settings
    assert not (run / "search").exists()
