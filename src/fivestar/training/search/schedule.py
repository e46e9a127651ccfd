"""Measure the speed of training on this machine, and schedule a time budget.

The learning rate decays over the epochs of a training, so their number must be known before the
first trial starts: it is derived from a short measurement, with a margin.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fivestar.errors import Paused
from fivestar.evaluation.report import evaluate
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.runs.settings import Settings
from fivestar.runs.units import format_duration
from fivestar.training.checkpoint import WRITING_SHARE
from fivestar.training.clock import now
from fivestar.training.loop import Trainer
from fivestar.training.search.space import with_point
from fivestar.training.search.trials import REDUCTION, rungs_below

# Share of the time that is scheduled; the rest is a margin.
_PLANNED = 0.93
# A search takes at least half as long as a training; if there is time for this many trainings, the
# default settings are trained to the end as well.
_LEAST, _PLENTY = 1.5, 3.0
# With fewer epochs than this, the first rungs show little, and a search takes more than it gives.
_FEWEST_EPOCHS = 18
# Validations may take this share of a training.
_SHARE_OF_VALIDATION = 0.15
# Measured, in validations: calibration ranks at most this many facts, and sorts what it ranks.
_CALIBRATED, _CALIBRATION_COST = 1500, 2.0
# A run has this many small files; to sync one takes about as long as a small checkpoint does.
_FILES, _LONGEST_SYNC = 6, 0.5
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


class Schedule(BaseModel):
    """The schedule of one model."""

    model_config = ConfigDict(frozen=True)

    settings: Settings  # the defaults, with the number of epochs that fits
    fits: bool  # whether one epoch does
    rungs: tuple[int, ...]  # epochs at which trials are compared; empty: no search
    search_seconds: float
    until: float = 0.0  # when the search ends, in seconds of the budget
    speed: Speed

    def describe(self) -> str:
        """Return the schedule as text."""
        model, speed = self.settings.model.name, self.speed
        text = f"{model}: an epoch takes about {_seconds_text(speed.epoch)}"
        if not self.fits:
            return (
                f"{text}, more than is left of the budget: training with the default settings "
                "until the time is over, without a search"
            )
        text += f", a validation {_seconds_text(speed.validation)}"
        epochs = self.settings.training.epochs
        if not self.rungs:
            return f"{text}: only time for {epochs} epochs with the default settings, no search"
        rungs = " and ".join(map(str, self.rungs))
        return (
            f"{text}: settings are compared after {rungs} epochs, the best are trained for {epochs}"
        )


def measure(trainer: Trainer, startup: float, allowed: float, folder: Path) -> Speed:
    """Time some steps, part of a validation and a checkpoint of a training.

    Args:
        trainer: a new trainer; it cannot be used afterwards.
        startup: seconds it took to build the trainer.
        allowed: seconds for the steps; at least a few steps are taken.
        folder: folder for a checkpoint.
    """
    times = [now()]

    def on_step(epochs: float) -> None:
        times.append(now())
        enough = len(times) > _FEWEST_STEPS and times[-1] - times[0] >= allowed
        if enough or epochs >= 1:
            raise Paused("measured")

    with suppress(Paused):
        trainer.run(on_step=on_step)
    skipped = 1 if len(times) > 2 else 0  # the first step is slower
    step = (times[-1] - times[skipped]) / (len(times) - 1 - skipped)
    began = now()
    trainer.folder = folder
    trainer.save_checkpoint()
    checkpoint = now() - began
    known, validation = _validation(trainer)
    calibrated = min(1.0, _CALIBRATED / len(trainer.graph.valid))
    files = 2 * checkpoint + _FILES * min(checkpoint, _LONGEST_SYNC)
    finish = validation * (1 + _CALIBRATION_COST * calibrated) + 2 * known + files
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
    began = now()
    known = KnownAnswers.of(with_reciprocals(graph.facts, len(graph.relations)))
    indexed = now() - began
    count = 64
    while True:
        sample = Triples.of(valid.array[:: max(1, len(valid) // count)])
        began = now()
        evaluate(trainer.model, graph, sample, known, trainer.sizes.score_bytes)
        seconds = now() - began
        if seconds >= _LONG_ENOUGH or len(sample) == len(valid):
            return indexed, seconds * len(valid) / len(sample)
        count *= 4


def schedule(settings: Settings, fixed: frozenset[str], speed: Speed, seconds: float) -> Schedule:
    """Divide the time between search and final training.

    Args:
        settings: the default settings; their epochs are an upper bound.
        fixed: settings that the user has chosen.
        speed: speed of the default settings.
        seconds: time for search and final training.

    Returns:
        The number of epochs that leaves half as much time as a training for the search; if that is
        very few, the number that uses all of the time, without a search.
    """
    settings = _paced(settings, fixed, speed, settings.training.epochs)
    epochs = epochs_within(settings, speed, seconds / _LEAST)
    planned = _paced(settings, fixed, speed, max(1, epochs))
    rungs = rungs_below(epochs, planned.training.evaluate_every)
    if not rungs or epochs < min(_FEWEST_EPOCHS, settings.training.epochs):
        longest = epochs_within(settings, speed, seconds)
        planned = _paced(settings, fixed, speed, max(1, longest))
        return Schedule(
            settings=planned, fits=longest > 0, rungs=(), search_seconds=0.0, speed=speed
        )
    whole = speed.training(planned, epochs) + speed.finish
    rest = whole - speed.training(planned, rungs[-1])  # of what has reached the last rung
    finals = 2 if _PLENTY * whole <= seconds else 1
    search = seconds - finals * rest / _PLANNED
    return Schedule(settings=planned, fits=True, rungs=rungs, search_seconds=search, speed=speed)


def _paced(settings: Settings, fixed: frozenset[str], speed: Speed, epochs: int) -> Settings:
    """Return the settings with a number of epochs, and matching validations and checkpoints.

    There is a validation after a ninth of the epochs or, if that takes too much time, a third.
    """
    training = settings.training
    every, checkpoint = training.evaluate_every, training.checkpoint_every
    if "training.evaluate_every" not in fixed:
        rarest = math.ceil(speed.validation / (_SHARE_OF_VALIDATION * speed.epoch))
        rarest = min(rarest, epochs // REDUCTION)
        every = max(rarest, min(every, round(epochs / REDUCTION**2)), 1)
    if "training.checkpoint_every" not in fixed:
        rarest = math.ceil(speed.checkpoint / (WRITING_SHARE * speed.epoch))
        checkpoint = min(epochs, max(rarest, checkpoint))
    patience = training.patience
    if "training.patience" not in fixed:  # as many epochs as before
        patience = math.ceil(patience * training.evaluate_every / every)
    return with_point(
        settings,
        {
            "training.epochs": epochs,
            "training.evaluate_every": every,
            "training.checkpoint_every": checkpoint,
            "training.patience": patience,
        },
    )


def epochs_within(settings: Settings, speed: Speed, seconds: float) -> int:
    """Return the number of epochs, up to that of the settings, that fit the time; may be 0."""
    for epochs in range(settings.training.epochs, 0, -1):
        if speed.training(settings, epochs) + speed.finish <= _PLANNED * seconds:
            return epochs
    return 0


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(seconds)
