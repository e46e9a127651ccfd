"""The folder of a run: self-contained, hashed, and never half written.

settings.toml           all settings, with defaults filled in
graph/                  the training graph (Parquet)
checkpoint.safetensors  the state from which training resumes
checkpoint-EPOCH-STEP/  the same of several processes that share the entity table
entity_vectors.safetensors  given vectors of entities, until the run is complete
origin.safetensors      the initial weights of a warm start with a refit, until it is complete
model.safetensors       the trained weights
metrics.json  history.jsonl  README.md
snapshots/              the weights at chosen epochs
trials.jsonl            the settings that were compared within a time budget
cache/                  layouts that the server has computed; not in the manifest
trackers.json           how trackers continue after an interruption (optional)
history.csv  tensorboard/  the history for CSV and TensorBoard (optional)
manifest.json           hashes of the files that must not change; written last
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, load_file
from torch import Tensor

from fivestar.errors import DamagedRun, OutputError, SettingsError, SourceNotFound
from fivestar.files import (
    atomic_file,
    atomic_folder,
    check_plain_folder,
    file_hash,
    make_folder,
    remove_leftovers,
    try_file_lock,
    write_atomic,
)
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.storage import load_graph, save_graph
from fivestar.models import conversion
from fivestar.models.base import Model
from fivestar.models.fivestar import Denominator
from fivestar.models.registry import make_model
from fivestar.models.sharding import Shard, own_shard
from fivestar.runs.defaults import as_saved
from fivestar.runs.manifest import FORMAT, MANIFEST, VERSION, verified_files
from fivestar.runs.metrics_file import read_history, read_metrics
from fivestar.runs.model_card import model_card
from fivestar.runs.remote import locate_run
from fivestar.runs.settings import (
    ModelSettings,
    Settings,
    TrainingSettings,
    make_settings,
    read_values,
)
from fivestar.version import __version__

CHECKPOINT = "checkpoint.safetensors"
CACHE = "cache"
WEIGHTS = "model.safetensors"
HISTORY = "history.jsonl"
SNAPSHOTS = "snapshots"
# Given vectors of entities, because a resumed run needs them and not their source.
VECTORS = "entity_vectors.safetensors"
# Of a training within a time budget: all trials, and the working files of the search.
TRIALS = "trials.jsonl"
WORK = "search"
# Larger files of weights are mapped into memory instead of read: a model may be larger than memory.
_MAP_ABOVE = 1 << 30
# What trackers write.
TRACKED = ("trackers.json", "history.csv", "tensorboard")
# Held while a process writes to the run, and who that is.
_LOCK, _OWNER = ".lock", ".owner"
_DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


@dataclass(frozen=True)
class Run:
    """A trained model with its graph, settings, metrics and history."""

    graph: KnowledgeGraph
    settings: Settings
    model: Model
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_refit(self) -> bool:
        """Return whether the model was finally trained on the validation triples, too."""
        return "refit" in self.metrics

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the run in a new folder, for `load` and every command."""
        self.model.shard.require_whole()
        with atomic_folder(folder) as draft:
            _write_beginning(self.graph, self.settings, draft)
            save_run(self, draft)


def build_model(graph: KnowledgeGraph, settings: Settings, shard: Shard | None = None) -> Model:
    """Build the model that the settings describe, sized for the graph.

    Args:
        graph: The graph.
        settings: The settings.
        shard: The rows of the entity table that the model has; by default those of this process.
    """
    chosen = settings.model
    shard = shard or own_shard(len(graph.entities))
    relations = len(graph.relations) * (2 if settings.training.reciprocals else 1)
    model = make_model(chosen.name, len(shard), relations, chosen.dim, **chosen.options)
    model.shard = shard
    return model.eval()


def begin_run(
    graph: KnowledgeGraph,
    settings: Settings,
    folder: str | os.PathLike[str],
    prepare: Callable[[Path], None] | None = None,
) -> Path:
    """Create the folder of a new run with its graph and settings.

    Args:
        graph: The graph.
        settings: The settings.
        folder: The folder; it must not exist.
        prepare: Called with the folder before it becomes visible, to write what resuming needs.

    Raises:
        OutputError: The folder exists or cannot be written.
        SettingsError: The settings would not be the same when they are read again.
    """
    with atomic_folder(folder) as draft:
        _write_beginning(graph, settings, draft)
        if prepare is not None:
            prepare(draft)
    return Path(folder)


