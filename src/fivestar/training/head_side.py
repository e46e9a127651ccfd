"""Queries for heads, (?, r, t), of a model without reciprocal relations.

A map need not be linear in the head, so there is no shorter way than to move every entity by the
relation and to compare all of them with the given tails. All queries of a batch share the relation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.similarity import TILE, Similarity, Transposed
from fivestar.training.objectives import Loss, Whole, Workspace
from fivestar.training.queries import Batch


def asks_for_heads(model: Model, batch: Batch) -> bool:
    """Whether these queries have a relation that the model has no row for."""
    return bool(len(batch.relations)) and int(batch.relations[0]) >= len(model.relations)


class HeadSide:
    """The loss of queries for heads; what is a tail in a batch is a head here, and conversely."""

    def __init__(
        self,
        model: Model,
        loss: Loss,
        similarity: Similarity,
        workspace: Workspace,
        pairs_at_once: int,
    ) -> None:
        self.model = model
        self.loss = loss
        self.similarity = Transposed(similarity)
        self.workspace = workspace
        self.pairs_at_once = pairs_at_once

    def add(self, batch: Batch, whole: Whole, entities: Tensor, relations: Tensor) -> Tensor:
        """The loss of one part of a batch; adds its gradients to those of the two tables."""
        model = self.model
        number = int(batch.relations[0]) - len(model.relations)
        moved = self._moved(number)
        moved_gradient = torch.zeros_like(moved)
        given = model.candidate_columns(model.entities.detach())[batch.heads]
        counts = batch.counts.to(moved.dtype)
        shares = self.loss.objective.shares(counts, whole, self.loss.label_smoothing)
        value, slope = self.loss.objective.partition(
            given, shares.row, moved, self.similarity, self.workspace, moved_gradient
        )
        if self.loss.label_smoothing:
            more, more_slope = self.similarity.sum_all_with_grad(
                given, shares.uniform, moved, moved_gradient
            )
            value, slope = value + more, slope.add_(more_slope)
        for some in self._pairs(batch):
            rows, heads = batch.rows[some], batch.tails[some]
            score, by_given, by_moved = self.similarity.sum_pairs_with_grad(
                given[rows], moved[heads]
            )
            value = value + shares.pair * score
            slope.index_add_(0, rows, by_given, alpha=shares.pair)
            moved_gradient.index_add_(0, heads, by_moved, alpha=shares.pair)
        model.candidate_columns(entities).index_add_(0, batch.heads, slope)
        self._add_by_moved(number, moved_gradient, entities, relations)
        if self.loss.regularizer is not None and self.loss.reg:
            for some in self._pairs(batch):
                pairs = batch.tails[some], batch.heads[batch.rows[some]]
                value = value + self._add_penalty(
                    *pairs, number, whole.triples, entities, relations
                )
        return value

    def _pairs(self, batch: Batch) -> list[slice]:
        size = self.pairs_at_once
        return [slice(first, first + size) for first in range(0, len(batch.tails), size)]

    @torch.no_grad()
    def _moved(self, relation: int) -> Tensor:
        return torch.cat([self._move(start, relation)[2] for start in self._starts()])

    def _add_by_moved(
        self, relation: int, gradient: Tensor, entities: Tensor, relations: Tensor
    ) -> None:
        """The gradient by all moved entities becomes one by the entities and the relation."""
        for start in self._starts():
            head, row, moved = self._move(start, relation)
            here = slice(start, start + TILE)
            by_head, by_row = torch.autograd.grad(moved, (head, row), gradient[here])
            entities[here] += by_head
            relations[relation] += by_row

    def _starts(self) -> range:
        return range(0, len(self.model.entities), TILE)

    def _move(self, start: int, relation: int) -> tuple[Tensor, Tensor, Tensor]:
        head = self.model.entities.detach()[start : start + TILE].requires_grad_()
        row = self.model.relations.detach()[relation].requires_grad_()
        return head, row, self.model.transform(head, row.expand(len(head), -1))

    def _add_penalty(
        self,
        heads: Tensor,
        tails: Tensor,
        relation: int,
        triples: int,
        entities: Tensor,
        relations: Tensor,
    ) -> Tensor:
        """The penalty of some of so many triples; adds its gradients."""
        model, regularizer = self.model, self.loss.regularizer
        assert regularizer is not None  # noqa: S101  (asked for by the caller)
        head = model.entities.detach()[heads].requires_grad_()
        tail = model.candidate_columns(model.entities.detach())[tails].requires_grad_()
        row = model.relations.detach()[relation].requires_grad_()
        rows = row.expand(len(head), -1)
        sizes = regularizer.query(model, head, rows, model.transform(head, rows)).sum()
        penalty = (sizes + regularizer.tail(model, tail)) * (self.loss.reg / triples)
        by_head, by_row, by_tail = torch.autograd.grad(
            penalty, (head, row, tail), allow_unused=True
        )
        entities.index_add_(0, heads, by_head)
        model.candidate_columns(entities).index_add_(0, tails, by_tail)
        if by_row is not None:
            relations[relation] += by_row
        return penalty.detach()
