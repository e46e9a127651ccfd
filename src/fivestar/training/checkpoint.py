"""Checkpoints: everything that training needs to resume, in one file.

The file is written under another name, synced and renamed, so that there is a complete one at every
moment. The order of the data follows from the seed and the epoch, so epoch and step are all that is
saved of it. Tensors are in safetensors; nothing is pickled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fivestar.errors import DamagedCheckpoint
from fivestar.models.base import Model
from fivestar.runs.run import write_tensors

# Copies of the weights besides those that are trained: the best so far, and their average.
Part = Literal["best", "average"]
WeightCopies = dict[Part, dict[str, Tensor]]


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


def save_checkpoint(
    path: Path,
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
    write_tensors(path, tensors, {"progress": json.dumps(asdict(progress))})


def read_progress(path: Path) -> Progress:
    """Read the progress of a checkpoint without its tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            return Progress(**json.loads(file.metadata()["progress"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def load_checkpoint(
    path: Path, model: Model, optimizer: torch.optim.Optimizer
) -> tuple[Progress, WeightCopies]:
    """Load model and optimizer state; return the progress and the other copies of the weights."""
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            names = {part: _names(file.keys(), f"{part}.") for part in ("model", "optimizer")}
            # One tensor at a time: the file is as large as all that training holds.
            weights = model.state_dict()
            if set(names["model"]) != set(weights):
                raise ValueError("the tables differ from those of this model")  # noqa: TRY301
            for name, table in weights.items():
                _fill(table, file.get_tensor(f"model.{name}"))
            tables = _tables(optimizer)
            for name in names["optimizer"]:
                number, key = name.split(".", 1)
                table = tables[int(number)]
                state = file.get_tensor(f"optimizer.{name}")
                # Only state of the shape of the table moves to its device.
                device = table.device if state.shape == table.shape else torch.device("cpu")
                optimizer.state[table][key] = state.to(device)
            device = tables[0].device
            copies: WeightCopies = {
                part: {
                    name: file.get_tensor(f"{part}.{name}").to(device)
                    for name in _names(file.keys(), f"{part}.")
                }
                for part in get_args(Part)
            }
    except (
        OSError,
        SafetensorError,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:
        raise _damaged(path, error) from error
    return progress, copies


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


def _names(keys: list[str], prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]


def _fill(table: Tensor, content: Tensor) -> None:
    if table.shape != content.shape:
        raise ValueError(f"a table of shape {tuple(content.shape)}, not {tuple(table.shape)}")
    table.copy_(content)
