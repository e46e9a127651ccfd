"""`fivestar.train`, `resume`, `search` and `evaluate`: from a graph to a `TrainedModel`."""

from __future__ import annotations

import datetime as dt
import inspect
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fivestar.errors import GraphWarning, SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.negatives import with_negatives
from fivestar.graph.reading import read_graph
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS
from fivestar.notebook import html_table
from fivestar.prediction.evaluate import Metrics
from fivestar.prediction.predictions import (
    Split,
)
from fivestar.prediction.progress import TrainingProgress, shows_progress
from fivestar.prediction.trained_model import TrainedModel, load
from fivestar.runs.remote import locate_run
from fivestar.runs.run import read_begun_run
from fivestar.runs.settings import Settings, TrainingSettings, make_settings
from fivestar.spelling import closest_names, did_you_mean
from fivestar.training import loop
from fivestar.training import train as training
from fivestar.training.trackers.base import Tracker
from fivestar.training.trackers.tracking import Tracking
from fivestar.training.validation import StageCallback, with_validation

if TYPE_CHECKING:
    from fivestar.training.search.space import Space
    from fivestar.training.search.trials import Pruner, Sampler, Tried, Watcher

PathLike = str | os.PathLike[str]
SettingsLike = Settings | Mapping[str, Any]


def train(  # noqa: PLR0913
    source: Any = None,
    settings: SettingsLike | None = None,
    out: PathLike | None = None,
    *,
    valid: float | None = None,
    negatives: Any = None,
    refit: bool = False,
    warm_start: PathLike | None = None,
    entity_vectors: Any = None,
    freeze_entities: bool = False,
    budget: str | dt.timedelta | None = None,
    budget_models: Sequence[str] = (),
    budget_dims: Sequence[int] = (),
    progress: bool | None = None,
    trackers: Sequence[str | Tracker] = (),
    on_epoch: loop.Callback | None = None,
    on_step: loop.StepCallback | None = None,
    on_stage: StageCallback | None = None,
    **options: Any,
) -> TrainedModel:
    """Train a model on a graph.

    Args:
        source: a `KnowledgeGraph`, or anything `read_graph` reads: a path, the name of a dataset,
            a DataFrame, a list of (head, relation, tail). Without validation triples, some of the
            training triples are held out: `model.graph.valid` holds them.
        settings: `Settings`, or a mapping with the sections "model" and "training".
        out: a new folder for the model; it can be resumed and loaded from there.
        valid: how many triples to hold out for validation, as a share or a number; 0 for none. By
            default 5 %, at least 100 and at most 10,000, but never more than a fifth.
        negatives: triples that are known to be false, as anything `read_graph` reads; names must be
            those of the graph. With the objectives negative-sampling and margin, half of the
            negatives of a query are sampled from them, where it has some.
        refit: finally retrain on train and valid for the best number of epochs. The metrics stay
            those from before the refit.
        warm_start: the folder or address of a trained model to start from, on the same graph or
            another one: embeddings of entities and relations with the same names are kept. Its
            settings are the default.
        entity_vectors: vectors of entities to start from, matched by name: a file (.parquet, .npz,
            .npy, .safetensors, word2vec as .txt, .vec or .bin), the folder of a trained model, a
            mapping from names to vectors, or an array with a row per entity. Entities without a
            training fact get, after training, the embedding that their vector predicts; with
            "labels" only these, from vectors made of the labels. What was used is in
            `model.metrics["entity_vectors"]`.
        freeze_entities: do not train these vectors.
        budget: time for everything, such as "10m": settings that are not given are searched by
            validation, and the best are trained to the end. Needs the extra "search".
        budget_models: models to choose from within the budget, the first being the default.
        budget_dims: dimensions to choose from within the budget, the first being the default.
        progress: show a progress bar. By default only on a terminal and in notebooks.
        trackers: what logs the training: "csv:FILE", "tensorboard", "mlflow", "wandb", one of a
            package, or your own `fivestar.Tracker`. A tracker that fails only causes a warning.
        on_epoch: called with a line of history after each epoch.
        on_step: called after each step with the number of epochs done, fractions included.
        on_stage: called with ("validation" or "calibration", queries done, queries in all), and
            with ("refit", 0, epochs) when a refit starts.
        **options: settings by name, such as `model="complex"`, `dim=50`, `epochs=20`, `lr=0.05`,
            `batch_size=512`. They override `settings`.

    Returns:
        The model with the best validation MRR, or that of the last epoch without validation.

    Raises:
        SettingsError: if a setting is unknown or invalid, or settings contradict each other.

    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> model = train(facts, dim=4, epochs=2)
    >>> model.graph
    KnowledgeGraph('graph': 4 entities, 1 relations, 10 / 2 / 0 triples)
    """
    if budget is None and (budget_models or budget_dims):
        raise SettingsError("budget_models and budget_dims need a budget")
    unusable = {
        "warm_start": warm_start is not None,
        "entity_vectors": entity_vectors is not None,
        "freeze_entities": freeze_entities,
        "refit": refit,
    }
    if budget is not None and any(unusable.values()):
        given = next(name for name, is_given in unusable.items() if is_given)
        raise SettingsError(
            f"a budget chooses settings and trains once, from scratch: omit {given}"
        )
    if warm_start is not None:
        warm_start = locate_run(warm_start)
        settings = read_begun_run(warm_start)[1] if settings is None else settings
    values = merge_settings(settings, options | ({"refit": True} if refit else {}))
    graph = _graph(source)
    if negatives is not None:
        graph = with_negatives(graph, negatives)
    validated = with_validation(graph, valid, warm_start)
    if validated.warning:
        warnings.warn(validated.warning, GraphWarning, stacklevel=2)
    if budget is not None:
        return _train_within(
            validated.graph,
            values,
            budget,
            out,
            (budget_models, budget_dims),
            Tracking(trackers),
            callbacks=(on_epoch, on_step),
        )
    chosen = make_settings(values) if isinstance(values, Mapping) else values
    with _display(chosen, progress=progress) as shown:
        on_epoch, on_step, on_stage = shown.wrap(on_epoch, on_step, on_stage)
        run = training.train(
            validated.graph,
            chosen,
            out,
            on_epoch,
            on_step,
            warm_start,
            on_stage,
            trackers=trackers,
            entity_vectors=entity_vectors,
            freeze_entities=freeze_entities,
        )
    return TrainedModel.of(run)


