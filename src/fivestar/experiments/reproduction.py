"""Train and evaluate the runs of a table: resumable at any moment, within a time limit.

The settings are data, in `recipes/GRAPH/MODEL.toml`, or `MODEL-DIM.toml` for one dimension, or
shared by a family of graphs (nell-995-h25, -h50, …): the protocol of the paper, which tunes on h25
and uses the result on the other three and at the other dimension.

Each run has its own folder, named by its settings. When it is trained it is evaluated on test and
recorded in the ledger, and never trained again. A process that is killed or reaches its time limit
leaves the folder as it is, and the next one resumes there.

With a time budget per cell, the settings come from a search on validation instead, which every
model gets the same time for (`searches.jsonl`); further seeds use what it has found. What such a
search leaves as it is for a model is in `recipes/search/MODEL.toml`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from fivestar.errors import Diverged, NonFiniteScore, OutputError, Paused
from fivestar.experiments.ledger import Entry, find_entry, read_ledger, record, settings_of
from fivestar.experiments.searches import (
    BudgetClock,
    Search,
    find_search,
    read_searches,
    record_search,
)
from fivestar.files import make_folder, try_file_lock
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.defaults import CURRENT
from fivestar.runs.identity import settings_hash
from fivestar.runs.manifest import MANIFEST
from fivestar.runs.run import Run, load_run
from fivestar.runs.settings import Settings, make_settings, read_values
from fivestar.runs.units import format_duration
from fivestar.training.clock import cpu_time
from fivestar.training.loop import Callback, StepCallback
from fivestar.training.search.time_budget import (
    BudgetWatcher,
    has_budget,
    resume_within,
    train_within,
)
from fivestar.training.train import resume, train

GraphReader = Callable[[str], KnowledgeGraph]
RECIPES = Path(__file__).with_name("recipes")
_PROTOCOL = RECIPES / "protocol.toml"
_SEARCHED = RECIPES / "search"
_FAMILIES = ("nell-995",)
_SEARCH_SEED = 0
# The training settings that a search within a budget takes from its job.
_GIVEN = ("seed", "threads", "precision")


def recipe_file(graph: str, model: str, dim: int | None = None) -> Path | None:
    """Return the recipe of a model on a graph: that of the dimension, if it has one.

    None if the model is trained as published.
    """
    folders = [graph, *(family for family in _FAMILIES if graph.startswith(f"{family}-"))]
    names = [f"{model}-{dim}.toml", f"{model}.toml"]
    files = (RECIPES / folder / name for folder in folders for name in names)
    return next((file for file in files if file.is_file()), None)


def recipe(
    graph: str, model: str, changes: Mapping[str, Mapping[str, Any]], file: Path | None = None
) -> Settings:
    """Return the settings of a model on a graph under the protocol of the tables.

    Args:
        graph: Name of the graph.
        model: Name of the model.
        changes: Settings that win over the recipe, by section.
        file: A settings file instead of the recipe.

    Raises:
        SettingsError: The file or a change is invalid.

    >>> recipe("wn18rr", "fivestar", {"model": {"dim": 50}}).training.num_candidates
    4096
    """
    file = file or recipe_file(graph, model, changes.get("model", {}).get("dim"))
    protocol = _package_values(_PROTOCOL)
    if file is None:
        values = dict(protocol)
    elif file.is_relative_to(RECIPES):
        values = dict(_package_values(file))
    else:
        values = read_values(file)
    version = values.pop("defaults", CURRENT)
    protocol = {section: layer for section, layer in protocol.items() if section != "defaults"}
    merged = _merged({"model": {"name": model}}, protocol, values, changes)
    return make_settings({**merged, "defaults": version}, str(file or f"{model} on {graph}"))


def fixed_settings(model: str, file: Path | None = None) -> dict[str, Any]:
    """Return the settings of a model that a search within a time budget leaves as they are.

    Args:
        model: Name of the model.
        file: A settings file instead of `recipes/search/MODEL.toml`.

    >>> fixed_settings("rotate")
    {'model': {'norm': 'l2'}, 'training': {'regularizer': 'none'}}
    """
    bundled = _SEARCHED / f"{model}.toml"
    if file is None and not bundled.is_file():
        return {}
    fixed = _merged(read_values(file or bundled))
    if isinstance(fixed.get("model"), dict):
        fixed["model"].pop("name", None)
    return {section: values for section, values in fixed.items() if values != {}}


def _merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by section; the last layer with a setting wins, however it is spelled."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.items():
            if not isinstance(values, Mapping):  # make_settings says what is wrong with it
                merged[section] = values
                continue
            spelled = {name.replace("-", "_"): value for name, value in values.items()}
            merged[section] = {**merged.get(section, {}), **spelled}
    return merged


@cache
def _package_values(file: Path) -> Mapping[str, Any]:
    return read_values(file)


@dataclass(frozen=True)
class Job:
    """A run that a table or a figure needs.

    Attributes:
        graph: Name of the graph.
        settings: Its settings; with a budget only those of `_GIVEN` and of `fixed` count.
        seconds: Time to search for all other settings and to train with the best; 0: no search.
        searched_on: The graph and the dimension of the search; None: its own.
        clock: What the time counts.
        fixed: Settings, by section, that are not searched.
    """

    graph: str
    settings: Settings
    seconds: float = 0.0
    searched_on: tuple[str, int] | None = None
    clock: BudgetClock = "wall"
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Graph, model, dimension, seed and budget."""
        model, seed = self.settings.model, self.settings.training.seed
        budget = f" within {format_duration(self.seconds)}" if self.seconds else ""
        return f"{self.graph} {model.name} d={model.dim} seed {seed}{budget}"

    @property
    def cell(self) -> tuple[str, str, int]:
        """Graph, model and dimension."""
        return self.graph, self.settings.model.name, self.settings.model.dim

    @property
    def search_cell(self) -> tuple[str, str, int]:
        """Graph, model and dimension of the search for its settings."""
        graph, dim = self.searched_on or (self.graph, self.settings.model.dim)
        return graph, self.settings.model.name, dim

    @property
    def has_own_search(self) -> bool:
        """Return whether the run itself is the end of the search."""
        own = self.search_cell == self.cell and self.settings.training.seed == _SEARCH_SEED
        return self.seconds > 0 and own

    def folder(self, runs: Path) -> Path:
        """Return the folder of the run within the folder of all runs."""
        model, seed = self.settings.model, self.settings.training.seed
        found_by = settings_hash(self.settings)
        if self.seconds:
            clock = "-cpu" if self.clock == "cpu" else ""
            fixed = f"-{settings_hash(self.settings)}" if self.fixed else ""
            found_by = f"budget{self.seconds:g}{clock}{fixed}"
        return runs / self.graph / f"{model.name}-d{model.dim}-{found_by}-seed{seed}"


