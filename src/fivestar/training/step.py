"""One step of training: the loss of a batch and its gradients, written in place.

Rows are taken by `index_select`, which copies them four times as fast as indexing does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.similarity import Similarity
from fivestar.training.candidates import Candidates, draw_candidates
from fivestar.training.gradients import gradient_of
from fivestar.training.head_side import HeadSide, asks_for_heads
from fivestar.training.objectives import Loss, Shares, Whole, Workspace, log_partition
from fivestar.training.queries import Batch


class Step:
    """An objective over all entities, for one model, in parts that bound its memory."""

    def __init__(
        self,
        model: Model,
        loss: Loss,
        rows_at_once: int,
        pairs_at_once: int = 1 << 14,
        similarity: Similarity | None = None,
    ) -> None:
        self.model = model
        self.loss = loss
        self.pairs_at_once = pairs_at_once
        self.similarity = similarity or model.similarity
        self._drawn: Candidates | None = None
        # The entities whose gradients are not 0, where these are few.
        self.touched: Tensor | None = None
        self.workspace = Workspace(rows_at_once, len(model.entities), model.entities)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def gradients(self, batch: Batch) -> Tensor:
        """The loss of the batch; its gradients replace those in the model's tables."""
        self._clear()
        whole = Whole(len(batch.heads), len(batch.tails), len(self.model.entities))
        self._drawn = None
        if self.loss.candidates:
            self._drawn = draw_candidates(batch.tails, self.loss.candidates, whole.entities)
        if self._drawn is not None and not self.loss.label_smoothing:
            self.touched = torch.unique(torch.cat([self._drawn.entities, batch.heads]))
        add = self._add_heads if asks_for_heads(self.model, batch) else self._add
        values = [add(part, whole) for part in batch.parts(self.workspace.rows)]
        if self.loss.relation.weight:
            values.append(self.loss.relation.add(self.model, batch, self.pairs_at_once))
        return torch.stack(values).sum()

    def _clear(self) -> None:
        """All gradients are 0 again."""
        for parameter in self.model.parameters():
            if parameter is self.model.entities and self.touched is not None:
                gradient_of(parameter).index_fill_(0, self.touched, 0)
            else:
                gradient_of(parameter).zero_()
        self.touched = None

    def _add_heads(self, batch: Batch, whole: Whole) -> Tensor:
        side = HeadSide(self.model, self.loss, self.similarity, self.workspace, self.pairs_at_once)
        tables = self.model.entities, self.model.relations
        return side.add(batch, whole, *(gradient_of(table) for table in tables))

    def _add(self, batch: Batch, whole: Whole) -> Tensor:
        """The loss of one part of a batch; adds its gradients."""
        entities, relations = self.model.entities, self.model.relations
        head = entities.detach().index_select(0, batch.heads).requires_grad_()
        relation = relations.detach().index_select(0, batch.relations).requires_grad_()
        query = self.model.transform(head, relation)
        counts = batch.counts.to(query.dtype)
        shares = self.loss.objective.shares(counts, whole, self.loss.label_smoothing)
        value, slope = self._over_all_candidates(query.detach(), shares)
        value += self._over_true_tails(query.detach(), batch, shares, whole, slope)
        if self.loss.regularizer is None or not self.loss.reg:
            torch.autograd.backward([query], [slope])
        else:
            sizes = self.loss.regularizer.query(self.model, head, relation, query)
            penalty = self.loss.reg * (sizes @ counts) / whole.triples
            torch.autograd.backward([penalty, query], [None, slope])
            value += penalty.detach()
        gradient_of(entities).index_add_(0, batch.heads, gradient_of(head))
        gradient_of(relations).index_add_(0, batch.relations, gradient_of(relation))
        return value

    def _candidates(self) -> tuple[Tensor, Tensor]:
        """The table that queries are compared with, and where its gradient goes."""
        entities = self.model.entities
        part = self.model.candidate_columns
        return part(entities.detach()), part(gradient_of(entities))

    def _over_all_candidates(self, query: Tensor, shares: Shares) -> tuple[Tensor, Tensor]:
        """What every candidate has a share in, and its gradient by the query."""
        table, into = self._candidates()
        if self._drawn is None:
            value, slope = self.loss.objective.partition(
                query, shares.row, table, self.similarity, self.workspace, into
            )
        else:
            entities, drawn = self._drawn
            some = table.index_select(0, entities)
            slopes = torch.zeros_like(some)
            value, slope = log_partition(
                query, shares.row, some, self.similarity, self.workspace, slopes, drawn
            )
            into.index_add_(0, entities, slopes)
        if self.loss.label_smoothing:
            more, more_slope = self.similarity.sum_all_with_grad(query, shares.uniform, table, into)
            value, slope = value + more, slope.add_(more_slope)
        return value, slope

    def _over_true_tails(
        self, query: Tensor, batch: Batch, shares: Shares, whole: Whole, slope: Tensor
    ) -> Tensor:
        """What only the true tails have a share in; adds its gradient by the query to `slope`."""
        table, into = self._candidates()
        values = []
        for first in range(0, len(batch.tails), self.pairs_at_once):
            some = slice(first, first + self.pairs_at_once)
            rows, tails = batch.rows[some], batch.tails[some]
            tail = table.index_select(0, tails)
            value, by_query, by_tail = self.similarity.sum_pairs_with_grad(
                query.index_select(0, rows), tail
            )
            slope.index_add_(0, rows, by_query, alpha=shares.pair)
            values.append(shares.pair * value)
            if self.loss.regularizer is None or not self.loss.reg:
                into.index_add_(0, tails, by_tail, alpha=shares.pair)
                continue
            penalty = self.loss.regularizer.tail(self.model, tail.requires_grad_())
            penalty = penalty * (self.loss.reg / whole.triples)
            torch.autograd.backward([penalty])
            into.index_add_(0, tails, gradient_of(tail).add_(by_tail, alpha=shares.pair))
            values.append(penalty.detach())
        return torch.stack(values).sum()
