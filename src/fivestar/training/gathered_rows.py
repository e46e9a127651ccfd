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


class EntityGrad:
    """The gradient of the entity table: of all rows, or only of those that a step touches.

    Args:
        model: the model; its `entities.grad` becomes this gradient, a sparse tensor if `touched`
            is given.
        touched: (M,) distinct ids in ascending order, all that the step uses; None: all entities.
        rows: (M, width) zeros for their gradients; by default new ones.
    """

    def __init__(
        self, model: Model, touched: Tensor | None = None, rows: Tensor | None = None
    ) -> None:
        table = model.entities
        num_rows, width = len(table) if touched is None else len(touched), table.shape[1]
        self.touched = touched
        self.rows = table.new_zeros(num_rows, width) if rows is None else rows
        if touched is None:
            table.grad = self.rows
        else:
            table.grad = torch.sparse_coo_tensor(
                touched[None], self.rows, table.shape, is_coalesced=True, check_invariants=False
            )

    def index_of(self, ids: Tensor) -> Tensor:
        """Return the rows of the gradient that belong to entities."""
        return ids if self.touched is None else torch.searchsorted(self.touched, ids)


class GatheredRows:
    """Rows of the tables as leaves of one autograd graph.

    `backward` adds the gradient of each leaf to the rows that it came from, in the gradient of its
    table. `index_select` copies rows four times as fast as indexing.
    """

    def __init__(self, model: Model, entity_grad: EntityGrad) -> None:
        self.model = model
        self.entity_grad = entity_grad
        # Each leaf, the gradient of its table, and the rows of that gradient.
        self._leaves: list[tuple[Tensor, Tensor, Tensor]] = []

    def heads(self, ids: Tensor) -> Tensor:
        """Return rows of the entity table, of shape (*ids.shape, width)."""
        flat, grad = ids.reshape(-1), self.entity_grad
        leaf = self._gather(self.model.entities, ids)
        self._leaves.append((leaf, grad.rows, grad.index_of(flat)))
        return leaf

    def tails(self, ids: Tensor) -> Tensor:
        """Return rows of the candidate columns of the entity table."""
        flat, grad, columns = ids.reshape(-1), self.entity_grad, self.model.candidate_columns
        leaf = self._gather(columns(self.model.entities), ids)
        self._leaves.append((leaf, columns(grad.rows), grad.index_of(flat)))
        return leaf

    def relations(self, ids: Tensor) -> Tensor:
        """Return rows of the relation table."""
        table = self.model.relations
        leaf = self._gather(table, ids)
        self._leaves.append((leaf, grad_of(table), ids.reshape(-1)))
        return leaf

    @staticmethod
    def _gather(table: Tensor, ids: Tensor) -> Tensor:
        rows = table.detach().index_select(0, ids.reshape(-1))
        return rows.view(*ids.shape, -1).requires_grad_()

    def backward(self, outputs: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Backpropagate, and scatter the gradients of all gathered rows.

        Args:
            outputs: what was computed from the gathered rows.
            grads: the gradient of the loss with respect to each output; None for a scalar that is
                itself part of the loss.
        """
        torch.autograd.backward(outputs, grads)
        for leaf, table_grad, index in self._leaves:
            if leaf.grad is not None:
                table_grad.index_add_(0, index, leaf.grad.view(len(index), -1))