def resume(
    folder: PathLike,
    *,
    progress: bool | None = None,
    trackers: Sequence[str | Tracker] = (),
    query_groups: int | None = None,
    on_epoch: loop.Callback | None = None,
    on_step: loop.StepCallback | None = None,
    on_stage: StageCallback | None = None,
) -> TrainedModel:
    """Resume a training that was interrupted; the result is as if it had not been.

    A training within a time budget continues its search or its final training; the time it used
    before counts.

    Args:
        folder: the folder of the run.
        progress: as for `train`.
        trackers: as for `train`; those that were given before continue where they stopped.
        query_groups: query groups of the processes that resume; by default as many as before if
            that divides the number of processes, else 1.
        on_epoch: as for `train`.
        on_step: as for `train`.
        on_stage: as for `train`.

    Returns:
        The trained model.

    Raises:
        SourceNotFound: if there is no such run.
        DamagedCheckpoint: if its checkpoint cannot be read.
    """
    from fivestar.training.search import time_budget  # noqa: PLC0415  (slow to import)

    if time_budget.has_budget(Path(folder)):
        watcher = time_budget.Quiet(on_epoch, on_step)
        tracking = Tracking(trackers)
        run = time_budget.resume_within(folder, watcher)
        training.track_trained(run, Path(folder), tracking)
        return TrainedModel.of(run)
    _, settings = read_begun_run(Path(folder))
    with _display(settings, progress=progress) as shown:
        callbacks = shown.wrap(on_epoch, on_step, on_stage)
        return TrainedModel.of(training.resume(folder, *callbacks, trackers, query_groups))


