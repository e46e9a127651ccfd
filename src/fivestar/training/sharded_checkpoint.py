"""Checkpoints of a sharded training: a folder that any number of processes can resume from.

The tensors are written by `torch.distributed.checkpoint`, each process its own rows, as safetensors
files; nothing is pickled. `checkpoint.json` holds the progress, the tensors, and a hash per file.
The folder is built under a temporary name and renamed when it is complete. Its name holds the epoch
and the step, because a folder cannot replace another one: the previous one is removed afterwards.
All processes must see the same file system.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.files import atomic_folder, remove_folder, write_atomic
from fivestar.models.sharding import Shard, exchange, text_from_first
from fivestar.training.progress import Progress, progress_of

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

FOLDER = "checkpoint-"
FORMAT = "fivestar-sharded-checkpoint"
VERSION = 1
_INDEX = "checkpoint.json"
_DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}


def check_torch() -> None:
    """Raise SettingsError if torch cannot write sharded checkpoints as safetensors."""
    from torch.distributed import checkpoint as dcp  # noqa: PLC0415  (slow to import)

    if not hasattr(dcp, "HuggingFaceStorageWriter"):
        raise SettingsError(
            f"several processes need torch 2.8 or newer, this is {torch.__version__}: upgrade "
            "torch, or train with one process"
        )


def newest_folder(run: Path) -> Path | None:
    """Return the checkpoint folder of a run with the most progress, if there is any."""
    folders = [path for path in run.glob(f"{FOLDER}*") if (path / _INDEX).is_file()]
    return max(folders, key=_order, default=None)


def remove_folders(run: Path, keep: Path | None = None) -> None:
    """Remove the checkpoint folders of a run but one."""
    for path in run.glob(f"{FOLDER}*"):
        if path != keep:
            remove_folder(path)


def save_folder(
    run: Path,
    identity: str,
    shard: Shard,
    tensors: Mapping[str, Tensor],
    sharded: Iterable[str],
    progress: Progress,
) -> Path:
    """Write a checkpoint; every process calls this with its own rows.

    Args:
        run: The folder of the run.
        identity: What the checkpoint belongs to: graph, settings and seed.
        shard: The rows of this process.
        tensors: Everything to save, by name.
        sharded: The names of tensors that have one row per entity of this process.
        progress: The progress.

    Returns:
        The folder.
    """
    from torch.distributed.checkpoint import hf_storage, state_dict_saver  # noqa: PLC0415  (slow)

    phase = "refit-" if progress.before_refit else ""
    target = run / f"{FOLDER}{phase}{progress.epoch}-{progress.step}"
    rows, first = set(sharded), dist.get_rank() == 0
    if first and target.exists():
        remove_folder(target)
    with atomic_folder(target) if first else nullcontext() as draft:
        folder = Path(text_from_first(str(draft)))
        state = {
            name: _as_dtensor(tensor, shard) if name in rows else tensor
            for name, tensor in tensors.items()
        }
        writer = hf_storage.HuggingFaceStorageWriter(str(folder), save_distributed=True)
        with exchange():
            state_dict_saver.save(state, storage_writer=writer)
        if first:
            index = {
                "format": FORMAT,
                "version": VERSION,
                "run": identity,
                "num_entities": shard.num_entities,
                "progress": asdict(progress),
                "tensors": {
                    name: {
                        "dtype": str(tensor.dtype).removeprefix("torch."),
                        "shape": _whole_shape(tensor, shard, is_sharded=name in rows),
                        "sharded": name in rows,
                    }
                    for name, tensor in tensors.items()
                },
                "files": {path.name: _digest(path) for path in _files(folder)},
            }
            write_atomic(folder / _INDEX, json.dumps(index, indent=1).encode())
    shard.wait()
    if first:
        remove_folders(run, keep=target)
    return target


def read_folder_progress(folder: Path) -> Progress:
    """Read the progress of a checkpoint without its tensors."""
    return progress_of(_read_index(folder)["progress"])


def load_folder(folder: Path, identity: str, shard: Shard) -> tuple[Progress, dict[str, Tensor]]:
    """Load the progress and the tensors, with those rows of sharded ones that this process holds.

    Raises:
        ValueError: It belongs to another run, has changed, or is incomplete.
    """
    from torch.distributed.checkpoint import hf_storage, state_dict_loader  # noqa: PLC0415  (slow)

    index = _read_index(folder)
    if index["run"] != identity or index["num_entities"] != shard.num_entities:
        raise ValueError("it belongs to a run with another graph, settings or seed")
    _verify(folder, index["files"], shard)
    tensors: dict[str, Tensor] = {}
    for name, about in index["tensors"].items():
        shape = list(about["shape"])
        if about["sharded"]:
            shape[0] = len(shard)
        tensors[name] = torch.zeros(shape, dtype=_DTYPES[about["dtype"]])
    state = {
        name: _as_dtensor(tensor, shard)
        if index["tensors"][name]["sharded"] and not shard.is_whole
        else tensor
        for name, tensor in tensors.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one process is enough is intended
        reader = hf_storage.HuggingFaceStorageReader(str(folder))
        with exchange():
            state_dict_loader.load(state, storage_reader=reader, no_dist=shard.is_whole)
    return progress_of(index["progress"]), tensors


def _as_dtensor(tensor: Tensor, shard: Shard) -> DTensor:
    """Return the local rows as a part of the whole table; they share their memory."""
    from torch.distributed.tensor import DTensor, Replicate  # noqa: PLC0415  (slow to import)
    from torch.distributed.tensor import Shard as RowSharded  # noqa: PLC0415

    shape = torch.Size([shard.num_entities, *tensor.shape[1:]])
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        tensor.detach(),
        shard.mesh,
        [Replicate(), RowSharded(0)],  # one copy per query group, of which one is written
        run_check=False,
        shape=shape,
        stride=stride,
    )


def _whole_shape(tensor: Tensor, shard: Shard, *, is_sharded: bool) -> list[int]:
    return [shard.num_entities, *tensor.shape[1:]] if is_sharded else list(tensor.shape)


def _read_index(folder: Path) -> dict[str, Any]:
    index: dict[str, Any] = json.loads((folder / _INDEX).read_bytes())
    if (index["format"], index["version"]) != (FORMAT, VERSION):
        raise ValueError(
            f"it is {index['format']} {index['version']}, this fivestar reads {FORMAT} {VERSION}"
        )
    return index


def _verify(folder: Path, files: Mapping[str, str], shard: Shard) -> None:
    """Compare the hashes; each process reads its share of the files."""
    changed = {path.name for path in _files(folder)} != set(files)
    for name in sorted(files)[shard.rank :: shard.size]:
        changed = changed or _digest(folder / Path(name).name) != files[name]
    if float(shard.max(torch.tensor(float(changed)))):
        raise ValueError("it has changed since it was written, or a file is missing")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _order(folder: Path) -> tuple[bool, int, int]:
    try:
        progress = read_folder_progress(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return (False, -1, -1)
    return bool(progress.before_refit), progress.epoch, progress.step
