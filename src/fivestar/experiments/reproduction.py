"""Running what a table needs: resumable at any moment, and no longer than one says.

A run is trained in a folder of its own, named by what it is. When it has ended it is ranked on test
and stands in the ledger, and is never trained again. A process that is killed, or whose time is
over, leaves the folder as it is, and the next one goes on there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from fivestar.errors import Diverged, NonFiniteScore, OutputError, Paused
from fivestar.experiments.ledger import Entry, record, recorded
from fivestar.experiments.recipes import recipe
from fivestar.files import try_file_lock
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.identity import settings_hash
from fivestar.runs.run import MANIFEST, Run, load_run
from fivestar.runs.settings import Settings
from fivestar.training.loop import Callback, StepCallback, resume, train

GraphReader = Callable[[str], KnowledgeGraph]


@dataclass(frozen=True)
class Job:
    """A run that a table needs."""

    graph: str
    settings: Settings

    @property
    def title(self) -> str:
        """As a person says it."""
        model, seed = self.settings.model, self.settings.training.seed
        return f"{self.graph} {model.name} d={model.dim} seed {seed}"

    def folder(self, runs: Path) -> Path:
        """Where it is trained."""
        model, seed = self.settings.model, self.settings.training.seed
        name = f"{model.name}-d{model.dim}-{settings_hash(self.settings)}-seed{seed}"
        return runs / self.graph / name


class Watcher(Protocol):
    """What somebody who waits wants to know."""

    def begins(self, job: Job, number: int, of: int) -> tuple[Callback, StepCallback]:
        """A run begins or goes on; what to call after each epoch and step."""

    def ended(self, job: Job, entry: Entry) -> None:
        """A run is in the ledger."""

    def failed(self, job: Job, why: str) -> None:
        """A run has diverged."""


@dataclass
class Outcome:
    """What became of the jobs."""

    done: list[Entry] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    # Begun by this process or another one, or not begun.
    left: list[Job] = field(default_factory=list)


def jobs_of(
    graphs: Sequence[str],
    models: Sequence[str],
    dims: Sequence[int],
    seeds: Sequence[int],
    training: Mapping[str, Any] | None = None,
    files: Mapping[str, Path] | None = None,
) -> list[Job]:
    """All runs of a table, those first that fill it soonest: every cell once before a second seed.

    `training` changes settings of all of them; `files` are settings for some models, instead of
    the recipes.
    """
    jobs = []
    for seed, dim, model, graph in product(seeds, dims, models, graphs):
        changes = {"model": {"dim": dim}, "training": {**(training or {}), "seed": seed}}
        settings = recipe(graph, model, changes, (files or {}).get(model))
        jobs.append(Job(graph, settings))
    return jobs


def reproduce(
    jobs: Sequence[Job],
    ledger: Path,
    runs: Path,
    experiment: str,
    read: GraphReader,
    watcher: Watcher,
    minutes: float = 0,
) -> Outcome:
    """Train and rank what is not in the ledger yet, for at most so many minutes if not 0."""
    ends = time.monotonic() + 60 * minutes if minutes else None
    outcome = Outcome()
    for number, open_job in enumerate(jobs, start=1):
        job = _concrete(open_job, read)
        entry = recorded(ledger, job.graph, job.settings)
        if entry is not None:
            outcome.done.append(entry)
            continue
        if ends is not None and time.monotonic() >= ends:
            outcome.left.append(job)
            continue
        with _alone_in(job.folder(runs)) as mine:
            if not mine:
                outcome.left.append(job)
                continue
            on_epoch, on_step = watcher.begins(job, number, len(jobs))
            try:
                run = _trained(job, runs, read, on_epoch, _until(ends, on_step))
                entry, _ = record(run, ledger, experiment)
            except Paused:
                outcome.left.append(job)
                continue
            except (Diverged, NonFiniteScore) as error:
                watcher.failed(job, str(error))
                outcome.failed.append(job)
                continue
        watcher.ended(job, entry)
        outcome.done.append(entry)
    return outcome


def train_all(
    jobs: Sequence[Job], runs: Path, read: GraphReader, watcher: Watcher, minutes: float = 0
) -> list[Path] | None:
    """The folders of the jobs, all trained; none if the time was over first.

    Nothing is ranked on test.
    """
    ends = time.monotonic() + 60 * minutes if minutes else None
    jobs = [_concrete(job, read) for job in jobs]
    for number, job in enumerate(jobs, start=1):
        folder = job.folder(runs)
        with _alone_in(folder) as mine:
            if not mine:
                raise OutputError(f"{folder}: another process trains here; wait until it has ended")
            if (folder / MANIFEST).is_file():
                continue
            on_epoch, on_step = watcher.begins(job, number, len(jobs))
            try:
                _trained(job, runs, read, on_epoch, _until(ends, on_step))
            except Paused:
                return None
    return [job.folder(runs) for job in jobs]


def _concrete(job: Job, read: GraphReader) -> Job:
    """Return the job with the defaults that depend on the graph, which is read only for these."""
    if job.settings.is_concrete:
        return job
    return Job(job.graph, job.settings.for_graph(read(job.graph)))


def _alone_in(folder: Path) -> AbstractContextManager[bool]:
    """Held while a run is trained, so that two processes share the work and not a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return try_file_lock(folder.with_name(f".{folder.name}.lock"))


def _trained(
    job: Job, runs: Path, read: GraphReader, on_epoch: Callback, on_step: StepCallback
) -> Run:
    folder = job.folder(runs)
    if (folder / MANIFEST).is_file():
        return load_run(folder)
    if folder.exists():
        return resume(folder, on_epoch, on_step)
    return train(read(job.graph), job.settings, folder, on_epoch, on_step)


def _until(ends: float | None, on_step: StepCallback) -> StepCallback:
    """The same, but it pauses the training when the time is over."""

    def step(epochs: float) -> None:
        on_step(epochs)
        if ends is not None and time.monotonic() >= ends:
            raise Paused("the time is over")

    return step
