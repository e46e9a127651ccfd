"""Train in several processes that share the entity table, for tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # registers the backend "fake"
from torch import multiprocessing

from fivestar.models.sharding import share_tables
from fivestar.training.processes import GPU_BACKENDS


def in_processes(size: int, function: Callable[..., Any], folder: Path, *arguments: Any) -> Any:
    """Call `function(*arguments)` in processes of one group; return what the first one returns."""
    folder.mkdir(parents=True, exist_ok=True)
    multiprocessing.spawn(_work, (size, function, folder, arguments), size)
    return torch.load(folder / "result.pt", weights_only=True)


def _work(rank: int, size: int, function: Any, folder: Path, arguments: Any) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
    # The process group of GPUs, with a stand-in for NCCL that sends nothing.
    backends = GPU_BACKENDS.replace("nccl", "fake")
    dist.init_process_group(backends, f"file://{folder / 'store'}", rank=rank, world_size=size)
    share_tables()
    result = function(*arguments)
    if rank == 0:
        torch.save(result, folder / "result.pt")
    dist.destroy_process_group()


def several(tasks: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Call several functions: to start processes takes longer than most of them."""
    return [function(*arguments) for function, arguments in tasks]
