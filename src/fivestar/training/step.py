"""One step of training: gradients of a batch, written in place, and the optimiser's update."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.training.objectives import Workspace, log_partition
from fivestar.training.queries import Batch
from fivestar.training.regularizers import Regularizer


class Step:
    """Softmax over all entities with a regulariser, for one model.

    The loss is a mean over triples: Σ (logsumexp(s) − s(t)) / n + λ · penalty / n.
    """

    def __init__(
        self, model: Model, regularizer: Regularizer | None, reg: float, rows_at_once: int
    ) -> None:
        self.model = model
        self.regularizer = regularizer
        self.reg = reg
        self.workspace = Workspace(rows_at_once, len(model.entities), model.entities)
        for table in (model.entities, model.relations):
            table.grad = torch.zeros_like(table)

    def gradients(self, batch: Batch) -> Tensor:
        """The loss of the batch; its gradients replace those in the model's tables."""
        model, entities, relations = self.model, self.model.entities, self.model.relations
        assert entities.grad is not None  # noqa: S101  (made above)
        assert relations.grad is not None  # noqa: S101
        entities.grad.zero_()
        relations.grad.zero_()
        head = entities.detach()[batch.heads].requires_grad_()
        relation = relations.detach()[batch.relations].requires_grad_()
        tail = entities.detach()[batch.tails].requires_grad_()
        query = model.transform(head, relation)
        loss, slope = self._partition(query.detach(), batch, entities.grad)
        small = self._small_part(query, head, relation, tail, batch)
        torch.autograd.backward([small, query], [None, slope])
        for rows, leaf, into in (
            (batch.heads, head, entities.grad),
            (batch.tails, tail, entities.grad),
            (batch.relations, relation, relations.grad),
        ):
            assert leaf.grad is not None  # noqa: S101
            into.index_add_(0, rows, leaf.grad)
        return loss + small.detach()

    def _partition(self, query: Tensor, batch: Batch, into: Tensor) -> tuple[Tensor, Tensor]:
        """Mean of logsumexp over triples, as many rows at once as the workspace holds."""
        weight = batch.counts.to(query.dtype) / len(batch.tails)
        losses, slopes = [], []
        for first in range(0, len(query), self.workspace.rows):
            some = slice(first, first + self.workspace.rows)
            loss, slope = log_partition(
                query[some],
                weight[some],
                self.model.candidates().detach(),
                self.model.similarity,
                self.workspace,
                into,
            )
            losses.append(loss)
            slopes.append(slope)
        return torch.stack(losses).sum(), torch.cat(slopes)

    def _small_part(
        self, query: Tensor, head: Tensor, relation: Tensor, tail: Tensor, batch: Batch
    ) -> Tensor:
        """All of the loss that needs no pass over the candidates."""
        total = -self.model.similarity.rows(query[batch.rows], tail).sum()
        if self.regularizer is not None and self.reg:
            factors = self.model.factors(head, relation, query)
            counts = batch.counts.to(query.dtype)
            penalty = self.regularizer(factors, counts, self.model.tail_factor(tail))
            total = total + self.reg * penalty
        return total / len(batch.tails)
