"""Trials of a search: what is tried, how one is trained, and what is recorded of it.

A trial is one training that validates on the way (and can be pruned there), or, with successive
halving, several trainings from scratch of increasing length (rungs). The learning rate usually
decays to 0 over a training, so the model in the middle of a long one says little about the model at
the end of a short one: only trainings with a whole schedule compare.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol

from fivestar.errors import Paused
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.settings import Settings
from fivestar.training.loop import Callback, StepCallback, Trainer
from fivestar.training.space import Space, with_point

Sampler = Literal["tpe", "grid"]
Pruner = Literal["median", "halving", "none"]
State = Literal["complete", "pruned", "failed", "running"]
_STATES: dict[str, State] = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
# A rung is this many times as long as the one below, and this share of the trials reaches it.
REDUCTION = 3
# Trainings shorter than this say nothing.
_FEWEST_EPOCHS = 2


@dataclass(frozen=True)
class Plan:
    """What to search, and how; `trials` counts all of the study, whoever ran them.

    `starts` are points to try first. `rungs` are the epochs of each training of a trial, for the
    pruner halving.
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


@dataclass(frozen=True)
class Tried:
    """What was set, and what validation said."""

    number: int
    state: State
    point: dict[str, Any]
    mrr: float | None
    epochs: int | None
    why: str | None
    # One per finished training: epochs, seconds, seconds per epoch and per validation, valid_mrr.
    rungs: tuple[dict[str, Any], ...] = ()


class Watcher(Protocol):
    """What somebody who waits wants to know."""

    def begins(
        self, number: int, point: dict[str, Any], epochs: int
    ) -> tuple[Callback, StepCallback]:
        """A training of a trial begins; what to call after each epoch and step."""

    def ended(self, tried: Tried) -> None:
        """The trial is complete, pruned or failed."""


class Pruned(Exception):  # noqa: N818
    """A trial is not worth more time."""


def rungs_below(epochs: int) -> tuple[int, ...]:
    """Return the lengths of the trainings that decide what is trained for all epochs.

    >>> rungs_below(50), rungs_below(12), rungs_below(1)
    ((6, 17), (4,), ())
    """
    lengths = (round(epochs / REDUCTION**2), round(epochs / REDUCTION))
    found = tuple(length for length in lengths if _FEWEST_EPOCHS <= length < epochs)
    return found or ((1,) if epochs > 1 else ())


def run_trial(trial: Any, plan: Plan, watcher: Watcher, ends: float | None) -> float:
    """Train a trial of Optuna's.

    Args:
        trial: Optuna's trial, with its parameters.
        plan: the search it belongs to.
        watcher: told of each training.
        ends: when time is over, on the clock `time.monotonic`; None: never.

    Returns:
        The validation MRR.

    Raises:
        Pruned: if other trials make this one hopeless.
        Paused: if the time is over before a training is.
    """
    if plan.pruner == "halving":
        return _climb(trial, plan, watcher, ends)

    def on_epoch(line: dict[str, Any]) -> None:
        if "valid_mrr" in line:
            trial.report(line["valid_mrr"], line["epoch"])
            if trial.should_prune():
                raise Pruned

    settings = with_point(plan.base, trial.params)
    return _train(trial, plan, settings, watcher, (on_epoch, ends))


def _climb(trial: Any, plan: Plan, watcher: Watcher, ends: float | None) -> float:
    """Train for the epochs of one rung after the other, as long as the pruner lets it."""
    mrr = 0.0
    for level, epochs in enumerate(plan.rungs):
        began = time.monotonic()
        settings = with_point(plan.base, {**trial.params, **for_rung(epochs)})
        try:
            mrr = _train(trial, plan, settings, watcher, (lambda _: None, ends))
        except Paused:
            if level:  # what the shorter training has shown counts
                raise Pruned from None
            raise
        trial.report(mrr, REDUCTION**level)
        if epochs == plan.rungs[-1]:
            break
        seconds = time.monotonic() - began
        longer = seconds * plan.rungs[level + 1] / epochs
        if trial.should_prune() or (ends is not None and time.monotonic() + longer > ends):
            raise Pruned
    return mrr


def for_rung(epochs: int) -> dict[str, Any]:
    """Return the settings of a training of a rung: validated once, at its end."""
    return {
        "training.epochs": epochs,
        "training.evaluate_every": epochs,
        "training.patience": 0,
        "training.snapshot_epochs": (),
    }


def _train(
    trial: Any,
    plan: Plan,
    settings: Settings,
    watcher: Watcher,
    hooks: tuple[Callback, float | None],
) -> float:
    """Train once, and record epochs, seconds and validation MRR with the trial."""
    judge, ends = hooks
    if plan.trial_minutes:
        settings = with_point(settings, {"training.max_minutes": plan.trial_minutes})
    shown, on_step = watcher.begins(trial.number, trial.params, settings.training.epochs)

    def on_epoch(line: dict[str, Any]) -> None:
        shown(line)
        trial.set_user_attr("epochs", line["epoch"])
        judge(line)

    began = time.perf_counter()
    trainer = Trainer(plan.graph, settings)
    trainer.run(on_epoch, _until(ends, on_step))
    progress = trainer.progress
    trial.set_user_attr("best_epoch", progress.best_epoch)
    training = {
        "epochs": progress.epoch,
        "seconds": time.perf_counter() - began,
        **seconds_in(progress.history),
        "valid_mrr": progress.best_mrr,
    }
    trial.set_user_attr("rungs", [*trial.user_attrs.get("rungs", []), training])
    return progress.best_mrr


def _until(ends: float | None, on_step: StepCallback) -> StepCallback:
    def in_time(epochs: float) -> None:
        on_step(epochs)
        if ends is not None and time.monotonic() >= ends:
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
    """A trial of Optuna's; of one that has no value, the best validation so far."""
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
    """How many there are, in words.

    >>> summary([Tried(0, "complete", {}, 0.3, 5, None), Tried(1, "failed", {}, None, 1, "?")])
    '2 trials (1 failed)'
    """
    count = Counter(trial.state for trial in trials)
    rest = ", ".join(f"{count[state]} {state}" for state in ("pruned", "failed") if count[state])
    return f"{len(trials)} trials" + (f" ({rest})" if rest else "")