class Watcher(Protocol):
    """Receives the progress of the jobs."""

    def started(self, job: Job, number: int, of: int) -> tuple[Callback, StepCallback]:
        """Announce that a run starts or resumes; return its callbacks per epoch and per step."""

    def searching(self, job: Job, number: int, of: int) -> BudgetWatcher:
        """Announce a run within a time budget; return what receives its progress."""

    def recorded(self, job: Job, entry: Entry) -> None:
        """Announce that a run was recorded in the ledger."""

    def failed(self, job: Job, reason: str) -> None:
        """Announce that a run has diverged."""


@dataclass
class Outcome:
    """The jobs by their result."""

    done: list[Entry] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    # Unfinished, in progress in another process, or not started.
    remaining: list[Job] = field(default_factory=list)


@dataclass(frozen=True)
class Budget:
    """The time to search for the settings of a cell and to train with them.

    Attributes:
        seconds: The time.
        clock: What it counts.
        search_on: The graph to search on, for all graphs; None: each on its own.
    """

    seconds: float
    clock: BudgetClock = "wall"
    search_on: str | None = None


def make_jobs(
    graphs: Sequence[str],
    models: Sequence[str],
    dims: Sequence[int],
    seeds: Sequence[int],
    training: Mapping[str, Any] | None = None,
    files: Mapping[str, Path] | None = None,
    budget: Budget | None = None,
) -> list[Job]:
    """Return all runs of a table, in an order that fills every cell before a second seed.

    Args:
        graphs: Names of graphs.
        models: Names of models.
        dims: Dimensions.
        seeds: Random seeds.
        training: Training settings that win over all recipes.
        files: Settings files of some models, instead of their recipes; with a budget, their
            settings are not searched.
        budget: Time per model and graph to search for settings, at the smallest dimension; None:
            use the recipes.
    """
    jobs = []
    for seed, dim, model, graph in product(seeds, dims, models, graphs):
        changes = {"model": {"dim": dim}, "training": {**(training or {}), "seed": seed}}
        file = (files or {}).get(model)
        if budget is not None:
            fixed = fixed_settings(model, file)
            named = _merged({"model": {"name": model}}, fixed, changes)
            settings = make_settings(named, str(file or f"{model} on {graph}"))
            place = budget.search_on or graph, min(dims)
            jobs.append(Job(graph, settings, budget.seconds, place, budget.clock, fixed))
        else:
            settings = recipe(graph, model, changes, file)
            jobs.append(Job(graph, settings))
    # What the others use comes first.
    return jobs if budget is None else sorted(jobs, key=lambda job: not job.has_own_search)


