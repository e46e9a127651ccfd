"""How fast training is on a graph and machine, and how a time budget is divided accordingly.

The learning rate decays over the epochs of a training, so their number must be known when it
begins: it is derived from a short measurement, with a margin.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fivestar.errors import Paused
from fivestar.evaluation.report import evaluate
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.runs.settings import Settings
from fivestar.training.loop import Trainer
from fivestar.training.space import with_point
from fivestar.training.trials import rungs_below

# Share of the time that is planned with; the rest is for what takes longer than measured.
_PLANNED = 0.93
# Share of the time for the final training where all epochs do not fit.
_FINAL_SHARE = 0.55
# With fewer epochs for the final training, the search would take more than it gives.
_FEWEST_EPOCHS = 6
# Validations and checkpoints may take this share of a training.
_SHARE_OF_VALIDATION, _SHARE_OF_CHECKPOINTS = 0.15, 0.1
# Measured, in validations: calibration ranks at most this many facts, and sorts what it ranks.
_CALIBRATED, _CALIBRATION_COST = 1500, 2.0
_FEWEST_STEPS = 3
_LONG_ENOUGH = 0.2  # seconds


class Speed(BaseModel):
    """Seconds of each part of a training."""

    model_config = ConfigDict(frozen=True)

    startup: float
    epoch: float
    validation: float
    checkpoint: float
    finish: float  # after the last epoch: validation, calibration, saving

    def training(self, settings: Settings, epochs: int) -> float:
        """Return the seconds of a training, without what comes after its last epoch."""
        training = settings.training
        return (
            self.startup
            + epochs * self.epoch
            + math.ceil(epochs / (training.evaluate_every or epochs)) * self.validation
            + math.ceil(epochs / training.checkpoint_every) * self.checkpoint
        )

    def rung(self, epochs: int) -> float:
        """Return the seconds of a trial's training: one validation, no checkpoints."""
        return self.startup + epochs * self.epoch + self.validation


class Schedule(BaseModel):
    """How the time for one model is used."""

    model_config = ConfigDict(frozen=True)

    settings: Settings  # the default arm
    epochs: int  # of the final training; 0: not one of them fits
    rungs: tuple[int, ...]  # epochs of the trials; none: no search
    search_seconds: float
    until: float = 0.0  # when the search ends, in seconds of the budget
    speed: Speed


def measure(trainer: Trainer, startup: float, allowed: float, folder: Path) -> Speed:
    """Time some steps, part of a validation and a checkpoint of a training.

    Args:
        trainer: a fresh one; it is of no use afterwards.
        startup: seconds that it took to make it.
        allowed: seconds for the steps; a few are taken in any case.
        folder: where a checkpoint is written.
    """
    times = [time.perf_counter()]

    def on_step(epochs: float) -> None:
        times.append(time.perf_counter())
        enough = len(times) > _FEWEST_STEPS and times[-1] - times[0] >= allowed
        if enough or epochs >= 1:
            raise Paused("measured")

    with suppress(Paused):
        trainer.run(on_step=on_step)
    skipped = 1 if len(times) > 2 else 0  # the first step is slower
    step = (times[-1] - times[skipped]) / (len(times) - 1 - skipped)
    began = time.perf_counter()
    trainer.folder = folder
    trainer.keep_checkpoint()
    checkpoint = time.perf_counter() - began
    known, validation = _validation(trainer)
    calibrated = min(1.0, _CALIBRATED / len(trainer.graph.valid))
    finish = validation * (1 + _CALIBRATION_COST * calibrated) + 2 * known + 2 * checkpoint
    return Speed(
        startup=startup + known,
        epoch=step * trainer.steps,
        validation=validation,
        checkpoint=checkpoint,
        finish=finish,
    )


def _validation(trainer: Trainer) -> tuple[float, float]:
    """Return the seconds to index the known answers, and (from a sample) of a validation."""
    graph, valid = trainer.graph, trainer.graph.valid
    began = time.perf_counter()
    known = KnownAnswers.of(with_reciprocals(graph.facts, len(graph.relations)))
    indexed = time.perf_counter() - began
    count = 64
    while True:
        sample = Triples.of(valid.array[:: max(1, len(valid) // count)])
        began = time.perf_counter()
        evaluate(trainer.model, graph, sample, known, trainer.budget.score_bytes)
        seconds = time.perf_counter() - began
        if seconds >= _LONG_ENOUGH or len(sample) == len(valid):
            return indexed, seconds * len(valid) / len(sample)
        count *= 4


def paced(settings: Settings, fixed: frozenset[str], speed: Speed) -> Settings:
    """Return the settings with validations and checkpoints so rare that they take little time."""
    changes = {}
    for name, seconds, share in (
        ("evaluate_every", speed.validation, _SHARE_OF_VALIDATION),
        ("checkpoint_every", speed.checkpoint, _SHARE_OF_CHECKPOINTS),
    ):
        rarest = min(settings.training.epochs, math.ceil(seconds / (share * speed.epoch)))
        if f"training.{name}" not in fixed and rarest > getattr(settings.training, name):
            changes[f"training.{name}"] = rarest
    return with_point(settings, changes)


def epochs_within(settings: Settings, speed: Speed, seconds: float) -> int:
    """Return how many epochs, up to that of the settings, surely fit a time; 0: not one."""
    for epochs in range(settings.training.epochs, 0, -1):
        if speed.training(settings, epochs) + speed.finish <= _PLANNED * seconds:
            return epochs
    return 0


def schedule(settings: Settings, speed: Speed, seconds: float) -> Schedule:
    """Divide a time between the search and the final training.

    If all epochs fit easily, there is time for a second final training, that of the defaults. If
    they do not fit, a shorter final training gets somewhat more than half of the time; if that
    would be very short, there is no search.
    """
    epochs = settings.training.epochs
    full = (speed.training(settings, epochs) + speed.finish) / _PLANNED
    if full <= seconds / 4:
        search = seconds - 2 * full
    elif full <= _FINAL_SHARE * seconds:
        search = seconds - full
    else:
        search = (1 - _FINAL_SHARE) * seconds
        epochs = epochs_within(settings, speed, _FINAL_SHARE * seconds)
    rungs = rungs_below(epochs)
    cut = epochs < min(_FEWEST_EPOCHS, settings.training.epochs)
    # The default through all rungs, and two others.
    least = sum(map(speed.rung, rungs)) + 2 * speed.rung(rungs[0]) if rungs else math.inf
    if cut or search < least:
        epochs, rungs, search = epochs_within(settings, speed, seconds), (), 0.0
    return Schedule(
        settings=settings, epochs=epochs, rungs=rungs, search_seconds=search, speed=speed
    )
