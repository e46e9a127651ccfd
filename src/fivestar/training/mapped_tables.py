"""Tables in files that are mapped into memory, for tables that need not fit into it.

The files have no names, so that nothing is left behind, however the process ends: a checkpoint
keeps what they hold.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from fivestar.files import output_errors


def mapped_zeros(shape: tuple[int, ...], folder: Path | None) -> Tensor:
    """Return a float32 table of zeros in a file of its own.

    Args:
        shape: Its shape.
        folder: Where the run will be; the file is on the same disk.

    Raises:
        OutputError: There is not enough space for it.
    """
    parents = [] if folder is None else [folder, *folder.resolve().parents]
    place = next((parent for parent in parents if parent.is_dir()), Path(tempfile.gettempdir()))
    size = 4 * torch.Size(shape).numel()
    with output_errors(place), tempfile.TemporaryFile(dir=place) as file:
        # Reserved now: a disk that is full later would end the process by a signal (SIGBUS).
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        mapped = mmap.mmap(file.fileno(), size)  # keeps the file open
    return torch.frombuffer(mapped, dtype=torch.float32).view(shape)
