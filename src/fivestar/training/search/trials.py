"""Trials of a search: the plan, the training of a trial, and its record.

A trial is one training that may be pruned after a validation: if it is below the median of the
others at the same epoch or, with successive halving, at a few epochs (rungs) below those that have
reached the same rung. Either way it has the learning-rate schedule of its full length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

from fivestar.errors import Paused
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.settings import Settings
from fivestar.training.clock import now
from fivestar.training.loop import Callback, StepCallback, Trainer
from fivestar.training.search.space import Space, with_point

Sampler = Literal["tpe", "grid"]
Pruner = Literal["median", "halving", "none"]
State = Literal["complete", "pruned", "failed", "running"]
_STATES: dict[str, State] = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
# Ratio of the epochs of successive rungs; one of this many trials is promoted.
REDUCTION = 3


@dataclass(frozen=True)
class Plan:
    """The settings to search, and how; `trials` counts all trials of the study.

    `starts` are points to try first. `rungs` are the epochs at which the pruner halving judges; a
    trial ends at the last of them. If that is before the end of its training, `checkpoints` is the
    folder where such trials are kept, to be trained further.
    """

    graph: KnowledgeGraph
    base: Settings
    space: Space
    trials: int
    sampler: Sampler = "tpe"
    pruner: Pruner = "median"
    trial_minutes: float = 0
    minutes: float = 0
    starts: tuple[dict[str, Any], ...] = ()
    rungs: tuple[int, ...] = ()
    checkpoints: Path | None = None


@dataclass(frozen=True)
class Tried:
    """A trial: its point, and its validation results."""

    number: int
    state: State
    point: dict[str, Any]
    mrr: float | None
    epochs: int | None
    why: str | None
    # At each rung that was reached: epochs, seconds, seconds per epoch and per validation, MRR.
    rungs: tuple[dict[str, Any], ...] = ()


class Watcher(Protocol):
    """Receives the progress of trials."""

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        """Announce a trial of at most `epochs`; return callbacks for each epoch and step."""

    def ended(self, tried: Tried) -> None:
        """Announce that a trial is complete, pruned or failed."""


class Pruned(Exception):  # noqa: N818
    """A trial was pruned."""


class _LastRungReached(Exception):  # noqa: N818
    """A trial has reached the last rung."""


def rungs_below(epochs: int, evaluate_every: int) -> tuple[int, ...]:
    """Return the rungs of a training: validations after about a ninth and a third of its epochs.

    >>> rungs_below(50, 5), rungs_below(50, 1), rungs_below(20, 7), rungs_below(5, 5)
    ((5, 15), (6, 18), (7,), ())
    """
    first = max(1, round(epochs / REDUCTION**2 / evaluate_every)) * evaluate_every
    return tuple(rung for rung in (first, REDUCTION * first) if rung <= epochs / 2)


def run_trial(trial: Any, plan: Plan, watcher: Watcher, ends: float | None) -> float:
    """Train one trial.

    Args:
        trial: Optuna's trial, with its parameters.
        plan: the search it belongs to.
        watcher: receives the progress.
        ends: when time is over, on the clock of `training.clock`; None: never.

    Returns:
        The validation MRR.

    Raises:
        Pruned: if the trial is pruned.
        Paused: if the time is over before the first rung.
    """
    settings = _settings(trial, plan)
    last = plan.rungs[-1] if plan.rungs else settings.training.epochs
    shown, on_step = watcher.begins(trial.number, trial.params, last)
    began = now()
    trainer = Trainer(plan.graph, settings)

    def on_epoch(line: dict[str, Any]) -> None:
        shown(line)
        trial.set_user_attr("epochs", line["epoch"])
        if line["epoch"] in plan.rungs:
            _judge_at_rung(trial, plan, trainer, now() - began, ends)
        elif "valid_mrr" in line and not plan.rungs:
            trial.report(line["valid_mrr"], line["epoch"])
            if trial.should_prune():
                raise Pruned

    try:
        trainer.run(on_epoch, _until(ends, on_step))
    except _LastRungReached:
        _save_checkpoint(trainer, plan, trial.number)
    except Paused:
        if trial.user_attrs.get("rungs"):
            raise Pruned from None  # the result of the last rung counts
        raise
    trial.set_user_attr("best_epoch", trainer.progress.best_epoch)
    return trainer.progress.best_mrr


def _settings(trial: Any, plan: Plan) -> Settings:
    changes = dict(trial.params)
    if plan.trial_minutes:
        changes["training.max_minutes"] = plan.trial_minutes
    if plan.rungs:
        changes["training.patience"] = 0  # the pruner stops trials early
    return with_point(plan.base, changes)


def _save_checkpoint(trainer: Trainer, plan: Plan, number: int) -> None:
    """Write the checkpoint of a trial, if the plan has a folder for them."""
    if plan.checkpoints is not None:
        trainer.folder = plan.checkpoints / trial_folder(plan.base, number)
        trainer.folder.mkdir(exist_ok=True)
        trainer.save_checkpoint()


def _judge_at_rung(
    trial: Any, plan: Plan, trainer: Trainer, seconds: float, ends: float | None
) -> None:
    """Record a rung; end the trial at the last one, if pruned, or without time for the next."""
    history = trainer.progress.history
    epochs = history[-1]["epoch"]
    measured = {"epochs": epochs, "seconds": seconds, **seconds_in(history)}
    measured["valid_mrr"] = history[-1]["valid_mrr"]
    trial.set_user_attr("rungs", [*trial.user_attrs.get("rungs", []), measured])
    level = plan.rungs.index(epochs)
    trial.report(measured["valid_mrr"], REDUCTION**level)
    if epochs == plan.rungs[-1]:
        raise _LastRungReached
    needed = seconds * (plan.rungs[level + 1] / epochs - 1)
    if trial.should_prune() or (ends is not None and now() + needed > ends):
        raise Pruned


def trial_folder(base: Settings, number: int) -> str:
    """Return the name of the folder of a trial's checkpoint."""
    return f"{base.model.name}-{number}"


