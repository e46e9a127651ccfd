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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fivestar.errors import DamagedCheckpoint
from fivestar.models.base import Model
from fivestar.runs.run import write_tensors

# Copies of the weights besides those that are trained: the best so far, and their average.
Part = Literal["best", "average"]
WeightCopies = dict[Part, dict[str, Tensor]]
FORMAT = "fivestar-checkpoint"
VERSION = 2


@dataclass
class Progress:
    """The progress of training. The history holds one line per epoch."""

    epoch: int = 0  # epochs done
    seconds: float = 0.0
    # Of the epoch under way: steps and triples done, the sum of their losses, and its seconds.
    step: int = 0
    triples: int = 0
    loss: float = 0.0
    epoch_seconds: float = 0.0
    # By validation: all metrics of the best epoch, so that it need not be ranked again.
    best_mrr: float = -1.0
    best_epoch: int = 0
    best_metrics: dict[str, Any] = field(default_factory=dict)
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    # What was taken over from another run before the first epoch.
    origin: dict[str, Any] = field(default_factory=dict)
    # In a refit: the metrics of the training before it.
    before_refit: dict[str, Any] = field(default_factory=dict)


_PROGRESS = TypeAdapter(Progress)


def save_checkpoint(
    path: Path,
    identity: str,
    model: Model,
    optimizer: torch.optim.Optimizer,
    copies: WeightCopies,
    progress: Progress,
) -> None:
    """Replace the checkpoint; if that fails, the previous one remains."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for part, tables in copies.items():
        tensors |= {f"{part}.{name}": tensor for name, tensor in tables.items()}
    for number, table in enumerate(_tables(optimizer)):
        for name, value in optimizer.state[table].items():
            tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value)
    text = json.dumps(asdict(progress))
    notes = {
        "format": FORMAT,
        "version": str(VERSION),
        "run": identity,
        "progress": text,
        "hash": _hash(tensors, text),
    }
    write_tensors(path, tensors, notes)


def read_progress(path: Path) -> Progress:
    """Read the progress of a checkpoint without its tensors."""
    with _checked(path), safe_open(path, framework="pt") as file:
        return _progress(_notes(file))


def load_checkpoint(
    path: Path, identity: str, model: Model, optimizer: torch.optim.Optimizer
) -> tuple[Progress, WeightCopies]:
    """Load model and optimizer state; return the progress and the other copies of the weights.

    Args:
        path: The checkpoint.
        identity: What it must belong to: graph, settings and seed.
        model: The model; filled if the whole checkpoint is valid.
        optimizer: Its optimizer; likewise.

    Raises:
        DamagedCheckpoint: It has changed since it was written, belongs to another run, or does not
            fit the model.
    """
    with _checked(path), safe_open(path, framework="pt") as file:
        notes = _notes(file)
        if notes.get("run", identity) != identity:
            raise ValueError("it belongs to a run with another graph, settings or seed")
        progress = _progress(notes)
        weights, tables = model.state_dict(), _tables(optimizer)
        shapes = _expected_shapes(weights, optimizer, file.keys())
        # The tensors are mapped into memory and checked one at a time.
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for name, tensor in tensors.items():
            _check_tensor(name, tensor, shapes[name])
        if "hash" in notes and _hash(tensors, notes["progress"]) != notes["hash"]:
            raise ValueError("it has changed since it was written")
        for name, table in weights.items():
            table.copy_(tensors[f"model.{name}"])
        for name in _names(tensors, "optimizer."):
            number, key = name.split(".", 1)
            table, state = tables[int(number)], tensors[f"optimizer.{name}"]
            # Counters of steps stay on the CPU.
            device = table.device if state.ndim else torch.device("cpu")
            optimizer.state[table][key] = state.to(device, copy=True)
        device = tables[0].device
        copies: WeightCopies = {
            part: {
                name: tensors[f"{part}.{name}"].to(device, copy=True)
                for name in _names(tensors, f"{part}.")
            }
            for part in get_args(Part)
        }
        return progress, copies


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


def _progress(notes: Mapping[str, str]) -> Progress:
    """Return the progress that a checkpoint records, with valid types."""
    return _PROGRESS.validate_python(json.loads(notes["progress"]), strict=False)


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
    if not bool(torch.isfinite(tensor).all()):
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
