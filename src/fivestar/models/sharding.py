"""Row sharding: each process holds a contiguous range of the rows of the entity table.

Relations and all other parameters are replicated. Entity ids are global everywhere; only a `Shard`
knows which rows of the local table they are. Rows that every process needs, such as the heads of a
batch, are contributed by their owners and added up (all-reduce), so that the traffic depends on the
batch and not on the number of entities. In a single process the shard is the whole table, and
nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from fivestar.errors import SettingsError


class LocalRows(NamedTuple):
    """Those of some ids that this process holds."""

    positions: Tensor | None  # (n,) where they are among the ids; None: everywhere
    rows: Tensor  # (n,) their rows of the local table

    def select(self, values: Tensor) -> Tensor:
        """Return those of the values (B,) of all ids that belong to the ids of this process."""
        return values if self.positions is None else values[self.positions]


@dataclass(frozen=True)
class Shard:
    """The rows of the entity table that this process holds.

    Args:
        num_entities: Number of entities of the graph.
        rank: Number of this process.
        size: Number of processes that share the table; each has ceil(num_entities / size) rows, the
            last one the rest.

    Raises:
        SettingsError: A process would have no row.
    """

    num_entities: int
    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        rows = -(-self.num_entities // self.size)
        if rows * (self.size - 1) >= self.num_entities > 0:
            raise SettingsError(
                f"{self.num_entities:,} entities cannot be sharded over {self.size} processes: "
                "use fewer processes"
            )

    @property
    def is_whole(self) -> bool:
        """Whether this process holds all rows."""
        return self.size == 1

    @property
    def start(self) -> int:
        """The first entity of this process."""
        return self.rank * -(-self.num_entities // self.size)

    @property
    def stop(self) -> int:
        """The entity behind the last one of this process."""
        return min(self.start + -(-self.num_entities // self.size), self.num_entities)

    def __len__(self) -> int:
        return self.stop - self.start

    def require_whole(self) -> None:
        """Raise SettingsError if this process holds only a part of the entity table."""
        if not self.is_whole:
            raise SettingsError(
                f"this needs the whole entity table, which {self.size} processes share: load the "
                "saved model in one process, without torchrun"
            )

    def local(self, ids: Tensor) -> LocalRows:
        """Return which of the ids (B,) this process holds, and where."""
        if self.is_whole:
            return LocalRows(None, ids)
        positions = ((ids >= self.start) & (ids < self.stop)).nonzero().squeeze(1)
        return LocalRows(positions, ids[positions] - self.start)

    def rows(self, table: Tensor, ids: Tensor) -> Tensor:
        """Return rows (*ids.shape, width) of the table for global ids, the same in all processes.

        Args:
            table: (len(self), width) the local rows.
            ids: Global ids, the same in all processes.
        """
        flat = ids.reshape(-1)
        if self.is_whole:
            return table.index_select(0, flat).view(*ids.shape, table.shape[1])
        rows, own = table.new_zeros(len(flat), table.shape[1]), self.local(flat)
        rows[own.positions] = table.index_select(0, own.rows)
        return self.sum(rows).view(*ids.shape, table.shape[1])

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes; the tensor is overwritten."""
        if not self.is_whole:
            dist.all_reduce(tensor)
        return tensor

    def max(self, tensor: Tensor) -> Tensor:
        """Return the elementwise maximum over all processes; the tensor is overwritten."""
        if not self.is_whole:
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor

    def concatenate(self, tensor: Tensor, dim: int) -> Tensor:
        """Return the tensors of all processes, of equal shapes, concatenated in order of rank."""
        if self.is_whole:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, which may have different numbers of them, in order."""
        if self.is_whole:
            return rows
        counts = self.concatenate(torch.tensor([len(rows)], device=rows.device), 0).tolist()
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = self.concatenate(padded[None], 0)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def from_first(self, value: float) -> float:
        """Return the number that the first process has: what depends on a clock is its decision."""
        if self.is_whole:
            return value
        tensor = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(tensor, 0)
        return float(tensor)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if not self.is_whole:
            dist.barrier()

    def parts(self, table: Tensor) -> Iterator[Tensor]:
        """Yield the rows of all processes to the first one, in order; the others send theirs.

        Every process must exhaust the iterator. Only one part is in memory at a time.
        """
        if self.rank:
            dist.send(table.detach().cpu().contiguous(), 0)
            return
        yield table
        for rank in range(1, self.size):
            other = Shard(self.num_entities, rank, self.size)
            part = torch.empty(len(other), *table.shape[1:], dtype=table.dtype)
            dist.recv(part, rank)
            yield part


def text_from_first(text: str) -> str:
    """Return the text that the first process has."""
    data = bytearray(text.encode())
    size = torch.tensor(len(data))
    dist.broadcast(size, 0)
    letters = torch.zeros(int(size), dtype=torch.uint8)
    if dist.get_rank() == 0:
        letters.copy_(torch.frombuffer(data, dtype=torch.uint8))
    dist.broadcast(letters, 0)
    return bytes(letters.tolist()).decode()


def own_shard(num_entities: int) -> Shard:
    """Return the rows of the entity table that this process holds: all but in a process group."""
    if not _JOINED:
        return Shard(num_entities)
    return Shard(num_entities, dist.get_rank(), dist.get_world_size())


def share_tables() -> None:
    """Let the processes of the process group share every entity table from now on."""
    _JOINED.append(True)


_JOINED: list[bool] = []
