"""Checkpoints: everything that training needs to resume, in one file.

The file is written under another name, synced and renamed, so that there is a complete one at every
moment. The order of the data follows from the seed and the epoch, so epoch and step are all that is
saved of it. Tensors are in safetensors; nothing is pickled.

The header holds a hash of the tensors and of the progress, and what the checkpoint belongs to: the
graph, the settings and the seed. Checkpoints of version 1 had neither; they are read, too. Nothing
is used before everything is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fivestar.errors import DamagedCheckpoint
from fivestar.models.base import Model
from fivestar.runs.run import is_finite, write_tensors
from fivestar.runs.settings import TrainingSettings
from fivestar.training.progress import Progress, progress_of
from fivestar.training.sharded_checkpoint import (
    load_folder,
    newest_folder,
    read_folder_progress,
    remove_folders,
    save_folder,
)

# Copies of the weights besides those that are trained: the best so far, and their average.
Part = Literal["best", "average"]
WeightCopies = dict[Part, dict[str, Tensor]]
FORMAT = "fivestar-checkpoint"
VERSION = 2
# The share of the time since the last checkpoint that one at the end of an epoch may take, and the
# seconds that it may take anyway.
WRITING_SHARE = 0.1
_SHORT_WRITE = 1.0


class CheckpointSchedule:
    """When checkpoints are due; times are seconds of training, without those of writing.

    At the end of an epoch, unless the last checkpoint took long to write for its interval, as those
    of large tables do; and, within an epoch, too, when a number of minutes has passed.
    """

    def __init__(self, training: TrainingSettings) -> None:
        self.training = training
        self._write_seconds = 0.0  # of the last checkpoint; 0 until one is written
        self._last = Progress()

    def record(self, progress: Progress, write_seconds: float) -> None:
        """Record that a checkpoint of this progress has just been written or read."""
        self._last, self._write_seconds = replace(progress), write_seconds

    def has(self, progress: Progress) -> bool:
        """Return whether the last checkpoint is of this progress."""
        return _order(self._last) == _order(progress)

    def is_due(self, progress: Progress) -> bool:
        """Return whether one is due by time."""
        return self._seconds_since(progress) >= 60 * self.training.checkpoint_minutes

    def is_due_after_epoch(self, progress: Progress) -> bool:
        """Return whether one is due at the end of an epoch."""
        longest = max(_SHORT_WRITE, WRITING_SHARE * self._seconds_since(progress))
        is_short = self._write_seconds <= longest
        return is_short and progress.epoch % self.training.checkpoint_every == 0

    def _seconds_since(self, progress: Progress) -> float:
        return progress.seconds - self._last.seconds


def save_checkpoint(
    path: Path,
    identity: str,
    model: Model,
    optimizer: torch.optim.Optimizer,
    copies: WeightCopies,
    progress: Progress,
) -> None:
    """Replace the checkpoint; if that fails, the previous one remains.

    If several processes share the entity table, each calls this, and a folder beside `path` takes
    its place (`sharded_checkpoint`).
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for part, tables in copies.items():
        tensors |= {f"{part}.{name}": tensor for name, tensor in tables.items()}
    for number, table in enumerate(_tables(optimizer)):
        for name, value in optimizer.state[table].items():
            tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value)
    if not model.shard.is_whole:
        sharded = [name for name in tensors if _has_entity_rows(name, tensors[name], model)]
        save_folder(path.parent, identity, model.shard, tensors, sharded, progress)
        if model.shard.is_first:
            path.unlink(missing_ok=True)
        return
    if not model.shard.is_first:  # it has the same weights as the first one
        return
    text = json.dumps(asdict(progress))
    notes = {
        "format": FORMAT,
        "version": str(VERSION),
        "run": identity,
        "progress": text,
        "hash": _hash(tensors, text),
    }
    write_tensors(path, tensors, notes)
    remove_folders(path.parent)