def evaluate(model: TrainedModel | PathLike, split: Split = "test", **arguments: Any) -> Metrics:
    """Evaluate a trained model, or the one in a folder, on a split.

    Args:
        model: a `TrainedModel`, or the folder of one.
        split: which triples to rank.
        **arguments: as for `TrainedModel.evaluate`.

    Returns:
        Metrics by name.

    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> 0 < evaluate(train(facts, dim=4, epochs=2), "valid")["mrr"] <= 1
    True
    """
    trained = model if isinstance(model, TrainedModel) else load(model)
    return trained.evaluate(split, **arguments)


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes:
        settings: those with the best validation MRR; None if no trial is complete.
        best: the trial with these settings.
        trials: all trials.
        importances: share of the differences in MRR that each setting explains.
    """

    settings: Settings | None
    best: Tried | None
    trials: list[Tried]
    importances: dict[str, float]

    def __repr__(self) -> str:
        shown = "" if self.best is None else f", best validation MRR {self.best.mrr:.4f}"
        return f"SearchResult({len(self.trials)} trials{shown})"

    def _repr_html_(self) -> str:
        rows = [
            (
                str(trial.number),
                trial.state,
                "" if trial.mrr is None else f"{trial.mrr:.4f}",
                ", ".join(f"{name.partition('.')[2]} {v}" for name, v in trial.point.items()),
            )
            for trial in sorted(self.trials, key=lambda trial: -(trial.mrr or 0))
        ]
        return html_table(("trial", "state", "valid MRR", "settings"), rows)


def search(  # noqa: PLR0913
    source: Any = None,
    settings: SettingsLike | None = None,
    *,
    space: str | Space = "small",
    trials: int = 12,
    minutes: float = 0,
    trial_minutes: float = 0,
    sampler: Sampler = "tpe",
    pruner: Pruner = "median",
    storage: PathLike | None = None,
    out: PathLike | None = None,
    watcher: Watcher | None = None,
    **options: Any,
) -> SearchResult:
    """Search for the settings with the best validation MRR (Optuna). Test is never used.

    Args:
        source: a graph with validation triples, as for `train`.
        settings: settings that are not searched.
        space: what to search: "paper", "small", a TOML file, or a
            `fivestar.training.search.space.Space`.
        trials: number of trials of the study, in all processes together.
        minutes: stop after this long; 0 for no limit.
        trial_minutes: limit per trial; 0 for no limit.
        sampler: "tpe", or "grid" for all points of the space.
        pruner: "median", "halving" or "none".
        storage: the journal file of the study, which can be resumed and shared by processes. By
            default a temporary file.
        out: a TOML file for the best settings, written after each trial.
        watcher: notified when a trial begins and ends.
        **options: settings by name, as for `train`; a setting given here is not searched.

    Returns:
        All trials and the best settings.

    Raises:
        SettingsError: if the graph has no validation triples, or settings are invalid.
        MissingExtra: without the extra `search`.
    """
    from fivestar.training.search.space import read_space  # noqa: PLC0415
    from fivestar.training.search.study import Search  # noqa: PLC0415  (slow to import)
    from fivestar.training.search.time_budget import Quiet  # noqa: PLC0415
    from fivestar.training.search.trials import Plan  # noqa: PLC0415

    graph = _graph(source)
    values = merge_settings(settings, options)
    base = make_settings(values) if isinstance(values, Mapping) else values
    searched = read_space(space, graph.name) if isinstance(space, str) else space
    for section, given in _by_section(options).items():
        for name in given:
            searched = searched.without(f"{section}.{name}")
    plan = Plan(
        *(graph, base.for_graph(graph), searched, trials, sampler, pruner),
        trial_minutes=trial_minutes,
        minutes=minutes,
    )
    temporary = tempfile.TemporaryDirectory(prefix="fivestar-") if storage is None else None
    with temporary or nullcontext("") as folder:
        study = Search(plan, Path(folder) / "study.journal" if storage is None else Path(storage))
        study.run(watcher or Quiet(), None if out is None else Path(out))
        settings, best = study.best() or (None, None)
        return SearchResult(settings, best, study.tried(), study.importances())


def merge_settings(settings: SettingsLike | None, options: Mapping[str, Any]) -> SettingsLike:
    """Return settings with flat options merged in; `Settings` without options stay as they are.

    >>> merge_settings({"model": {"name": "complex"}}, {"dim": 8, "lr": 0.1})
    {'model': {'name': 'complex', 'dim': 8}, 'training': {'lr': 0.1}}
    """
    if not options and isinstance(settings, Settings):
        return settings
    if isinstance(settings, Settings):
        settings = settings.model_dump(exclude_unset=True)
    merged: dict[str, Any] = dict(settings or {})
    model = merged.get("model", {})
    _check_options(options, model if isinstance(model, Mapping) else {})
    for section, given in _by_section(options).items():
        current = merged.get(section, {})
        if given:
            merged[section] = {str(k).replace("-", "_"): v for k, v in current.items()} | given
    return merged


def _check_options(options: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Refuse arguments that are no settings, with the closest one that is."""
    name = options.get("model", model.get("name", "fivestar"))
    if not isinstance(name, str) or name not in MODELS:
        return  # the settings say what is wrong
    known = ["model", "dim", *TrainingSettings.model_fields, *options_of(MODELS[name])]
    for option in options:
        if option not in known:
            own = [*known, *inspect.signature(train).parameters]
            near = did_you_mean(closest_names(option, own))
            raise SettingsError(f"unknown argument {option!r}{near}")


