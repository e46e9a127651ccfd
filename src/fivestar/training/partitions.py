"""Partitions of the entities: every batch touches the rows of two of them only.

An entity table that does not fit into memory is read from the disk row by row, in random order,
unless batches that use the same rows follow one another. So entities are divided into partitions,
training facts into buckets by the two partitions of their entities, and a bucket is trained on as a
whole (Lerer et al. 2019). Sampled candidates come from the two partitions, too. From one bucket to
the next, one partition changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Consecutive rows in the same partition: as much as the kernel reads at once.
_BLOCK_BYTES = 128 * 1024
# Blocks per partition at least, so that a partition is a random sample of the entities.
_MIN_BLOCKS = 8


class Partitions:
    """Random partitions of the rows of an entity table, in blocks of consecutive rows.

    Args:
        num_entities: Number of rows.
        count: Number of partitions.
        row_bytes: Bytes per row.
        seed: Seed of the random choice.
    """

    def __init__(self, num_entities: int, count: int, row_bytes: int, seed: int) -> None:
        self.num_entities = num_entities
        self.count = count
        rows = min(_BLOCK_BYTES // row_bytes, num_entities // (_MIN_BLOCKS * count))
        self.rows_per_block = max(1, rows)
        blocks = -(-num_entities // self.rows_per_block)
        generator = torch.Generator().manual_seed(seed)
        shuffled = torch.randperm(blocks, generator=generator).numpy()
        self._of_block: npt.NDArray[np.int32] = (shuffled % count).astype(np.int32)

    def of(self, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return the partitions of entities."""
        own: npt.NDArray[np.int32] = self._of_block[ids // self.rows_per_block]
        return own

    def buckets(
        self, first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.int32]:
        """Return the buckets of pairs of entities: equal for equal pairs of partitions."""
        a, b = self.of(first), self.of(second)
        return np.minimum(a, b) * np.int32(self.count) + np.maximum(a, b)

    def order(self, generator: torch.Generator) -> list[int]:
        """Return all buckets in an order in which at most one partition is new in each."""
        shuffled = torch.randperm(self.count, generator=generator).tolist()
        pairs = []
        for row, first in enumerate(shuffled):
            others = shuffled[row:] if row % 2 == 0 else [*shuffled[:row:-1], first]
            pairs += [(min(first, other), max(first, other)) for other in others]
        return [first * self.count + second for first, second in pairs]

    def entities(self, bucket: int) -> Tensor:
        """Return the entities of the partitions of a bucket, in ascending order."""
        own = {*divmod(bucket, self.count)}
        blocks = np.flatnonzero(np.isin(self._of_block, list(own)))
        rows = np.arange(self.rows_per_block)
        ids = (blocks[:, None] * self.rows_per_block + rows).reshape(-1)
        return torch.from_numpy(ids[ids < self.num_entities])
