"""Gather rows of a model's tables for autograd, and scatter their gradients back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fivestar.models.base import Model


def grad_of(tensor: Tensor) -> Tensor:
    """Return the gradient of a tensor that is known to have one."""
    assert tensor.grad is not None  # noqa: S101  (made by a step or by a backward pass)
    return tensor.grad


def sparse_grad(table: Tensor, touched: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return a gradient of a table that holds only some of its rows.

    Args:
        table: (N, width).
        touched: (M,) distinct ids in ascending order.
        rows: (M, width) the gradient of these rows; by default zeros.
    """
    rows = table.new_zeros(len(touched), table.shape[1]) if rows is None else rows
    return torch.sparse_coo_tensor(
        touched[None], rows, table.shape, is_coalesced=True, check_invariants=False
    )


@contextmanager
def summed_gradients(model: Model) -> Iterator[None]:
    """Sum what is added within the context to gradients that all processes have.

    For what each process computes from its own entities: without it, each would have only its part
    of the gradients of relations and other shared parameters.
    """
    if model.shard.is_whole:
        yield
        return
    shared = [parameter for parameter in model.parameters() if parameter is not model.entities]
    before = [grad_of(parameter) for parameter in shared]
    for parameter, grad in zip(shared, before, strict=True):
        if grad.is_sparse:
            parameter.grad = sparse_grad(parameter, grad.indices()[0])
        else:
            parameter.grad = torch.zeros_like(parameter)
    yield
    for parameter, grad in zip(shared, before, strict=True):
        _values(grad).add_(model.shard.sum(_values(grad_of(parameter))))
        parameter.grad = grad


def _values(grad: Tensor) -> Tensor:
    return grad.values() if grad.is_sparse else grad


class EntityGrad:
    """The gradient of the entity table: of all rows, or only of those that a step touches.

    Args:
        model: the model; its `entities.grad` becomes this gradient, a sparse tensor if `touched`
            is given.
        touched: (M,) distinct ids in ascending order, all that the step uses; None: all entities.
            Of these, the gradient has those that this process holds.
        rows: (M, width) zeros for their gradients; by default new ones.
    """

    def __init__(
        self, model: Model, touched: Tensor | None = None, rows: Tensor | None = None
    ) -> None:
        table = model.entities
        if touched is not None:
            touched = model.shard.local(touched).rows
        self.touched = touched
        if touched is None:
            table.grad = self.rows = torch.zeros_like(table) if rows is None else rows
        else:
            table.grad = sparse_grad(table, touched, rows)
            self.rows = table.grad.values()

    def index_of(self, rows: Tensor) -> Tensor:
        """Return the rows of the gradient that belong to rows of the entity table."""
        return rows if self.touched is None else torch.searchsorted(self.touched, rows)


class GatheredRows:
    """Rows of the tables as leaves of one autograd graph.

    `backward` adds the gradient of each leaf to the rows that it came from, in the gradient of its
    table. `index_select` copies rows four times as fast as indexing.

    Processes that share the entity table gather the same rows and compute the same from them, so
    each has the whole gradient of a leaf and adds that of its own rows.
    """

    def __init__(self, model: Model, entity_grad: EntityGrad) -> None:
        self.model = model
        self.entity_grad = entity_grad
        # Each leaf, the gradient of its table, the rows of that gradient, and which rows of the
        # leaf these are (None: all).
        self._leaves: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []

    def heads(self, ids: Tensor) -> Tensor:
        """Return rows of the entity table, of shape (*ids.shape, width)."""
        return self._gather_entities(self.model.entities, self.entity_grad.rows, ids)

    def tails(self, ids: Tensor) -> Tensor:
        """Return rows of the candidate columns of the entity table."""
        columns = self.model.candidate_columns
        return self._gather_entities(
            columns(self.model.entities), columns(self.entity_grad.rows), ids
        )

    def own_heads(self, rows: Tensor) -> Tensor:
        """Return rows (n, width) of the part of the entity table that this process holds."""
        leaf, grad = self._gather(self.model.entities, rows), self.entity_grad
        self._leaves.append((leaf, grad.rows, grad.index_of(rows), None))
        return leaf

    def own_tails(self, rows: Tensor) -> Tensor:
        """Return rows (n, D) of the candidates that this process holds."""
        columns, grad = self.model.candidate_columns, self.entity_grad
        leaf = self._gather(columns(self.model.entities), rows)
        self._leaves.append((leaf, columns(grad.rows), grad.index_of(rows), None))
        return leaf

    def relations(self, ids: Tensor) -> Tensor:
        """Return rows of the relation table."""
        table = self.model.relations
        leaf, index, grad = self._gather(table, ids), ids.reshape(-1), grad_of(table)
        if grad.is_sparse:
            index = torch.searchsorted(grad.indices()[0], index.contiguous())
        self._leaves.append((leaf, _values(grad), index, None))
        return leaf

    def _gather_entities(self, table: Tensor, table_grad: Tensor, ids: Tensor) -> Tensor:
        shard = self.model.shard
        leaf = shard.rows(table.detach(), ids).requires_grad_()
        local = shard.local(ids.reshape(-1))
        index = self.entity_grad.index_of(local.rows)
        self._leaves.append((leaf, table_grad, index, local.positions))
        return leaf

    @staticmethod
    def _gather(table: Tensor, ids: Tensor) -> Tensor:
        rows = table.detach().index_select(0, ids.reshape(-1))
        return rows.view(*ids.shape, table.shape[1]).requires_grad_()

    def backward(self, outputs: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Backpropagate, and scatter the gradients of all gathered rows.

        Args:
            outputs: what was computed from the gathered rows.
            grads: the gradient of the loss with respect to each output; None for a scalar that is
                itself part of the loss.
        """
        torch.autograd.backward(outputs, grads)
        for leaf, table_grad, index, positions in self._leaves:
            if leaf.grad is not None:
                grad = leaf.grad.view(-1, leaf.shape[-1])
                if positions is not None:
                    grad = grad.index_select(0, positions)
                table_grad.index_add_(0, index, grad)
