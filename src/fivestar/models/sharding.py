"""Row sharding: each process holds a contiguous range of the rows of the entity table.

Relations and all other parameters are replicated. Entity ids are global everywhere; only a `Shard`
knows which rows of the local table they are. Rows that every process needs, such as the heads of a
batch, are contributed by their owners and added up (all-reduce), so that the traffic depends on the
batch and not on the number of entities. In a single process the shard is the whole table, and
nothing is sent.

Processes can form a mesh of two dimensions: Q query groups of R processes each. Each group shares a
whole table by rows and computes the gradients of its part of a batch's queries; the sums of these
gradients over the groups keep the replicas of a row equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from fivestar.errors import ProcessLost, SettingsError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


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
        rank: Number of this process in its query group.
        size: Number of processes that share the table; each has ceil(num_entities / size) rows, the
            last one the rest.
        query_group: Number of the query group of this process.
        num_query_groups: Number of query groups; each holds a table of its own.

    Raises:
        SettingsError: A process would have no row.
    """

    num_entities: int
    rank: int = 0
    size: int = 1
    query_group: int = 0
    num_query_groups: int = 1

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
    def num_processes(self) -> int:
        """The number of processes that train the model."""
        return self.size * self.num_query_groups

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and decides what depends on a clock."""
        return self.rank == self.query_group == 0

    @property
    def mesh(self) -> DeviceMesh:
        """The processes as a mesh of query groups by rows; all of them must ask for it at once."""
        return _device_mesh(self.num_query_groups, self.size)

    @property
    def _row_group(self) -> ProcessGroup | None:
        """The processes of this query group (None: all)."""
        return None if self.num_query_groups == 1 else self.mesh.get_group("rows")

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
        """Raise SettingsError if the model is in several processes."""
        if self.num_processes > 1:
            raise SettingsError(
                f"this needs the whole entity table, which {self.num_processes} processes share: "
                "load the saved model in one process, without torchrun"
            )

    def own_part(self, count: int) -> slice:
        """Return which of `count` queries, or other things, the query group of this process takes.

        The parts of all groups are disjoint, cover everything, and may be empty.
        """
        first, last = (
            count * group // self.num_query_groups
            for group in (self.query_group, self.query_group + 1)
        )
        return slice(first, last)

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
        """Return the sum of a tensor over the row shards; the tensor is overwritten."""
        if not self.is_whole:
            with exchange():
                dist.all_reduce(tensor, group=self._row_group)
        return tensor

    def sum_over_query_groups(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over the query groups; the tensor is overwritten."""
        if self.num_query_groups > 1:
            with exchange():
                dist.all_reduce(tensor, group=self.mesh.get_group("queries"))
        return tensor

    def max(self, tensor: Tensor) -> Tensor:
        """Return the elementwise maximum over the row shards; the tensor is overwritten."""
        if not self.is_whole:
            with exchange():
                dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._row_group)
        return tensor

    def concatenate(self, tensor: Tensor, dim: int) -> Tensor:
        """Return the tensors of all row shards, of equal shapes, concatenated in order of rank."""
        if self.is_whole:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with exchange():
            dist.all_gather(parts, tensor.contiguous(), group=self._row_group)
        return torch.cat(parts, dim=dim)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all row shards, which may have different numbers of them, in order."""
        if self.is_whole:
            return rows
        counts = self.concatenate(torch.tensor([len(rows)], device=rows.device), 0).tolist()
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = self.concatenate(padded[None], 0)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def from_first(self, value: float) -> float:
        """Return the number that the first process has: what depends on a clock is its decision."""
        if self.num_processes == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64)
        with exchange():
            dist.broadcast(tensor, 0)
        return float(tensor)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.num_processes > 1:
            with exchange():
                dist.barrier()

    def parts(self, table: Tensor) -> Iterator[Tensor]:
        """Yield the rows of all row shards to the first process, in order.

        The others of its query group send theirs, so every process must exhaust the iterator. Only
        one part is in memory at a time.
        """
        if self.query_group:
            return
        if self.rank:
            with exchange():
                dist.send(table.detach().cpu().contiguous(), 0)
            return
        yield table
        for rank in range(1, self.size):
            other = Shard(self.num_entities, rank, self.size)
            part = torch.empty(len(other), *table.shape[1:], dtype=table.dtype)
            with exchange():
                dist.recv(part, rank)
            yield part


@contextmanager
def exchange() -> Iterator[None]:
    """Exchange tensors with the other processes within the context.

    Raises:
        ProcessLost: Another process has ended, or cannot be reached.
    """
    try:
        yield
    except RuntimeError as error:
        # "[its source file] Connection closed by peer […]. This is typically caused by …"
        reason = re.sub(r"^\[\S+\] ", "", str(error).split("\n")[0]).split(". ")[0]
        raise ProcessLost(
            f"process {dist.get_rank()} of {dist.get_world_size()} lost contact with another one "
            f"({reason}): start all of them again"
        ) from error


def text_from_first(text: str) -> str:
    """Return the text that the first process has."""
    data = bytearray(text.encode())
    size = torch.tensor(len(data))
    with exchange():
        dist.broadcast(size, 0)
        letters = torch.zeros(int(size), dtype=torch.uint8)
        if dist.get_rank() == 0:
            letters.copy_(torch.frombuffer(data, dtype=torch.uint8))
        dist.broadcast(letters, 0)
    return bytes(letters.tolist()).decode()


def own_shard(num_entities: int, num_query_groups: int = 1) -> Shard:
    """Return the rows of the entity table that this process holds: all but in a process group.

    Args:
        num_entities: Number of entities of the graph.
        num_query_groups: Number of groups that divide the queries of a batch between them.

    Raises:
        SettingsError: The number of groups does not divide the number of processes, or a process
            would have no row.
    """
    processes = dist.get_world_size() if _JOINED else 1
    if num_query_groups < 1 or processes % num_query_groups:
        divisors = [str(n) for n in range(1, processes + 1) if processes % n == 0]
        raise SettingsError(
            f"query_groups is {num_query_groups}, which does not divide the number of processes, "
            f"{processes}: use {' or '.join(divisors)}, or start another number of processes"
        )
    if processes == 1:
        return Shard(num_entities)
    size = processes // num_query_groups
    # The processes of a query group exchange most often, so they are neighbors: on one machine.
    query_group, rank = divmod(dist.get_rank(), size)
    shard = Shard(num_entities, rank, size, query_group, num_query_groups)
    if num_query_groups > 1:
        _ = shard.mesh  # made now, by all processes at once
    return shard


@cache
def _device_mesh(num_query_groups: int, size: int) -> DeviceMesh:
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415  (slow to import)

    # The groups send from GPUs, too. Checkpoints are read into tables in main memory, which a mesh
    # of GPUs would copy.
    return init_device_mesh("cpu", (num_query_groups, size), mesh_dim_names=("queries", "rows"))


def share_tables() -> None:
    """Let the processes of the process group share every entity table from now on."""
    _JOINED.append(True)


_JOINED: list[bool] = []
