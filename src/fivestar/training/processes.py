"""Several processes that train one model: they share its entity table by rows.

`torchrun` starts them, on one machine or on many (`fivestar train --processes` does so on one);
each runs the same program on the same batches. What depends on a clock or on the file system is
decided by the first process.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
from contextlib import suppress

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from fivestar.errors import SettingsError
from fivestar.models.sharding import share_tables
from fivestar.training.sharded_checkpoint import check_torch

# Of one collective operation. The longest pause is that of the first process when it saves the run.
_TIMEOUT = dt.timedelta(minutes=30)
# NCCL sends what is on GPUs. Numbers and texts of the first process, rows for the saved run, and
# checkpoints are in main memory.
GPU_BACKENDS = "cpu:gloo,cuda:nccl"


def num_launched() -> int:
    """Return how many processes `torchrun` has started; 1 without it."""
    size = os.environ.get("WORLD_SIZE", "1")
    if not size.isdecimal() or not 0 < int(size) <= 1 << 20:
        raise SettingsError(f"WORLD_SIZE={size!r} in the environment is not a number of processes")
    return int(size)


def join_processes(device: str = "auto") -> None:
    """Join the other processes that `torchrun` has started, if there are any.

    From then on, until this process ends, they share the entity table of every model.

    Raises:
        SettingsError: torch has no support for it, or the processes do not find one another.
    """
    if num_launched() == 1 or (dist.is_available() and dist.is_initialized()):
        return
    if not dist.is_available():
        raise SettingsError("this torch has no torch.distributed: train with one process")
    check_torch()
    is_cuda = device != "cpu" and torch.cuda.is_available()
    if is_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        store, rank, size = next(rendezvous("env://", timeout=_TIMEOUT))
        # torchrun keeps the store when it restarts the processes, with addresses of the dead ones.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        dist.init_process_group(
            GPU_BACKENDS if is_cuda else "gloo",
            store=PrefixStore(f"fivestar/{attempt}", store),
            rank=rank,
            world_size=size,
            timeout=_TIMEOUT,
        )
    except (ValueError, RuntimeError) as error:
        raise SettingsError(
            f"the processes cannot reach one another ({error}); start them with torchrun"
        ) from error
    share_tables()
    atexit.register(_leave)


def _leave() -> None:
    with suppress(RuntimeError, ValueError):  # another process may have died
        dist.destroy_process_group()
