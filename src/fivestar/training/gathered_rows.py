"""Gather rows of a model's tables for autograd, and scatter their gradients back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fivestar.models.base import Model


def grad_of(tensor: Tensor) -> Tensor:
    """Return the gradient of a tensor that is known to have one."""
    assert tensor.grad is not None  # noqa: S101  (made by a step or by a backward pass)
    return tensor.grad


class GatheredRows:
    """Rows of the tables as leaves of one autograd graph.

    `backward` adds the gradient of each leaf to the rows that it came from, in the gradient of its
    table. `index_select` copies rows four times as fast as indexing.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._leaves: list[tuple[Tensor, Tensor, Tensor]] = []  # leaf, gradient of its table, ids

    def heads(self, ids: Tensor) -> Tensor:
        """Return rows of the entity table, of shape (*ids.shape, width)."""
        table = self.model.entities
        return self._gather(table.detach(), grad_of(table), ids)

    def tails(self, ids: Tensor) -> Tensor:
        """Return rows of the candidate columns of the entity table."""
        table, columns = self.model.entities, self.model.candidate_columns
        return self._gather(columns(table.detach()), columns(grad_of(table)), ids)

    def relations(self, ids: Tensor) -> Tensor:
        """Return rows of the relation table."""
        table = self.model.relations
        return self._gather(table.detach(), grad_of(table), ids)

    def _gather(self, table: Tensor, table_grad: Tensor, ids: Tensor) -> Tensor:
        flat = ids.reshape(-1)
        leaf = table.index_select(0, flat).view(*ids.shape, -1).requires_grad_()
        self._leaves.append((leaf, table_grad, flat))
        return leaf

    def backward(self, outputs: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Backpropagate, and scatter the gradients of all gathered rows.

        Args:
            outputs: what was computed from the gathered rows.
            grads: the gradient of the loss with respect to each output; None for a scalar that is
                itself part of the loss.
        """
        torch.autograd.backward(outputs, grads)
        for leaf, table_grad, ids in self._leaves:
            if leaf.grad is not None:
                table_grad.index_add_(0, ids, leaf.grad.view(len(ids), -1))