def reproduce(
    jobs: Sequence[Job],
    ledger: Path,
    runs: Path,
    experiment: str,
    read: GraphReader,
    watcher: Watcher,
    minutes: float = 0,
) -> Outcome:
    """Train and evaluate the jobs that are not in the ledger yet.

    Args:
        jobs: The runs.
        ledger: The ledger.
        runs: The folder of the runs; unfinished ones are resumed.
        experiment: Name of the experiment in the ledger.
        read: Loads a graph by name.
        watcher: Receives the progress.
        minutes: Time limit (0: none).
    """
    deadline = time.monotonic() + 60 * minutes if minutes else None
    outcome = Outcome()
    for number, open_job in enumerate(jobs, start=1):
        found = _with_found_settings(open_job, ledger)
        if found is None:
            outcome.remaining.append(open_job)
            continue
        job = _concrete(found, read)
        entry = _recorded(job, ledger)
        if entry is not None:
            outcome.done.append(entry)
            continue
        # A search is not paused: it starts if there is time for all of it.
        if deadline is not None and time.monotonic() + job.seconds >= deadline:
            outcome.remaining.append(job)
            continue
        with _lock(job.folder(runs)) as acquired:
            if not acquired:
                outcome.remaining.append(job)
                continue
            try:
                if job.seconds:
                    search_watcher = watcher.searching(job, number, len(jobs))
                    with cpu_time() if job.clock == "cpu" else nullcontext():
                        run = _search(job, runs, read, search_watcher)
                    if _search_of(job, ledger) is None:
                        record_search(run, job.folder(runs), ledger, job.clock, job.fixed)
                else:
                    on_epoch, on_step = watcher.started(job, number, len(jobs))
                    run = _train(job, runs, read, on_epoch, _until(deadline, on_step))
                entry, _ = record(run, ledger, experiment)
            except Paused:
                outcome.remaining.append(job)
                continue
            except (Diverged, NonFiniteScore) as error:
                watcher.failed(job, str(error))
                outcome.failed.append(job)
                continue
        watcher.recorded(job, entry)
        outcome.done.append(entry)
    return outcome


def train_all(
    jobs: Sequence[Job], runs: Path, read: GraphReader, watcher: Watcher, minutes: float = 0
) -> list[Path] | None:
    """Train all jobs without evaluating on test.

    Returns:
        The folders of the runs; None if the time limit was reached first.

    Raises:
        OutputError: Another process trains one of the jobs.
    """
    deadline = time.monotonic() + 60 * minutes if minutes else None
    jobs = [_concrete(job, read) for job in jobs]
    for number, job in enumerate(jobs, start=1):
        folder = job.folder(runs)
        with _lock(folder) as acquired:
            if not acquired:
                raise OutputError(f"{folder}: another process trains here; wait until it has ended")
            if (folder / MANIFEST).is_file():
                continue
            on_epoch, on_step = watcher.started(job, number, len(jobs))
            try:
                _train(job, runs, read, on_epoch, _until(deadline, on_step))
            except Paused:
                return None
    return [job.folder(runs) for job in jobs]


