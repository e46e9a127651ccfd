"""The end of a training: its metrics, and if set a refit on train and valid.

A refit trains the same settings from the start once more, on all facts of train and valid, for as
many epochs as validation found best. Seed and learning-rate schedule are those of the first
training: with a decay to 0 at epoch 100 and a best epoch of 60, the refit follows the same decay
and stops at epoch 60, where the rate is not yet 0. A schedule cut to 60 epochs would be another one
than validation has chosen. Nothing is held out any more, so the metrics and the calibration of the
first training are kept, marked as such.

A run is in one of two phases, and its checkpoint says in which: the first checkpoint of the refit
replaces the last one of the first training, so a run killed at any moment resumes in its phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fivestar.runs.run import Run, save_run
from fivestar.training.validation import StageCallback

if TYPE_CHECKING:
    from fivestar.training.loop import Callback, StepCallback, Trainer

# The weights that a run with `--from` begins with, kept until its refit has begun with them, too.
ORIGIN = "origin.safetensors"
_NOTE = (
    "valid and calibration were measured before the refit, on a model that had not been trained on "
    "the validation triples; the refit was trained for best_epoch epochs"
)


def finish(
    trainer: Trainer,
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    on_stage: StageCallback | None = None,
    more: Callable[[], Mapping[str, Any]] = dict,
) -> Run:
    """Train to the end, refit if that is set, and save the run; `more` gives further metrics."""
    trainer.validation.on_stage = on_stage
    if not trainer.progress.before_refit:
        trainer.run(on_epoch, on_step)
        metrics = _metrics(trainer)
        if trainer.training.refit:
            trainer.begin_refit(metrics)
    if trainer.progress.before_refit:
        if on_stage is not None:
            on_stage("refit", 0, trainer.last_epoch)
        trainer.run(on_epoch, on_step)
        metrics = _refit_metrics(trainer)
    metrics |= more()
    history = trainer.progress.history
    run = Run(trainer.graph, trainer.settings, trainer.model, metrics, history)
    if trainer.folder is not None:
        (trainer.folder / ORIGIN).unlink(missing_ok=True)
        save_run(run, trainer.folder)
    return run


def _metrics(trainer: Trainer) -> dict[str, Any]:
    """Return the metrics of a run; those of its best epoch are not measured again."""
    progress, validation = trainer.progress, trainer.validation
    metrics: dict[str, Any] = {"epochs": progress.epoch, "seconds": progress.seconds}
    if progress.origin:
        metrics["started_from"] = progress.origin
    if validation:
        metrics["best_epoch"] = progress.best_epoch or progress.epoch
        metrics["valid"] = progress.best_metrics or validation.rank(trainer.model)
        metrics["validation"] = validation.size()
        metrics["calibration"] = validation.calibrate(trainer.model)
    return metrics


def _refit_metrics(trainer: Trainer) -> dict[str, Any]:
    """Return the metrics of the training before the refit, marked as such."""
    progress, before = trainer.progress, trainer.progress.before_refit
    refit = {
        "note": _NOTE,
        "epochs": progress.epoch,
        "seconds": progress.seconds - before["seconds"],
        "train_triples": len(trainer.facts),
    }
    return {**before, "seconds": progress.seconds, "refit": refit}
