"""Train within a time budget: search for settings, then train with the best of them.

The default settings are the first arm, and they are trained to the end as well if there is time: of
the final trainings, the one with the best validation MRR is the result. Decision 17 explains how
the time is divided.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError
from fivestar.extras import require
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.run import WORK, Run, begin_run, read_begun_run, run_lock
from fivestar.runs.settings import make_settings
from fivestar.runs.units import parse_duration
from fivestar.training.clock import now
from fivestar.training.loop import Trainer
from fivestar.training.search.budget_phases import Phases, default_trainer
from fivestar.training.search.budget_state import (
    BudgetWatcher,
    Clock,
    Quiet,
    Request,
    State,
    has_budget,
    load_state,
)

__all__ = ["BudgetWatcher", "Quiet", "has_budget", "resume_within", "train_within"]


def train_within(
    graph: KnowledgeGraph,
    values: Mapping[str, Any],
    budget: str | dt.timedelta,
    out: str | os.PathLike[str] | None,
    watcher: BudgetWatcher,
    models: Sequence[str] = (),
    dims: Sequence[int] = (),
    seconds_used: float = 0.0,
) -> Run:
    """Choose settings and train with them, within a time.

    Args:
        graph: with validation triples.
        values: the settings that are not searched, as nested mappings.
        budget: the time for everything, as in `10m`.
        out: a new folder for the run, or None.
        watcher: receives the progress.
        models: models to choose from; empty: the one of `values`.
        dims: dimensions to choose from; empty: the one of `values`.
        seconds_used: seconds of the budget used before this call.

    Returns:
        The run with the best validation MRR.

    Raises:
        SettingsError: if no setting is left to search, or there are no validation triples.
    """
    began = now()
    request = _request(graph, values, parse_duration(budget), models, dims)
    trainer, startup = default_trainer(graph, request, 0)  # raises if the settings are invalid
    with _folder(graph, trainer, State(request=request), out) as folder:
        seconds_used += now() - began
        with _working(folder, request.seconds, seconds_used) as clock:
            phases = Phases(folder, graph, watcher, clock, saved=out is not None)
            return phases.complete((trainer, startup))


def resume_within(
    folder: str | os.PathLike[str], watcher: BudgetWatcher, seconds_used: float = 0.0
) -> Run:
    """Resume a training within a time budget; the time used before counts."""
    place = Path(folder)
    with _working(place, load_state(place).request.seconds, seconds_used) as clock:
        graph, _ = read_begun_run(place)
        return Phases(place, graph, watcher, clock, saved=True).complete(None)


def _request(
    graph: KnowledgeGraph,
    values: Mapping[str, Any],
    seconds: float,
    models: Sequence[str],
    dims: Sequence[int],
) -> Request:
    require("optuna", "search", "a time budget")
    if not len(graph.valid):
        raise SettingsError(
            "a budget chooses settings by validation: give a graph with validation triples"
        )
    given = values.get("model", {})
    named = {str(key).replace("-", "_") for key in given}
    if models and "name" in named:
        raise SettingsError("give model or budget-models, not both")
    if dims and "dim" in named:
        raise SettingsError("give dim or budget-dims, not both")
    sections = [{**values, "model": {**given, "name": model}} for model in models] or [dict(values)]
    first, *_ = [make_settings(each) for each in sections]
    if first.training.max_minutes:
        raise SettingsError("a budget limits the time: omit max_minutes")
    if first.training.refit:
        raise SettingsError("a budget trains once, on train alone: omit refit")
    if first.training.snapshot_epochs:
        raise SettingsError("a budget chooses the number of epochs: omit snapshot_epochs")
    if not first.training.epochs or not first.training.evaluate_every:
        raise SettingsError("a budget needs epochs and evaluate_every above 0")
    chosen = tuple(dict.fromkeys(models)) or (first.model.name,)
    return Request(values=dict(values), seconds=seconds, models=chosen, dims=tuple(dims))


@contextmanager
def _folder(
    graph: KnowledgeGraph, trainer: Trainer, state: State, out: str | os.PathLike[str] | None
) -> Iterator[Path]:
    if out is not None:
        # A folder without its state would be resumed as an ordinary training.
        yield begin_run(graph, trainer.settings, out, prepare=state.save)
        return
    with tempfile.TemporaryDirectory(prefix="fivestar-") as draft:
        state.save(Path(draft))
        yield Path(draft)


@contextmanager
def _working(folder: Path, seconds: float, seconds_used: float) -> Iterator[Clock]:
    """Lock a run and start its clock; remove the work folder when the run is complete."""
    work = folder / WORK
    with run_lock(folder):
        # A killed process may have left Optuna's own lock, which would block.
        (work / "journal.lock").unlink(missing_ok=True)
        with Clock(work / "clock", seconds, seconds_used) as clock:
            yield clock
        shutil.rmtree(work, ignore_errors=True)