def _search_of(job: Job, ledger: Path) -> Search | None:
    searches = read_searches(ledger)
    return find_search(searches, job.search_cell, job.seconds, job.clock, job.fixed)


def _recorded(job: Job, ledger: Path) -> Entry | None:
    """Return the line of a job in the ledger, if it is done."""
    if not job.seconds:
        return find_entry(ledger, job.graph, job.settings)
    search = _search_of(job, ledger)
    return None if search is None else _entry_of(search, ledger)


def _entry_of(search: Search, ledger: Path) -> Entry | None:
    """Return the line of the run that a search ended with."""
    key = search.data, search.settings, search.seed
    return next((entry for entry in read_ledger(ledger) if entry.key == key), None)


def _with_found_settings(job: Job, ledger: Path) -> Job | None:
    """Return the job with the settings that a search of another run found; None: not yet."""
    if not job.seconds or job.has_own_search:
        return job
    search = _search_of(job, ledger)
    entry = None if search is None else _entry_of(search, ledger)
    if entry is None:
        return None
    own = job.settings
    settings = found_settings(entry, job.graph, own.model.dim)
    changes = {"seed": own.training.seed, "threads": own.training.threads}
    training = settings.training.model_copy(update=changes)
    return Job(job.graph, settings.model_copy(update={"training": training}))


def found_settings(entry: Entry, graph: str, dim: int) -> Settings:
    """Return the settings that a search ended with, for a graph and a dimension.

    Args:
        entry: The run at the end of the search.
        graph: Name of a graph.
        dim: Embedding dimension.
    """
    found = settings_of(entry)
    if (entry.data, entry.dim) == (graph, dim):
        return found
    # The time limit was for a run of another size.
    training = found.training.model_copy(update={"max_minutes": 0})
    model = found.model.model_copy(update={"dim": dim})
    return found.model_copy(update={"model": model, "training": training})


def _search(job: Job, runs: Path, read: GraphReader, watcher: BudgetWatcher) -> Run:
    """Load the run within a budget if it is complete, else resume or start it."""
    folder = job.folder(runs)
    if (folder / MANIFEST).is_file():
        return load_run(folder)
    if has_budget(folder):
        return resume_within(folder, watcher)
    settings = job.settings
    given = {
        "model": {"name": settings.model.name, "dim": settings.model.dim},
        "training": {name: getattr(settings.training, name) for name in _GIVEN},
    }
    values = _merged(job.fixed, given)
    budget = dt.timedelta(seconds=job.seconds)
    return train_within(read(job.graph), values, budget, folder, watcher)


def _concrete(job: Job, read: GraphReader) -> Job:
    """Return the job with the defaults that depend on the graph, which is read only for these."""
    if job.settings.is_concrete or job.seconds:
        return job
    return Job(job.graph, job.settings.for_graph(read(job.graph)))


def _lock(folder: Path) -> AbstractContextManager[bool]:
    """Lock the folder of a run, so that several processes can share the jobs."""
    make_folder(folder.parent)
    return try_file_lock(folder.with_name(f".{folder.name}.lock"))


def _train(
    job: Job, runs: Path, read: GraphReader, on_epoch: Callback, on_step: StepCallback
) -> Run:
    """Load the run if it is complete, else resume or start its training."""
    folder = job.folder(runs)
    if (folder / MANIFEST).is_file():
        return load_run(folder)
    if folder.exists():
        return resume(folder, on_epoch, on_step)
    return train(read(job.graph), job.settings, folder, on_epoch, on_step)


def _until(deadline: float | None, on_step: StepCallback) -> StepCallback:
    """Return a step callback that also pauses the training at the deadline."""

    def step(epochs: float) -> None:
        on_step(epochs)
        if deadline is not None and time.monotonic() >= deadline:
            raise Paused("the time limit is reached")

    return step