def _write_beginning(graph: KnowledgeGraph, settings: Settings, folder: Path) -> None:
    save_graph(graph, folder / "graph")
    write_atomic(folder / "settings.toml", settings.as_toml().encode())
    if _read_run_settings(folder) != settings:
        raise SettingsError("the settings cannot be saved: they would not be read back as they are")


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run while something is written into its folder.

    The operating system releases it when the process ends, however it ends.

    Raises:
        OutputError: Another process holds it, or the folder cannot be written.
        DamagedRun: The folder holds links, pipes or devices.
    """
    check_plain_folder(folder)
    owner = folder / _OWNER
    try:
        remove_leftovers(folder)
        with try_file_lock(folder / _LOCK) as is_free:
            if not is_free:
                who = owner.read_text(encoding="utf-8") if owner.is_file() else "another process"
                raise OutputError(f"{folder}: {who} writes to this run; wait until it has ended")
            write_atomic(owner, f"process {os.getpid()} on {platform.node()}".encode())
            try:
                yield
            finally:
                owner.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def read_begun_run(folder: Path) -> tuple[KnowledgeGraph, Settings]:
    """Load the graph and settings of a run, whether its training has ended or not."""
    settings = _read_run_settings(folder)
    return load_graph(folder / "graph"), settings


def _read_run_settings(folder: Path) -> Settings:
    path = folder / "settings.toml"
    if not path.is_file():
        raise SourceNotFound(f"{folder} is not the folder of a run: it has no settings.toml")
    return make_settings(as_saved(read_values(path)), str(path))


def save_run(run: Run, folder: Path) -> None:
    """Save model, metrics and history; the manifest, written last, completes the run.

    Processes that share the entity table all call this; the first one writes.
    """
    save_weights(run.model, folder / WEIGHTS)
    if not run.model.shard.is_first:
        return
    save_history(run.history, folder)
    for name, content in {
        "metrics.json": json.dumps(run.metrics, indent=1).encode(),
        "README.md": model_card(run, _read_trials(folder)).encode(),
    }.items():
        write_atomic(folder / name, content)
    hashed = sorted(path for path in folder.rglob("*") if _is_hashed(path, folder))
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "fivestar": __version__,
        "files": {path.relative_to(folder).as_posix(): file_hash(path) for path in hashed},
    }
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def save_history(history: list[dict[str, Any]], folder: Path) -> None:
    """Save the history so far."""
    text = "".join(json.dumps(line) + "\n" for line in history)
    write_atomic(folder / HISTORY, text.encode())


def save_snapshot(model: Model, folder: Path, epoch: int) -> None:
    """Save the weights of an epoch."""
    make_folder(folder / SNAPSHOTS)
    save_weights(model, _snapshot(folder, epoch))


def save_weights(model: Model, path: Path) -> None:
    """Write the weights of a model; of processes that share its entity table, the first writes."""
    parts = {} if model.shard.is_whole else {"entities": model.shard.parts(model.entities)}
    if not model.shard.is_first:
        deque(parts.get("entities", ()), maxlen=0)
        return
    whole = {
        name: (model.num_entities, *table.shape[1:]) if name in parts else tuple(table.shape)
        for name, table in model.state_dict().items()
    }
    write_tensors(path, model.state_dict(), shapes=whole, parts=parts)


def load_run(
    folder: str | os.PathLike[str],
    epoch: int | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
) -> Run:
    """Load a trained run and verify the hashes of its files.

    Args:
        folder: The folder of the run, or its address (see `fivestar.push`).
        epoch: Load the snapshot of this epoch (see `snapshot_epochs`) instead of the final weights.
        weights: Map this copy of the weights into memory, shared by all processes that do so,
            instead of reading them; nobody may change it.

    Raises:
        SourceNotFound: There is no such folder, address or snapshot.
        DamagedRun: A file is missing or has changed, or training has not ended.
        DownloadFailed: The run of an address cannot be downloaded.
    """
    path = locate_run(folder)
    verified = verified_files(path, unused=() if weights is None else (WEIGHTS,))
    settings = _read_run_settings(path)
    # Each file is hashed once: those of the graph are normally listed by the run.
    graph = load_graph(path / "graph", verify="graph/train.parquet" not in verified)
    model = build_model(graph, settings)
    tables = path / WEIGHTS if epoch is None else _snapshot(path, epoch)
    if not tables.exists():
        epochs = ", ".join(map(str, settings.training.snapshot_epochs)) or "none"
        raise SourceNotFound(f"{path} has no snapshot of epoch {epoch}; it has {epochs}")
    try:
        if weights is not None:
            model.load_state_dict(load_file(weights), assign=True)
        elif not model.shard.is_whole:
            model.load_state_dict(_read_shard(tables, model.shard))
        elif tables.stat().st_size > _MAP_ABOVE:
            model.load_state_dict(load_file(tables), assign=True)
        else:
            model.load_state_dict(load(tables.read_bytes()))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedRun(
            f"{path}: its files do not match one another ({error}); train it again"
        ) from error
    check_finite(model, path)
    metrics, history = read_metrics(path / "metrics.json"), read_history(path / HISTORY)
    return Run(graph, settings, model, metrics, history)


def check_finite(model: Model, folder: Path) -> None:
    """Refuse weights that are not finite: their scores and ranks would mean nothing.

    Raises:
        DamagedRun: There are such weights.
    """
    for name, table in model.state_dict().items():
        if not is_finite(table):
            raise DamagedRun(
                f"{folder}: its {name} hold values that are not finite; train it again"
            )


def is_finite(table: Tensor) -> bool:
    """Return whether all numbers of a table are finite, in memory that does not depend on it."""
    if not table.numel():
        return True
    extremes = torch.stack(torch.aminmax(table))  # NaN if any number is
    return bool(torch.isfinite(extremes).all())


def convert_to_fivestar(
    run: Run, score: conversion.Score | None = None, denominator: Denominator = "mobius"
) -> Run:
    """Return the same run as a 5★E, with the same scores or (pRotatE) the same ranks.

    Its settings say how the original model was trained; its metrics say which model that was.

    Args:
        run: A run of a model that 5★E contains.
        score: The score of the 5★E (by default the one that reproduces the model's scores).
        denominator: The denominator of the 5★E.

    Raises:
        ConversionImpossible: 5★E does not contain the model.
    """
    converted = conversion.to_fivestar(run.model, score, denominator)
    model = ModelSettings(name="fivestar", dim=converted.dim, **converted.options)
    settings = Settings(model=model, training=run.settings.training)
    origin = {
        "converted_from": run.settings.model.model_dump(exclude_none=True),
        "score_scale": converted.scale,
        "score_shift": converted.shift,
    }
    keys = ["epochs", "seconds"]
    if run.is_refit:  # it was trained on the validation triples: their metrics remain
        keys += ["best_epoch", "valid", "refit"]
    metrics = {key: run.metrics[key] for key in keys if key in run.metrics}
    return replace(run, settings=settings, model=converted.model, metrics=metrics | origin)


def import_from_pykeen(model: Any, triples_factory: Any) -> Run:
    """Return a run of a 5★E, TransE, RotatE, DistMult or ComplEx that was trained in PyKEEN.

    Args:
        model: The PyKEEN model.
        triples_factory: The PyKEEN triples factory that it was trained on.

    Raises:
        ConversionImpossible: The model is not supported.
    """
    imported = conversion.from_pykeen(model, triples_factory)
    settings = Settings(
        model=ModelSettings(name=imported.name, dim=imported.dim, **imported.options),
        training=TrainingSettings(objective="softmax", reciprocals=imported.reciprocals),
    )
    return Run(imported.graph, settings, imported.model, {"from": "pykeen"})


def _snapshot(folder: Path, epoch: int) -> Path:
    return folder / SNAPSHOTS / f"epoch-{epoch}.safetensors"


def _is_hashed(path: Path, folder: Path) -> bool:
    """Return whether the manifest lists a file: not working files and unfinished ones."""
    first = path.relative_to(folder).parts[0]
    return (
        path.is_file()
        and first not in {MANIFEST, CHECKPOINT, VECTORS, WORK, CACHE, *TRACKED}
        and not first.startswith("checkpoint-")
        and not path.name.startswith(".")
    )


def _read_trials(folder: Path) -> list[dict[str, Any]]:
    path = folder / TRIALS
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def _read_shard(path: Path, shard: Shard) -> dict[str, Tensor]:
    """Read the weights of a model, of the entity table only the rows of the shard."""
    with safe_open(path, framework="pt") as file:
        return {
            name: file.get_slice(name)[shard.start : shard.stop]
            if name == "entities"
            else file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118
        }


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    notes: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    parts: Mapping[str, Iterable[Tensor]] | None = None,
) -> None:
    """Write a safetensors file atomically.

    The functions of the safetensors library either hold the whole file in memory or leave a
    temporary file behind when killed, so the format is written here: the length of the header, the
    header, the tensors.

    Args:
        path: The file; replaced if it exists.
        tensors: Tensors by name.
        notes: Metadata of the header.
        shapes: The shapes to write, where they are not those of the tensors.
        parts: For tensors that are larger than what is given, all their rows, in order.
    """
    header: dict[str, Any] = {"__metadata__": dict(notes)} if notes else {}
    end = 0
    # The widest types first, so that the offset of each tensor is a multiple of its width.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    for name, tensor in ordered:
        shape = tuple(tensor.shape) if shapes is None else shapes[name]
        begin, end = end, end + math.prod(shape) * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as draft, draft.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name, tensor in ordered:
            for part in (parts or {}).get(name, [tensor]):
                file.write(part.detach().cpu().contiguous().numpy().data)