def find_checkpoint(path: Path) -> Path | None:
    """Return the checkpoint to resume from: the file or the folder beside it, or None.

    If there are both, training was killed before the older one was removed.
    """
    folder = newest_folder(path.parent)
    if folder is None or not path.exists():
        return folder or (path if path.exists() else None)
    return max((path, folder), key=lambda found: _order(read_progress(found)))


def _order(progress: Progress) -> tuple[bool, int, int]:
    return bool(progress.before_refit), progress.epoch, progress.step


def read_progress(path: Path) -> Progress:
    """Read the progress of a checkpoint without its tensors."""
    with _checked(path):
        if path.is_dir():
            return read_folder_progress(path)
        with safe_open(path, framework="pt") as file:
            return progress_of(json.loads(_notes(file)["progress"]))


def load_checkpoint(
    path: Path,
    identity: str,
    model: Model,
    optimizer: torch.optim.Optimizer,
    new_table: Callable[[Tensor], Tensor] = torch.empty_like,
) -> tuple[Progress, WeightCopies]:
    """Load model and optimizer state; return the progress and the other copies of the weights.

    Args:
        path: The checkpoint, a file or a folder; of tables by entity, the rows of the model's shard
            are loaded.
        identity: What it must belong to: graph, settings and seed.
        model: The model; filled if the whole checkpoint is valid.
        optimizer: Its optimizer; likewise.
        new_table: Makes a table like the given one, for copies of the entity table.

    Raises:
        DamagedCheckpoint: It has changed since it was written, belongs to another run, or does not
            fit the model.
    """
    with _checked(path):
        if path.is_dir():
            progress, tensors = load_folder(path, identity, model.shard)
            return progress, _restore(tensors, model, optimizer, new_table)
        with safe_open(path, framework="pt") as file:
            notes = _notes(file)
            if notes.get("run", identity) != identity:
                raise ValueError("it belongs to a run with another graph, settings or seed")
            # The tensors are mapped into memory and checked one at a time.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if "hash" in notes and _hash(tensors, notes["progress"]) != notes["hash"]:
                raise ValueError("it has changed since it was written")
            tensors = {name: _local_rows(name, x, model) for name, x in tensors.items()}
            progress = progress_of(json.loads(notes["progress"]))
            return progress, _restore(tensors, model, optimizer, new_table)


def _restore(
    tensors: Mapping[str, Tensor],
    model: Model,
    optimizer: torch.optim.Optimizer,
    new_table: Callable[[Tensor], Tensor],
) -> WeightCopies:
    """Check all tensors, then fill model and optimizer; return the other copies of the weights."""
    weights, tables = model.state_dict(), _tables(optimizer)
    shapes = _expected_shapes(weights, optimizer, list(tensors))
    for name, tensor in tensors.items():
        _check_tensor(name, tensor, shapes[name])
    for name, table in weights.items():
        table.copy_(tensors[f"model.{name}"])
    for name in _names(tensors, "optimizer."):
        number, key = name.split(".", 1)
        table, state = tables[int(number)], tensors[f"optimizer.{name}"]
        if key in optimizer.state[table]:
            optimizer.state[table][key].copy_(state)
            continue
        # Counters of steps stay on the CPU.
        device = table.device if state.ndim else torch.device("cpu")
        optimizer.state[table][key] = state.to(device, copy=True)

    def copied(name: str, tensor: Tensor) -> Tensor:
        new = new_table if name == "entities" else torch.empty_like
        return new(weights[name]).copy_(tensor)

    return {
        part: {
            name: copied(name, tensors[f"{part}.{name}"]) for name in _names(tensors, f"{part}.")
        }
        for part in get_args(Part)
    }


def _has_entity_rows(name: str, tensor: Tensor, model: Model) -> bool:
    """Return whether a tensor of a checkpoint has one row per entity of this process."""
    part, _, rest = name.partition(".")
    if part == "optimizer":
        number = [parameter is model.entities for parameter in model.parameters()].index(True)
        return rest.startswith(f"{number}.") and tensor.ndim > 0
    return rest == "entities"


