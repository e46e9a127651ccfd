"""Everything that training needs to go on as if it had never stopped, in one file.

The file is written beside its name, synced and renamed, so that at every moment there is a whole
one. The order of the data follows from the seed and the epoch, so an epoch is all that is kept of
it. Tensors are in safetensors; nothing is pickled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fivestar.errors import FivestarError
from fivestar.graph.folders import replace_file
from fivestar.models.base import Model


class DamagedCheckpoint(FivestarError):  # noqa: N818
    """A checkpoint cannot be used."""


@dataclass
class Progress:
    """How far training is. The history holds one line an epoch."""

    epoch: int = 0
    seconds: float = 0.0
    best_mrr: float = -1.0
    best_epoch: int = 0
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


def save_checkpoint(
    path: Path,
    model: Model,
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
    progress: Progress,
) -> None:
    """Replace the checkpoint; if that fails, the one before is still there."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value)
    content = save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        {"progress": json.dumps(asdict(progress))},
    )
    replace_file(path, content)


def load_checkpoint(
    path: Path, model: Model, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Fill model and optimizer; how far training was, and the best weights so far."""
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model.load_state_dict(_part(tensors, "model."))
        state = optimizer.state_dict()
        state["state"] = {}
        for name, tensor in _part(tensors, "optimizer.").items():
            number, key = name.split(".", 1)
            state["state"].setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict(state)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedCheckpoint(
            f"{path}: cannot be resumed from ({error}); train anew into another folder"
        ) from error
    return progress, _part(tensors, "best.")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
