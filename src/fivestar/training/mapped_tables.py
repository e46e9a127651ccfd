"""Tables in files that are mapped into memory, for tables that need not fit into it.

The files have no names, so that nothing is left behind, however the process ends: a checkpoint
keeps what they hold.

For each page that is missing, the kernel reads what follows it as well, up to 8 MiB on some
systems: a hundred rows around each one that a step uses. So a training tells it what it will do
(`random_access`, `sequential_access`), and which rows come next (`prefetch`). All three do nothing
for a table in memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from fivestar.files import output_errors

# The mapped file of each table, by the address of its first number.
_files: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()
_CAN_ADVISE = hasattr(mmap.mmap, "madvise")  # not on Windows


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
    table = torch.frombuffer(mapped, dtype=torch.float32).view(shape)
    _files[table.data_ptr()] = mapped
    return table


def random_access(table: Tensor) -> None:
    """Read no more than the pages that are used, from now on."""
    file = _file_of(table)
    if file is not None:
        file.madvise(mmap.MADV_RANDOM)


def sequential_access(table: Tensor) -> None:
    """Read ahead again, from now on: for passes over the whole table."""
    file = _file_of(table)
    if file is not None:
        file.madvise(mmap.MADV_NORMAL)


def prefetch(table: Tensor, rows: Tensor) -> None:
    """Start to read rows, all at once instead of one after the other when they are used.

    Args:
        table: (N, width) the table.
        rows: (n,) rows in ascending order.
    """
    file = _file_of(table)
    if file is None or not len(rows):
        return
    row_bytes = table.shape[1] * table.element_size()
    is_last = rows.diff(append=rows[-1:] + 2) > 1
    is_first = is_last.roll(1)  # a run begins where the one before it has ended
    firsts, lasts = (rows[chosen] * row_bytes for chosen in (is_first, is_last))
    firsts -= firsts % mmap.PAGESIZE
    sizes = lasts + row_bytes - firsts
    for first, size in zip(firsts.tolist(), sizes.tolist(), strict=True):
        file.madvise(mmap.MADV_WILLNEED, first, size)


def _file_of(table: Tensor) -> mmap.mmap | None:
    return _files.get(table.data_ptr()) if _CAN_ADVISE else None