def _local_rows(name: str, tensor: Tensor, model: Model) -> Tensor:
    """Return the rows of the model's shard of a tensor by entity, any other tensor as it is."""
    if model.shard.is_whole or not _has_entity_rows(name, tensor, model):
        return tensor
    if len(tensor) != model.num_entities:
        raise ValueError(f"{name} has {len(tensor):,} rows, not {model.num_entities:,}")
    return tensor[model.shard.start : model.shard.stop]


@contextmanager
def _checked(path: Path) -> Iterator[None]:
    """Turn everything that can be wrong with a checkpoint into one error."""
    try:
        yield
    except (
        OSError,
        SafetensorError,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        RuntimeError,
        RecursionError,
    ) as error:
        raise _damaged(path, error) from error


def _notes(file: Any) -> dict[str, str]:
    """Return the metadata of a checkpoint of a version that can be read."""
    notes = file.metadata() or {}
    if "format" not in notes:  # version 1
        return {"progress": notes["progress"]}
    if (notes["format"], notes["version"]) != (FORMAT, str(VERSION)):
        raise ValueError(
            f"it is {notes['format']} {notes['version']}, this fivestar reads {FORMAT} {VERSION}"
        )
    for name in ("run", "hash", "progress"):
        notes[name]  # a KeyError if it is missing
    return notes


def _expected_shapes(
    weights: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, names: Sequence[str]
) -> dict[str, tuple[torch.Size, ...]]:
    """Return the shapes that each tensor of a checkpoint may have."""
    tables = _tables(optimizer)
    shapes: dict[str, tuple[torch.Size, ...]] = {}
    for name in names:
        part, _, rest = name.partition(".")
        if part == "optimizer":
            number, _, key = rest.partition(".")
            table = tables[int(number)]
            state = optimizer.state[table].get(key)  # some optimizers have none before a step
            shapes[name] = (table.shape, torch.Size()) if state is None else (state.shape,)
        elif part in ("model", *get_args(Part)):
            shapes[name] = (weights[rest].shape,)
        else:
            raise ValueError(f"it holds an unknown tensor {name!r}")
    for part in ("model", *get_args(Part)):
        present = set(_names(names, f"{part}."))
        if present != set(weights) and (present or part == "model"):
            raise ValueError("the tables differ from those of this model")
    return shapes


def _check_tensor(name: str, tensor: Tensor, shapes: tuple[torch.Size, ...]) -> None:
    if tensor.shape not in shapes:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {tuple(shapes[0])}")
    if tensor.dtype not in (torch.float32, torch.float64, torch.int64):
        raise ValueError(f"{name} is of type {tensor.dtype}")
    if not is_finite(tensor):
        raise ValueError(f"{name} holds values that are not finite")


def _hash(tensors: Mapping[str, Tensor], progress: str) -> str:
    digest = hashlib.blake2b(progress.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tuple(tensors[name].shape)} ".encode())
        digest.update(tensors[name].detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, error: Exception) -> DamagedCheckpoint:
    return DamagedCheckpoint(
        f"{path}: cannot be resumed from ({error}); train again into another folder"
    )


def load_optimizer_state(path: Path) -> dict[int, dict[str, Tensor]]:
    """Load the optimizer state of each parameter of a checkpoint, by its number."""
    states: dict[int, dict[str, Tensor]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in _names(file.keys(), "optimizer."):
                number, key = name.split(".", 1)
                states.setdefault(int(number), {})[key] = file.get_tensor(f"optimizer.{name}")
    except (OSError, SafetensorError, ValueError) as error:
        raise DamagedCheckpoint(
            f"{path}: cannot be read ({error}); without that file, training starts with a "
            "new optimizer state"
        ) from error
    return states


def _tables(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [table for group in optimizer.param_groups for table in group["params"]]


def _names(keys: Iterable[str], prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