def _by_section(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Sort flat options into the sections of the settings; `model` is the name of the model."""
    sections: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    for name, value in options.items():
        is_training = name in TrainingSettings.model_fields
        key = "name" if name == "model" else name
        sections["training" if is_training else "model"][key] = value
    return sections


def _graph(source: Any) -> KnowledgeGraph:
    return source if isinstance(source, KnowledgeGraph) else read_graph(source)


def _display(settings: Settings, *, progress: bool | None) -> TrainingProgress:
    return TrainingProgress(settings.training.epochs, enabled=shows_progress(progress=progress))


def _train_within(
    graph: KnowledgeGraph,
    values: SettingsLike,
    budget: str | dt.timedelta,
    out: PathLike | None,
    choices: tuple[Sequence[str], Sequence[int]],
    tracking: Tracking,
    *,
    callbacks: tuple[loop.Callback | None, loop.StepCallback | None],
) -> TrainedModel:
    from fivestar.training.search import time_budget  # noqa: PLC0415  (slow to import)

    if isinstance(values, Settings):
        values = values.model_dump(exclude_unset=True)
    watcher = time_budget.Quiet(*callbacks)
    run = time_budget.train_within(graph, values, budget, out, watcher, *choices)
    training.track_trained(run, None if out is None else Path(out), tracking)
    return TrainedModel.of(run)


def _show_settings(function: Any) -> None:
    """List the settings in the signature, for help() and completion in notebooks."""
    shown = inspect.signature(function)
    own = [p for p in shown.parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in own}
    settings = {"model": "str", "dim": "int"} | {
        name: inspect.formatannotation(field.annotation)
        for name, field in TrainingSettings.model_fields.items()
    }
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
        for name, kind in settings.items()
        if name not in names
    ]
    rest = [p for p in shown.parameters.values() if p.kind is p.VAR_KEYWORD]
    function.__signature__ = shown.replace(parameters=[*own, *more, *rest])


_show_settings(train)
_show_settings(search)
