"""Search for settings by validation MRR: Optuna, resumable, and shared by any number of processes.

The study is a journal, a file that every process appends to. A process that runs a trial holds a
lock that is released when it dies, so that others can tell a running trial from an abandoned one,
whose settings are tried again. The test split is never used.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from fivestar.errors import DamagedRun, FivestarError, OutputError, Paused, SettingsError
from fivestar.extras import require
from fivestar.files import file_lock, make_folder, try_file_lock, write_atomic
from fivestar.runs.identity import learned_settings
from fivestar.runs.settings import Settings
from fivestar.training.clock import now
from fivestar.training.search.journal import Journal
from fivestar.training.search.space import Range, with_point
from fivestar.training.search.trials import (
    REDUCTION,
    Plan,
    Pruned,
    Tried,
    Watcher,
    run_trial,
    rungs_below,
    summary,
    tried_of,
)

# Random trials before TPE is used, and unpruned trials before the median pruner is.
_RANDOM_TRIALS = 5
_UNPRUNED_TRIALS = 4
# What Optuna raises if the lines of a journal do not fit together.
_DAMAGE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Search:
    """A study in a file, and one process that works on it."""

    def __init__(self, plan: Plan, storage: Path) -> None:
        self._optuna = require("optuna", "search", "a search for settings")
        if plan.pruner == "halving" and not plan.rungs:
            training = plan.base.training
            below = rungs_below(training.epochs, training.evaluate_every or 1)
            plan = replace(plan, rungs=(*below, training.epochs))
        self.plan = plan
        self.storage = storage
        if not len(plan.graph.valid) or not plan.base.training.evaluate_every:
            raise SettingsError(
                "a search chooses by validation: give a graph with validation triples, and an "
                "evaluate_every above 0"
            )
        if plan.minutes and plan.minutes < plan.trial_minutes:
            raise SettingsError(
                f"minutes {plan.minutes:g} hold no trial of trial-minutes {plan.trial_minutes:g}"
            )
        if plan.rungs and "training.epochs" in plan.space.choices:
            raise SettingsError(
                "the pruner halving compares trainings of one length: remove the epochs from the "
                "space, or use the pruner median or none"
            )
        with_point(plan.base, plan.space.any_point())  # raises if there is no such setting
        if plan.sampler == "grid":
            plan.space.grid()  # raises if there is none
        make_folder(storage.parent)
        self._lock = storage.with_name(f".{storage.name}.lock")
        with file_lock(self._lock):
            self._study = self._opened()

    def run(self, watcher: Watcher, out: Path | None = None) -> None:
        """Run trials until there are enough of them or the time is over.

        A trial starts only if there is time for all of it. An interrupted trial does not count; its
        settings are tried again next time.

        Args:
            watcher: receives the progress.
            out: settings file that holds the best settings after each trial.
        """
        ends = now() + 60 * self.plan.minutes if self.plan.minutes else None
        with self._working() as worker:
            while ends is None or now() + self._shortest_trial() <= ends:
                with file_lock(self._lock):
                    trial = self._next(worker)
                if trial is None:
                    break
                self._try(trial, watcher, ends)
                if out is not None:
                    with file_lock(self._lock):
                        self._write_best(out)

    def _shortest_trial(self) -> float:
        """Return the least seconds of a trial, estimated from earlier ones."""
        if self.plan.trial_minutes or not self.plan.rungs:
            return 60 * self.plan.trial_minutes
        first = [tried.rungs[0]["seconds"] for tried in self.tried() if tried.rungs]
        return median(first) if first else 0.0

    def tried(self) -> list[Tried]:
        """Return all trials except interrupted ones."""
        return [tried_of(trial) for trial in self._trials()]

    def best(self) -> tuple[Settings, Tried] | None:
        """Return the settings with the best validation MRR, and their trial."""
        complete = [trial for trial in self.tried() if trial.state == "complete"]
        if not complete:
            return None
        tried = max(complete, key=lambda trial: (trial.mrr or 0, -trial.number))
        return with_point(self.plan.base, tried.point), tried

    def importances(self) -> dict[str, float]:
        """Return the importance of each setting; empty if there are too few trials."""
        values = {trial.mrr for trial in self.tried() if trial.state == "complete"}
        if len(values) < _UNPRUNED_TRIALS:
            return {}
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
        found = self._optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}

    def _opened(self) -> Any:
        optuna, plan = self._optuna, self.plan
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner: Any = optuna.pruners.NopPruner()
        if plan.pruner == "median":
            pruner = optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED_TRIALS)
        elif plan.pruner == "halving":
            pruner = optuna.pruners.SuccessiveHalvingPruner(
                min_resource=1, reduction_factor=REDUCTION
            )
        states = optuna.trial.TrialState
        try:
            study = optuna.create_study(
                storage=optuna.storages.JournalStorage(Journal(self.storage, optuna)),
                study_name=f"{plan.graph.name}/{plan.base.model.name}",
                direction="maximize",
                pruner=pruner,
                load_if_exists=True,
            )
            for trial in study.get_trials(deepcopy=False, states=(states.COMPLETE,)):
                float(tried_of(trial).mrr or 0.0)
                with_point(plan.base, trial.params)
        except (*_DAMAGE, optuna.exceptions.OptunaError) as error:
            raise DamagedRun(
                f"{self.storage}: is not the journal of a search ({error!r}); move it away and "
                "search again"
            ) from error
        identity = self._identity()
        known = study.user_attrs.get("question")
        if known is None:
            study.set_user_attr("question", identity)
        elif known != identity:
            different = [key for key in identity | known if known.get(key) != identity.get(key)]
            raise SettingsError(
                f"{self.storage}: holds a search with another {' and '.join(different)}, whose "
                "trials are not comparable; choose another storage"
            )
        return study

    def _identity(self) -> dict[str, Any]:
        """Return what all trials of a study must share."""
        fixed = learned_settings(self.plan.base)
        for name in self.plan.space.choices:
            section, _, setting = name.partition(".")
            fixed[section].pop(setting, None)
        spelled = {name: str(values) for name, values in sorted(self.plan.space.choices.items())}
        identity = {
            "settings": fixed,
            "space": spelled,
            "trial-minutes": self.plan.trial_minutes,
        }
        # Studies without rungs stay as they were before there were any.
        return identity | ({"rungs": list(self.plan.rungs)} if self.plan.rungs else {})

    def _trials(self) -> list[Any]:
        """Return the trials that count: neither waiting nor interrupted."""
        states = self._optuna.trial.TrialState
        return [
            trial
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state != states.WAITING and not trial.user_attrs.get("cut off")
        ]

    def _next(self, worker: str) -> Any:
        """Return a trial for this process; None if there are enough."""
        self._fail_abandoned_trials(worker)
        trials = self._trials()
        if len(trials) >= self.plan.trials:
            return None
        if not self._waiting():  # interrupted trials come first
            point = self._unvisited()
            if point is not None:
                self._study.enqueue_trial(point)
            elif self.plan.sampler == "grid":
                return None
        seed = self.plan.base.training.seed * 1_000_003 + len(trials)
        self._study.sampler = self._optuna.samplers.TPESampler(
            n_startup_trials=max(_RANDOM_TRIALS, len(self.plan.starts)), seed=seed
        )
        trial = self._study.ask(fixed_distributions=self._distributions())
        trial.set_user_attr("worker", worker)
        return trial

    def _waiting(self) -> list[Any]:
        states = self._optuna.trial.TrialState
        return list(self._study.get_trials(deepcopy=False, states=(states.WAITING,)))

    def _unvisited(self) -> dict[str, Any] | None:
        """Return the next starting point or grid point (shuffled, so that a part is a sample)."""
        visited = [trial.params for trial in self._trials()]
        points = list(self.plan.starts)
        if self.plan.sampler == "grid":
            points = self.plan.space.grid()
            random.Random(self.plan.base.training.seed).shuffle(points)  # noqa: S311
        return next((point for point in points if point not in visited), None)

    def _distributions(self) -> dict[str, Any]:
        kinds = self._optuna.distributions
        found = {}
        for name, values in self.plan.space.choices.items():
            if not isinstance(values, Range):
                found[name] = kinds.CategoricalDistribution(values)
            elif values.is_whole:
                found[name] = kinds.IntDistribution(values.low, values.high, log=values.log)
            else:
                found[name] = kinds.FloatDistribution(values.low, values.high, log=values.log)
        return found

    def _try(self, trial: Any, watcher: Watcher, ends: float | None) -> None:
        states = self._optuna.trial.TrialState
        try:
            mrr = run_trial(trial, self.plan, watcher, ends)
        except Pruned:
            self._study.tell(trial, state=states.PRUNED)
        except Paused:
            self._interrupt(trial)
            return
        except OutputError:  # the disk is at fault, not the settings: they are tried again
            raise
        except FivestarError as error:  # diverged, or invalid settings
            trial.set_user_attr("why", str(error))
            self._study.tell(trial, state=states.FAIL)
        else:
            self._study.tell(trial, mrr)
        frozen = self._study.get_trials(deepcopy=False)[trial.number]
        watcher.ended(tried_of(frozen))

    def _interrupt(self, trial: Any) -> None:
        """Fail an interrupted trial, and enqueue its settings for the next one."""
        trial.set_user_attr("cut off", True)  # noqa: FBT003
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        self._study.enqueue_trial(trial.params)

    def _fail_abandoned_trials(self, worker: str) -> None:
        states = self._optuna.trial.TrialState
        for frozen in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            holder = frozen.user_attrs.get("worker")
            if holder == worker:
                continue
            # Without a holder, its process was killed while it started the trial.
            lock = self._lock_of(holder or "nobody")
            with try_file_lock(lock) as abandoned:
                if abandoned:
                    live = self._optuna.trial.Trial(self._study, frozen._trial_id)  # noqa: SLF001
                    self._interrupt(live)
            if abandoned:
                lock.unlink(missing_ok=True)

    @contextmanager
    def _working(self) -> Iterator[str]:
        worker = uuid.uuid4().hex[:12]
        lock = self._lock_of(worker)
        with file_lock(lock):
            yield worker
        lock.unlink(missing_ok=True)

    def _lock_of(self, worker: str) -> Path:
        return self.storage.with_name(f".{self.storage.name}.{worker}.lock")

    def _write_best(self, out: Path) -> None:
        found = self.best()
        if found is None:
            return
        settings, tried = found
        text = (
            f"# Found by fivestar search on {self.plan.graph.name} in the space "
            f"{self.plan.space.name}:\n# validation MRR {tried.mrr:.4f}, the best of "
            f"{summary(self.tried())}.\n"
        )
        make_folder(out.parent)
        write_atomic(out, (text + settings.as_toml()).encode())