def _until(ends: float | None, on_step: StepCallback) -> StepCallback:
    def in_time(epochs: float) -> None:
        on_step(epochs)
        if ends is not None and now() >= ends:
            raise Paused("the time is over")

    return in_time


def seconds_in(history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the seconds per epoch and per validation of a training.

    >>> lines = [{"seconds": 2.0}, {"seconds": 4.0}, {"seconds": 7.0, "valid_mrr": 0.3}]
    >>> seconds_in(lines)
    {'epoch_seconds': 2.0, 'validation_seconds': 1.0}
    """
    times = [0.0, *(line["seconds"] for line in history)]
    spans = [later - earlier for earlier, later in pairwise(times)]
    plain = [s for s, line in zip(spans, history, strict=True) if "valid_mrr" not in line]
    if not plain:
        return {"epoch_seconds": times[-1] / max(1, len(spans)), "validation_seconds": 0.0}
    epoch = sum(plain) / len(plain)
    validated = [s for s, line in zip(spans, history, strict=True) if "valid_mrr" in line]
    spent = sum(validated) / len(validated) - epoch if validated else 0.0
    return {"epoch_seconds": epoch, "validation_seconds": max(0.0, spent)}


def tried_of(frozen: Any) -> Tried:
    """Return the record of an Optuna trial; without a final value, its best validation."""
    state = _STATES.get(frozen.state.name, "running")
    so_far = max(frozen.intermediate_values.values(), default=None)
    return Tried(
        number=frozen.number,
        state=state,
        point=dict(frozen.params),
        mrr=frozen.value if state == "complete" else so_far,
        epochs=frozen.user_attrs.get("epochs"),
        why=frozen.user_attrs.get("why"),
        rungs=tuple(frozen.user_attrs.get("rungs", ())),
    )


def summary(trials: Sequence[Tried]) -> str:
    """Return the number of trials as text.

    >>> summary([Tried(0, "complete", {}, 0.3, 5, None), Tried(1, "failed", {}, None, 1, "?")])
    '2 trials (1 failed)'
    """
    count = Counter(trial.state for trial in trials)
    rest = ", ".join(f"{count[state]} {state}" for state in ("pruned", "failed") if count[state])
    return f"{len(trials)} trials" + (f" ({rest})" if rest else "")
