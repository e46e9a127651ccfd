"""The phases of a training within a time budget: measure, search, train to the end, save.

Each phase writes its decisions into the state, so that an interrupted run continues where it
stopped; the search and the final trainings continue from their own journal and checkpoints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fivestar.errors import Diverged, SettingsError
from fivestar.files import write_atomic
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.run import CHECKPOINT, HISTORY, WORK, Run
from fivestar.runs.settings import make_settings
from fivestar.training.clock import now
from fivestar.training.loop import Trainer
from fivestar.training.search.budget_state import (
    BudgetWatcher,
    Clock,
    Finalist,
    Recording,
    Request,
    load_state,
    save_trials,
    short_names,
    trial_lines,
)
from fivestar.training.search.schedule import Schedule, measure, schedule
from fivestar.training.search.space import (
    Space,
    default_point,
    space_around,
    starting_points,
    with_point,
)
from fivestar.training.search.study import Search
from fivestar.training.search.trials import Plan, Tried, trial_folder
from fivestar.training.train import finish

_MAX_TRIALS = 36
_MAX_FINALISTS = 4
# Shares of the time: for measuring the speed, and to keep free at the end.
_MEASURING, _RESERVE = 0.02, 0.01
# Factor by which other settings must be better than the default in the search if there is no time
# to compare them at the end.
_CLEARLY_BETTER = 1.01


def default_trainer(graph: KnowledgeGraph, request: Request, number: int) -> tuple[Trainer, float]:
    """Return a trainer with the default settings of a model, and the seconds it took to build it.

    Its settings have every default filled in.
    """
    # The first optimizer of a process imports a large part of torch; that is not startup time.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    began = now()
    model = {**request.values.get("model", {}), "name": request.models[number]}
    if request.dims:
        model["dim"] = request.dims[0]
    trainer = Trainer(graph, make_settings({**request.values, "model": model}))
    startup = now() - began
    space = space_around(trainer.settings, request.fixed, len(graph.entities), request.dims)
    if not space.choices:
        raise SettingsError(
            "the settings leave nothing for the budget to choose (reg, lr, candidates, init): give "
            "fewer of them, or limit one training with max_minutes instead"
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
        """Run all phases; `first` is a trainer of the first model, and its startup time."""
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
        """Measure the speed of each model and schedule the time."""
        models = len(self.request.models)
        speeds = []
        for number in range(models):
            if number or first is None:
                first = default_trainer(self.graph, self.request, number)
            settings = first[0].settings
            speed = measure(*first, _MEASURING * self.request.seconds / models, self.work)
            (self.work / CHECKPOINT).unlink(missing_ok=True)
            speeds.append((settings, speed))
        until, left = self.clock.used(), self.clock.left()
        for settings, speed in speeds:
            plan = schedule(settings, self.request.fixed, speed, left)
            until += plan.search_seconds / models  # the models share the time for the search
            self.state.schedules.append(plan.model_copy(update={"until": until}))
            self.watcher.message(plan.describe())
        self.state.save(self.folder)

    def _search(self, plan: Schedule) -> None:
        """Search settings of one model, unless that is complete."""
        if not plan.rungs:
            return
        space = self._space(plan)
        minutes = (plan.until - self.clock.used()) / 60
        search = Search(
            Plan(
                self.graph,
                plan.settings,
                space,
                trials=max(1, _MAX_TRIALS // len(self.request.models)),
                pruner="halving",
                minutes=max(minutes, 1e-9),
                starts=tuple(starting_points(plan.settings, space)),
                rungs=plan.rungs,
                checkpoints=self.work,
            ),
            self.work / "journal",
        )
        self.searches.append((plan, search))
        if not self.state.finalists and minutes > 0:
            search.run(Recording(self.watcher, self._save_trials))

    def _space(self, plan: Schedule) -> Space:
        entities = len(self.graph.entities)
        return space_around(plan.settings, self.request.fixed, entities, self.request.dims)

    def _finalists(self) -> list[Finalist]:
        """Return the trainings to run to the end, in order: best, default, next best."""
        found = [
            self._finalist(plan, tried)
            for plan, search in self.searches
            for tried in search.tried()
            if tried.rungs and tried.state != "failed"
        ]
        # Those that reached the highest rung, best first.
        found.sort(key=lambda finalist: finalist.judged, reverse=True)
        default = next(
            (finalist for finalist in found if finalist.is_default),
            self._finalist(self.state.schedules[0], None),
        )
        found = [finalist for finalist in found if finalist is not default and self._fits(finalist)]
        # Without time for both, better by chance is not enough.
        needed = 1.0 if found and self._fits(found[0], default) else _CLEARLY_BETTER
        rung, mrr = default.judged
        better = [finalist for finalist in found[:1] if finalist.judged > (rung, needed * mrr)]
        others = [finalist for finalist in found if finalist not in better]
        return [*better, default, *others][:_MAX_FINALISTS]

    def _finalist(self, plan: Schedule, tried: Tried | None) -> Finalist:
        """Return the final training of a trial, or of the default settings without a trial."""
        default = default_point(plan.settings, self._space(plan))
        point = default if tried is None else tried.point
        finalist = Finalist(
            trial=0 if tried is None else tried.number,
            is_default=plan is self.state.schedules[0] and point == default,
            point=point,
            settings=with_point(plan.settings, point),
            speed=plan.speed,
        )
        if tried is not None:
            last = tried.rungs[-1]
            finalist.judged = len(tried.rungs) - len(plan.rungs), last["valid_mrr"]
            finalist.judged_at = last["epochs"]
            update = {"epoch": last["epoch_seconds"]}
            if last["validation_seconds"]:
                update["validation"] = last["validation_seconds"]
            finalist.speed = plan.speed.model_copy(update=update)
        return finalist

    def _seconds(self, finalist: Finalist) -> float:
        """Return the seconds to train a finalist to the end, from its checkpoint."""
        done = finalist.judged_at if self._checkpoint(finalist).exists() else 0
        left = finalist.settings.training.epochs - done
        return finalist.speed.training(finalist.settings, left)

    def _fits(self, *finalists: Finalist) -> bool:
        """Return whether there is time to train all of these to the end."""
        return sum(map(self._seconds, finalists)) <= self._time_for(finalists[-1])

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
        if (self._checkpoint(finalist).parent / HISTORY).exists():  # it was begun
            return self._time_for(finalist) > 0
        return self._fits(finalist)

    def _checkpoint(self, finalist: Finalist) -> Path:
        return self.work / trial_folder(finalist.settings, finalist.trial) / CHECKPOINT

    def _trainer(self, finalist: Finalist) -> Trainer:
        """Return the trainer of a finalist, resumed from its checkpoint."""
        checkpoint = self._checkpoint(finalist)
        checkpoint.parent.mkdir(exist_ok=True)
        trainer = Trainer(self.graph, finalist.settings, checkpoint.parent)
        if checkpoint.exists():
            trainer.resume()
        return trainer

    def _train(self, number: int) -> Trainer:
        """Train a finalist to its end, or as long as there is time."""
        finalist = self.state.finalists[number]
        callbacks = self.watcher.final(finalist)
        trainer = self._trainer(finalist)
        # Without time, use the best weights so far; if there are none, take one step.
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
        trainer = held[1] if held and held[0] == best else self._trainer(finalists[best])
        trainer.settings = finalists[best].settings
        trainer.folder = self.folder if self.saved else None
        if self.saved:
            self._save_trials()
            settings = trainer.settings.as_toml().encode()
            write_atomic(self.folder / "settings.toml", settings)
            trainer.save_checkpoint()
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
