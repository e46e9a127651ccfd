"""The phases of a training within a time budget: measure, search, train at full length, save.

Each phase writes what it has decided into the state, so that an interrupted run continues where it
was; the search and the final trainings continue from their own journal and checkpoints.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from fivestar.errors import Diverged, SettingsError
from fivestar.graph.folders import replace_file
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.durations import duration_text
from fivestar.runs.run import CHECKPOINT, SNAPSHOTS, WORK, Run
from fivestar.runs.settings import make_settings
from fivestar.training.arms import default_point, space_around, starting_points
from fivestar.training.budget_state import (
    Clock,
    Finalist,
    Request,
    load_state,
    save_trials,
    short_names,
    trial_lines,
)
from fivestar.training.loop import Callback, StepCallback, Trainer
from fivestar.training.refit import finish
from fivestar.training.search import Search
from fivestar.training.space import Space, with_point
from fivestar.training.speed import Schedule, epochs_within, measure, paced, schedule
from fivestar.training.trials import Plan, Tried, Watcher

_MOST_TRIALS = 36
_MOST_FINALISTS = 4
# Shares of the time: to measure the speed in, and to keep free at the end.
_MEASURING, _RESERVE = 0.02, 0.01


class BudgetWatcher(Watcher, Protocol):
    """What is shown while a budget is used; of trials, what a search shows."""

    def clock(self, clock: Clock) -> None:
        """Take the clock of the run."""

    def message(self, text: str) -> None:
        """Say something about the plan."""

    def final(self, finalist: Finalist) -> tuple[Callback, StepCallback]:
        """Announce a training at full length; return what to call after each epoch and step."""


class _Recording:
    """Shows trials as another watcher does, and records them."""

    def __init__(self, watcher: Watcher, record: Callable[[], None]) -> None:
        self._watcher, self._record = watcher, record

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        return self._watcher.begins(number, point, epochs)

    def ended(self, tried: Tried) -> None:
        self._record()
        self._watcher.ended(tried)


def default_trainer(graph: KnowledgeGraph, request: Request, number: int) -> tuple[Trainer, float]:
    """Return a trainer of the default arm of a model, and the seconds that it takes to make one.

    Its settings have every default filled in.
    """
    # The first optimizer of a process loads a large part of torch; that is no part of a startup.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    began = time.monotonic()
    model = {**request.values.get("model", {}), "name": request.models[number]}
    if request.dims:
        model["dim"] = request.dims[0]
    trainer = Trainer(graph, make_settings({**request.values, "model": model}))
    startup = time.monotonic() - began
    space = space_around(trainer.settings, request.fixed, len(graph.entities), request.dims)
    if not space.choices:
        raise SettingsError(
            "the settings leave nothing for the budget to choose (reg, lr, candidates, init): give "
            "fewer of them, or limit one training with max-minutes instead"
        )
    return trainer, startup


class Phases:
    """A run within its budget."""

    def __init__(
        self,
        folder: Path,
        graph: KnowledgeGraph,
        watcher: BudgetWatcher,
        clock: Clock,
        *,
        saved: bool,
    ) -> None:
        self.folder, self.work = folder, folder / WORK
        self.graph, self.watcher, self.clock, self.saved = graph, watcher, clock, saved
        self.state = load_state(folder)
        self.request = self.state.request
        self.searches: list[tuple[Schedule, Search]] = []
        watcher.clock(clock)

    def complete(self, first: tuple[Trainer, float] | None) -> Run:
        """Go through all phases; `first` is a trainer of the first model, and its startup time."""
        if not self.state.schedules:
            self._measure(first)
        del first
        for plan in self.state.schedules:
            self._search(plan)
        if not self.state.finalists:
            self.state.finalists = self._finalists()
            self.state.save(self.folder)
        held: tuple[int, Trainer] | None = None
        for number in range(len(self.state.finalists)):
            if self._has_time(number):
                held = None  # its tables are freed before there are others
                held = (number, self._train(number))
        return self._finish(held)

    def _measure(self, first: tuple[Trainer, float] | None) -> None:
        """Find out what fits into the time."""
        models = len(self.request.models)
        speeds = []
        for number in range(models):
            if number or first is None:
                first = default_trainer(self.graph, self.request, number)
            settings = first[0].settings
            speed = measure(*first, _MEASURING * self.request.seconds / models, self.work)
            (self.work / CHECKPOINT).unlink(missing_ok=True)
            speeds.append((paced(settings, self.request.fixed, speed), speed))
        until, left = self.clock.used(), self.clock.left()
        for settings, speed in speeds:
            plan = schedule(settings, speed, left)
            until += plan.search_seconds / models  # the models share the time for the search
            self.state.schedules.append(plan.model_copy(update={"until": until}))
            self.watcher.message(_explained(plan))
        self.state.save(self.folder)

    def _search(self, plan: Schedule) -> None:
        """Try settings of one model, unless that is done."""
        if not plan.rungs:
            return
        space = self._space(plan)
        minutes = (plan.until - self.clock.used()) / 60
        search = Search(
            Plan(
                self.graph,
                plan.settings,
                space,
                trials=max(1, _MOST_TRIALS // len(self.request.models)),
                pruner="halving",
                minutes=max(minutes, 1e-9),
                starts=tuple(starting_points(plan.settings, space)),
                rungs=plan.rungs,
            ),
            self.work / "journal",
        )
        self.searches.append((plan, search))
        if not self.state.finalists and minutes > 0:
            search.run(_Recording(self.watcher, self._save_trials))

    def _space(self, plan: Schedule) -> Space:
        entities = len(self.graph.entities)
        return space_around(plan.settings, self.request.fixed, entities, self.request.dims)

    def _finalists(self) -> list[Finalist]:
        """Return what to train at full length: the best trial, the default, the next best."""
        tried = [
            (plan, trial)
            for plan, search in self.searches
            for trial in search.tried()
            if trial.rungs and trial.state != "failed"
        ]
        # Of those that went furthest, the best first.
        tried.sort(key=lambda pair: _achieved(*pair), reverse=True)
        found = [self._finalist(plan, trial) for plan, trial in tried]
        default = next(
            (finalist for finalist in found if finalist.is_default),
            self._finalist(self.state.schedules[0], None),
        )
        best = found[0] if found else default
        others = [finalist for finalist in found if finalist not in (best, default)]
        return [best, *([] if best is default else [default]), *others][:_MOST_FINALISTS]

    def _finalist(self, plan: Schedule, tried: Tried | None) -> Finalist:
        """Return a final training of a trial's settings, or of the default ones untried."""
        default, speed = default_point(plan.settings, self._space(plan)), plan.speed
        if tried is not None:
            seconds = tried.rungs[-1]
            update = {"epoch": seconds["epoch_seconds"]}
            if seconds["validation_seconds"]:
                update["validation"] = seconds["validation_seconds"]
            speed = speed.model_copy(update=update)
        point = default if tried is None else tried.point
        settings = with_point(plan.settings, point)
        epochs = max(1, epochs_within(settings, speed, self.clock.left()))
        return Finalist(
            trial=0 if tried is None else tried.number,
            is_default=plan is self.state.schedules[0] and point == default,
            point=point,
            settings=with_point(settings, {"training.epochs": epochs}),
            speed=speed,
        )

    def _time_for(self, finalist: Finalist) -> float:
        """Return the seconds until a final training must end, so that the rest fits as well."""
        after = finalist.speed.finish + finalist.speed.validation
        return self.clock.left() - after - _RESERVE * self.request.seconds

    def _has_time(self, number: int) -> bool:
        """Return whether to train a finalist: until one is trained in any case, then if it fits."""
        finalist = self.state.finalists[number]
        if finalist.state != "waiting":
            return False
        if not any(other.state == "complete" for other in self.state.finalists):
            return True
        if self._checkpoint(number).exists():
            return self._time_for(finalist) > 0
        epochs = finalist.settings.training.epochs
        return finalist.speed.training(finalist.settings, epochs) < self._time_for(finalist)

    def _checkpoint(self, number: int) -> Path:
        return self.work / f"final-{number}" / CHECKPOINT

    def _trainer(self, number: int) -> Trainer:
        """Return the trainer of a finalist, as far as it had come."""
        checkpoint = self._checkpoint(number)
        checkpoint.parent.mkdir(exist_ok=True)
        settings = self.state.finalists[number].settings
        trainer = Trainer(self.graph, settings, checkpoint.parent)
        if checkpoint.exists():
            trainer.resume()
        return trainer

    def _train(self, number: int) -> Trainer:
        """Train a finalist to its end, or as long as there is time."""
        finalist = self.state.finalists[number]
        callbacks = self.watcher.final(finalist)
        trainer = self._trainer(number)
        # Without time, what is there is taken; if nothing is, one step is.
        seconds = max(self._time_for(finalist), 0.0 if trainer.best else 1e-3)
        trainer.stop_after(seconds)
        try:
            trainer.run(*callbacks)
        except Diverged as error:
            finalist.state, finalist.why = "failed", str(error)
        else:
            progress = trainer.progress
            finalist.state, finalist.valid_mrr = "complete", progress.best_mrr
            finalist.epochs, finalist.seconds = progress.epoch, progress.seconds
            limit = trainer.training.max_minutes
            if progress.seconds >= 60 * limit:
                changes = {"training.max_minutes": limit}
                finalist.settings = with_point(finalist.settings, changes)
                self.watcher.message(
                    f"the time was over after {progress.epoch} of "
                    f"{finalist.settings.training.epochs} epochs"
                )
        self.state.save(self.folder)
        self._save_trials()
        return trainer

    def _finish(self, held: tuple[int, Trainer] | None) -> Run:
        """Save the best of the final trainings as the run."""
        finalists = self.state.finalists
        complete = [n for n, finalist in enumerate(finalists) if finalist.state == "complete"]
        if not complete:
            raise Diverged(f"no settings could be trained: {finalists[0].why}")
        best = max(complete, key=lambda number: finalists[number].valid_mrr or 0.0)
        trainer = held[1] if held and held[0] == best else self._trainer(best)
        trainer.settings = finalists[best].settings
        trainer.folder = self.folder if self.saved else None
        if self.saved:
            self._save_trials()
            settings = trainer.settings.as_toml().encode()
            replace_file(self.folder / "settings.toml", settings)
            trainer.keep_checkpoint()
            snapshots = self._checkpoint(best).parent / SNAPSHOTS
            if snapshots.is_dir():
                shutil.copytree(snapshots, self.folder / SNAPSHOTS, dirs_exist_ok=True)
        return finish(trainer, more=lambda: {"budget": self._metrics(finalists[best])})

    def _metrics(self, chosen: Finalist) -> dict[str, Any]:
        default = next((f for f in self.state.finalists if f.is_default), None)
        return {
            "seconds": self.request.seconds,
            "seconds_used": round(self.clock.used(), 1),
            "trials": sum(len(search.tried()) for _, search in self.searches),
            "winner": {"model": chosen.settings.model.name, **short_names(chosen.point)},
            "winner_is_default": chosen.is_default,
            "default_valid_mrr": default.valid_mrr if default else None,
        }

    def _save_trials(self) -> None:
        trials = [
            (plan.settings.model.name, tried)
            for plan, search in self.searches
            for tried in search.tried()
        ]
        save_trials(trial_lines(trials, self.state.finalists), self.folder)


def _achieved(plan: Schedule, tried: Tried) -> tuple[int, float]:
    """Return how many rungs below the highest a trial has ended, and its validation MRR there."""
    return len(tried.rungs) - len(plan.rungs), tried.rungs[-1]["valid_mrr"]


def _explained(plan: Schedule) -> str:
    """Return what fits into the time, in words."""
    model, speed = plan.settings.model.name, plan.speed
    text = f"{model}: an epoch takes about {_spoken(speed.epoch)}"
    if not plan.epochs:
        return (
            f"{text}, which is more than the budget: training with the default settings until the "
            "time is over, without a search"
        )
    text += f", a validation {_spoken(speed.validation)}"
    if not plan.rungs:
        return f"{text}: only time for {plan.epochs} epochs with the default settings, no search"
    rungs = " and ".join(map(str, plan.rungs))
    return f"{text}: settings are compared after {rungs} epochs, the best get {plan.epochs}"


def _spoken(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else duration_text(seconds)
