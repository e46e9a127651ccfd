"""Train a run from beginning to end: train or resume, refit if that is set, and save.

A refit trains the same settings from the start once more, on the triples of train and valid, for as
many epochs as validation found best. Seed and learning-rate schedule are those of the first
training: with a decay to 0 at epoch 100 and a best epoch of 60, the refit follows the same decay
and stops at epoch 60, where the rate is not yet 0. A schedule cut to 60 epochs would be another one
than validation has chosen. Nothing is held out any more, so the metrics and the calibration of the
first training are kept, marked as such.

A run is in one of two phases, recorded in its checkpoint: the first checkpoint of the refit
replaces the last one of the first training, so a run killed at any moment resumes in its phase.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fivestar.errors import FivestarError, SettingsError, TrackingWarning
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.sharding import own_shard
from fivestar.runs.manifest import MANIFEST
from fivestar.runs.run import (
    CHECKPOINT,
    VECTORS,
    Run,
    begin_run,
    load_run,
    read_begun_run,
    run_lock,
    save_run,
)
from fivestar.runs.settings import Settings, make_settings
from fivestar.training.checkpoint import find_checkpoint
from fivestar.training.entity_vectors import EntityVectors, fill_unseen, match_vectors
from fivestar.training.loop import ORIGIN, Callback, StepCallback, Trainer
from fivestar.training.processes import join_processes, num_launched
from fivestar.training.trackers.base import TrackedRun, Tracker
from fivestar.training.trackers.tracking import Tracking
from fivestar.training.validation import StageCallback

_NOTE = (
    "valid and calibration were measured before the refit, on a model that had not been trained on "
    "the validation triples; the refit was trained for best_epoch epochs"
)

_ONE_PROCESS = "a training that starts from given entity vectors needs one process"


def train(  # noqa: PLR0913
    graph: KnowledgeGraph,
    settings: Settings | Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    source: str | os.PathLike[str] | None = None,
    on_stage: StageCallback | None = None,
    *,
    trackers: Sequence[str | Tracker] = (),
    entity_vectors: Any = None,
    freeze_entities: bool = False,
) -> Run:
    """Train a model on a graph.

    Args:
        graph: the graph.
        settings: settings of the run; by default those of `source`.
        out: new folder for the run.
        on_epoch: called with one line of history after each epoch.
        on_step: called with the epochs done after each step.
        source: folder of a run to start from (warm start).
        on_stage: called with the progress of validation, calibration and refit.
        trackers: trackers, or texts such as `csv:history.csv`.
        entity_vectors: vectors to start from (see `match_vectors`).
        freeze_entities: do not train these vectors.

    Returns:
        The run with the best validation MRR, else the last epoch.

    Raises:
        SettingsError: if the settings do not fit the graph, the model or the device.
        Diverged: if the loss is not finite.
        TrackingFailed: if a tracker cannot start.
    """
    _check_start(source, entity_vectors, freeze_entities=freeze_entities)
    if source is not None and settings is None:
        settings = read_begun_run(Path(source))[1]
    if not isinstance(settings, Settings):
        settings = make_settings(settings or {})
    settings = settings.for_graph(graph)
    join_processes(settings.training.device)
    folder = None if out is None else Path(out)
    tracking = Tracking(trackers)
    trainer = Trainer(graph, settings, folder)  # first, because it checks the settings
    if source is not None:
        _warm_start(trainer, Path(source))
    if entity_vectors is not None:
        vectors = match_vectors(entity_vectors, graph, trainer.model, frozen=freeze_entities)
        trainer.use_vectors(vectors)
    is_first = trainer.model.shard.is_first
    if folder is None:
        if is_first:
            tracking.start(_tracked(trainer))
        return finish(trainer, on_epoch, on_step, on_stage, tracking=tracking)

    def prepare(draft: Path) -> None:
        _save_start(trainer, draft)
        tracking.start(_tracked(trainer), draft)

    if is_first:
        begin_run(graph, trainer.settings, folder, prepare)
    elif source is not None:
        trainer.save_checkpoint(folder=folder)  # its rows, as the first process does in `prepare`
    trainer.model.shard.wait()
    with run_lock(folder) if is_first else nullcontext():
        return finish(trainer, on_epoch, on_step, on_stage, tracking=tracking)


def _check_start(source: object, entity_vectors: object, *, freeze_entities: bool) -> None:
    """Refuse starts that contradict each other, or that need one process."""
    if freeze_entities and entity_vectors is None:
        raise SettingsError("freeze_entities needs entity_vectors, which are then not trained")
    if source is not None and entity_vectors is not None:
        raise SettingsError("a warm start has vectors of its own: omit entity_vectors")
    if num_launched() == 1:
        return
    if entity_vectors is not None:
        raise SettingsError(_ONE_PROCESS)


def _warm_start(trainer: Trainer, source: Path) -> None:
    if trainer.training.refit and num_launched() > 1:
        raise SettingsError("a warm start with refit needs one process")
    trainer.warm_start(source)


def _save_start(trainer: Trainer, draft: Path) -> None:
    """Write what a training begins with: a resumed run must not start from scratch."""
    if trainer.source is not None:
        if trainer.training.refit:
            trainer.save_checkpoint(ORIGIN, draft)
        trainer.save_checkpoint(folder=draft)
    if trainer.vectors is not None:
        trainer.vectors.save(draft)


def resume(
    folder: str | os.PathLike[str],
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    on_stage: StageCallback | None = None,
    trackers: Sequence[str | Tracker] = (),
    query_groups: int | None = None,
) -> Run:
    """Resume an interrupted training; the result is the same as without the interruption.

    A complete run is loaded and returned as it is: there is nothing to resume. The number of
    processes may be another one than before, and so may `query_groups`: by default as many as
    before if that divides the number of processes, else 1. Trackers that tracked the run before
    continue.
    """
    path = Path(folder)
    tracking = Tracking(trackers)
    if (path / MANIFEST).exists():
        return load_run(path)
    graph, settings = read_begun_run(path)
    settings = _regrouped(settings, query_groups)
    join_processes(settings.training.device)
    shard = own_shard(len(graph.entities))
    with run_lock(path) if shard.is_first else nullcontext():
        shard.wait()  # only a process that has the lock may begin
        if (path / MANIFEST).exists():  # another process has just completed it
            return load_run(path)
        trainer = Trainer(graph, settings, path)
        vectors = EntityVectors.load(path, len(graph.entities))
        if vectors is not None:
            if num_launched() > 1:
                raise SettingsError(_ONE_PROCESS)
            trainer.use_vectors(vectors)
        if find_checkpoint(path / CHECKPOINT) is not None:
            trainer.resume()
        if shard.is_first:
            tracking.start(_tracked(trainer))
        return finish(trainer, on_epoch, on_step, on_stage, tracking=tracking)


def _regrouped(settings: Settings, query_groups: int | None) -> Settings:
    """Return the settings with query groups that suit the processes which resume a run."""
    training = settings.training
    if query_groups is None:
        divides = num_launched() % training.query_groups == 0
        query_groups = training.query_groups if divides else 1
    changes = {"query_groups": query_groups}
    return settings.model_copy(update={"training": training.model_copy(update=changes)})


def finish(
    trainer: Trainer,
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    on_stage: StageCallback | None = None,
    more: Callable[[], Mapping[str, Any]] = dict,
    tracking: Tracking | None = None,
) -> Run:
    """Train to the end, refit if that is set, and save the run; `more` returns further metrics."""
    tracking = tracking or Tracking()
    metrics: dict[str, Any] = {}

    def log(line: dict[str, Any]) -> None:
        tracking.log(line)
        if on_epoch is not None:
            on_epoch(line)

    with tracking.ended(lambda: metrics):
        run = _finish(trainer, log, on_step, on_stage, more)
        metrics = run.metrics
    return run


def _finish(
    trainer: Trainer,
    on_epoch: Callback,
    on_step: StepCallback | None,
    on_stage: StageCallback | None,
    more: Callable[[], Mapping[str, Any]],
) -> Run:
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
        (trainer.folder / VECTORS).unlink(missing_ok=True)
        trainer.model.shard.wait()  # the run is complete in all processes
    return run


def track_trained(run: Run, folder: Path | None, tracking: Tracking) -> None:
    """Track a run that is trained: within a time budget, only the chosen training is tracked.

    It is too late to refuse: a tracker that cannot start causes a warning.
    """
    try:
        tracking.start(_tracked_run(run.graph, run.settings, folder, []))
    except FivestarError as error:
        warnings.warn(f"the training is complete, but not tracked: {error}", TrackingWarning, 2)
        return
    for line in run.history:
        tracking.log(line)
    tracking.finish(run.metrics, "finished")


def _tracked(trainer: Trainer) -> TrackedRun:
    """Return what trackers get to know of a training."""
    history = list(trainer.progress.history)
    return _tracked_run(trainer.graph, trainer.settings, trainer.folder, history)


def _tracked_run(
    graph: KnowledgeGraph, settings: Settings, folder: Path | None, history: list[dict[str, Any]]
) -> TrackedRun:
    values = {
        f"{section}.{name}": value
        for section, values in settings.model_dump(exclude_none=True).items()
        for name, value in values.items()
    }
    name = folder.name if folder is not None else f"{graph.name}-{settings.model.name}"
    return TrackedRun(name, folder, {"graph": graph.name, **values}, history)


def _metrics(trainer: Trainer) -> dict[str, Any]:
    """Return the metrics of a run; those of its best epoch are not measured again."""
    progress, validation = trainer.progress, trainer.validation
    metrics: dict[str, Any] = {"epochs": progress.epoch, "seconds": progress.seconds}
    if progress.origin:
        metrics["started_from"] = progress.origin
    best = progress.best_metrics
    if validation and not best:
        best = validation.rank(trainer.model)
    if trainer.vectors is not None:
        filled = fill_unseen(trainer.model, trainer.vectors, trainer.facts)
        metrics["entity_vectors"] = {**trainer.vectors.origin, "filled": filled}
        if filled and validation:
            metrics["entity_vectors"]["valid_before_filling"] = best
            best = validation.rank(trainer.model)
    if validation:
        metrics["best_epoch"] = progress.best_epoch or progress.epoch
        metrics["valid"] = best
        metrics["validation"] = validation.size()
        metrics["calibration"] = validation.calibrate(trainer.model)
    return metrics


def _refit_metrics(trainer: Trainer) -> dict[str, Any]:
    """Return the metrics of the training before the refit, marked as such."""
    progress, before = trainer.progress, trainer.progress.before_refit
    if trainer.vectors is not None:
        fill_unseen(trainer.model, trainer.vectors, trainer.facts)
    refit = {
        "note": _NOTE,
        "epochs": progress.epoch,
        "seconds": progress.seconds - before["seconds"],
        "train_triples": len(trainer.facts),
    }
    return {**before, "seconds": progress.seconds, "refit": refit}
