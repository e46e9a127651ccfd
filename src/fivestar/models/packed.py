"""A copy of the candidates in the layout of oneDNN, for products with few queries.

A product of a few queries with the whole table takes half the time if the table is stored in the
blocks that the kernels of oneDNN read. These operators are those of compiled models
(`torch._inductor`) and not documented; so the copy is only used if it exists and its scores agree
with those of the usual product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fivestar.models.products import linear
from fivestar.models.similarity import TILE, InnerProduct

if TYPE_CHECKING:
    from fivestar.models.base import Model

# Candidates per block.
_BLOCK = 4 * TILE
# With more queries than this, the usual product is as fast.
_MAX_QUERIES = 128
# Number of queries that the layout is chosen for.
_TYPICAL_QUERIES = 32


class PackedCandidates:
    """Packed blocks of a table (N, D).

    Args:
        table: the candidates; they must not change any more.
    """

    def __init__(self, table: Tensor) -> None:
        self._table = table
        self._blocks = [
            torch.ops.mkldnn._reorder_linear_weight(  # noqa: SLF001
                table[start : start + _BLOCK].contiguous(), _TYPICAL_QUERIES
            )
            for start in range(0, len(table), _BLOCK)
        ]

    def write_scores(self, query: Tensor, start: int, out: Tensor) -> bool:
        """Write the products of queries (B, D) with the candidates from `start` on to `out` (B, n).

        Returns:
            False if the usual product is as fast; then nothing is written.
        """
        if len(query) > _MAX_QUERIES:
            return False
        end = start + out.shape[1]
        while start < end:
            number, offset = divmod(start, _BLOCK)
            stop = min((number + 1) * _BLOCK, len(self._table))
            part = out[:, : min(stop, end) - start]
            if offset or stop > end:  # the edge of a block
                torch.mm(query, self._table[start : start + part.shape[1]].T, out=part)
            else:
                part.copy_(linear(query, self._blocks[number]))
            start, out = start + part.shape[1], out[:, part.shape[1] :]
        return True


@torch.no_grad()
def pack_candidates(model: Model, max_bytes: int) -> bool:
    """Pack the candidates of a model that is not trained any more.

    Args:
        model: the model; its scores are the same up to rounding.
        max_bytes: size of the table up to which it is copied.

    Returns:
        Whether there is a copy now: not on other devices than the CPU, without oneDNN, and if the
        similarity is not the inner product.
    """
    table = model.candidates().detach()
    if (
        not isinstance(model.similarity, InnerProduct)
        or table.device.type != "cpu"
        or table.dtype != torch.float32
        or table.nbytes > max_bytes
        or not torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    ):
        return False
    try:
        packed = PackedCandidates(table)
        if _agrees(packed, table):
            model.packed = packed
    except (AttributeError, RuntimeError, TypeError):  # another version of torch
        return False
    return model.packed is not None


def _agrees(packed: PackedCandidates, table: Tensor) -> bool:
    """Return whether some scores of all candidates are those of the usual product."""
    query = table[:: max(1, len(table) // _TYPICAL_QUERIES)][:_TYPICAL_QUERIES].contiguous()
    scores = table.new_empty(len(query), len(table))
    packed.write_scores(query, 0, scores)
    expected = query @ table.T
    size = query.norm(dim=1, keepdim=True) * table.norm(dim=1)
    return bool(((scores - expected).abs() <= 1e-5 * size + 1e-30).all())
