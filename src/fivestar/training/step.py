"""One training step: the loss of a batch, and its gradients in the model's tables.

Gather rows → transform → score candidates → objective → backward → scatter the rows' gradients.
`GatheredRows` gathers and scatters. `CandidateStep` scores all queries of a batch with the same
candidates, all entities or a sample; `negative_sampling.NegativeStep` each triple with its own.

A step that touches few entities costs what it touches: it gives the entity table a sparse gradient,
which holds only these rows, and nothing in it depends on the number of entities. So does a large
relation table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.similarity import Similarity, Transposed
from fivestar.threads import coarse_threads, run_parts, split_work
from fivestar.training.candidates import (
    Candidates,
    CandidateSample,
    SampledCandidates,
    TransformedEntities,
    own_sample,
    sample_candidates,
)
from fivestar.training.gathered_rows import EntityGrad, GatheredRows, grad_of, sparse_grad
from fivestar.training.mapped_tables import prefetch
from fivestar.training.objectives import (
    SOFTMAX,
    BatchSize,
    Objective,
    Workspace,
    score_answers,
    score_candidates,
)
from fivestar.training.queries import Batch
from fivestar.training.regularizers import Regularizer
from fivestar.training.relation_loss import NO_RELATION_LOSS, RelationLoss

# Numbers in a relation table from which on a sparse gradient pays.
LARGE_TABLE = 1 << 20


class Step(ABC):
    """The loss of a batch and its gradients, in parts that bound the memory."""

    def __init__(self, model: Model, regularizer: Regularizer | None, reg_weight: float) -> None:
        self.model = model
        self.regularizer = regularizer if reg_weight else None
        self.reg_weight = reg_weight
        # The gradient of all entities, made by the first step that needs it.
        self._dense: Tensor | None = None
        for parameter in model.parameters():
            if parameter is not model.entities:
                parameter.grad = torch.zeros_like(parameter)
        self._dense_relations = grad_of(model.relations)

    def gradients(self, batch: Batch) -> Tensor:
        """Return the loss of a batch; its gradients replace those of the model's tables."""
        shard, loss = self.model.shard, self._own_gradients(batch)
        if shard.num_query_groups == 1:
            return loss
        for parameter in self.model.parameters():
            grad = grad_of(parameter)
            # All groups touch the same rows: those of the whole batch.
            shard.sum_over_query_groups(grad.values() if grad.is_sparse else grad)
        return shard.sum_over_query_groups(loss)

    @abstractmethod
    def _own_gradients(self, batch: Batch) -> Tensor:
        """Do what `gradients` does, for the queries of a batch that this query group takes.

        What is sampled, and what the loss is divided by, is that of the whole batch.
        """

    def _zero_grad(self, touched: Tensor | None, relations: Tensor | None = None) -> EntityGrad:
        """Set all gradients to 0.

        Args:
            touched: the entities that the step touches, ids in ascending order; None: all.
            relations: the relations that it touches, in any order; None: all.

        Returns:
            The gradient of the entities, or of those that are touched.
        """
        few = None if relations is None else self._few_relations(relations)
        if few is None:
            self.model.relations.grad = self._dense_relations
        for parameter in self.model.parameters():
            if parameter is self.model.relations and few is not None:
                parameter.grad = sparse_grad(parameter, few)
            elif parameter is not self.model.entities:
                grad_of(parameter).zero_()
        if touched is not None:
            return EntityGrad(self.model, touched)
        if self._dense is None:
            self._dense = torch.empty_like(self.model.entities)
        rows = split_work(len(self._dense), self._dense.numel(), self._dense.device)
        run_parts([self._dense[part].zero_ for part in rows], self._dense.device)
        return EntityGrad(self.model, rows=self._dense)

    def _few_relations(self, relations: Tensor) -> Tensor | None:
        """Return distinct relations in ascending order, if they are few of a large table."""
        table = self.model.relations
        if table.numel() < LARGE_TABLE:
            return None
        touched = torch.unique(relations)
        return touched if 2 * len(touched) <= len(table) else None


@dataclass(frozen=True)
class Loss:
    """An objective over shared candidates, a regularizer and auxiliary losses."""

    regularizer: Regularizer | None = None
    reg_weight: float = 0.0
    label_smoothing: float = 0.0
    objective: Objective = SOFTMAX
    num_candidates: int = 0  # sampled per step besides the answers; 0: all entities
    relation_loss: RelationLoss = NO_RELATION_LOSS


class CandidateStep(Step):
    """A step that scores all queries of a batch with the same candidates.

    Args:
        model: the model.
        loss: the loss.
        max_rows: rows of scores at once.
        max_pairs: true answers at once.
        similarity: used instead of the model's own.
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        max_rows: int,
        max_pairs: int = 1 << 14,
        similarity: Similarity | None = None,
    ) -> None:
        super().__init__(model, loss.regularizer, loss.reg_weight)
        self.loss = loss
        self.max_pairs = max_pairs
        self.similarity = similarity or model.similarity
        self.workspace = Workspace(max_rows, model.entities)

    @coarse_threads()
    def _own_gradients(self, batch: Batch) -> Tensor:
        batch = batch.with_weights_as(self.model.entities.dtype)
        size = BatchSize(len(batch.entities), batch.num_triples, self.model.num_entities)
        sample, touched = None, None
        if self.loss.num_candidates:
            sample = sample_candidates(
                batch.answers, self.loss.num_candidates, size.entities, batch.pool
            )
        # Label smoothing adds the score of every entity, so it touches all of them.
        if sample is not None and not self.loss.label_smoothing:
            touched = torch.unique(torch.cat([sample.ids, batch.entities]))
            if batch.pool is None:  # otherwise the rows of the pool are in memory
                prefetch(self.model.entities, touched)
        if sample is not None:
            sample = own_sample(sample, self.model.shard)
        relations = None if self.loss.relation_loss.weight else batch.relations
        entity_grad = self._zero_grad(touched, relations)
        add = self._add_head_queries if batch.exhaustive else self._add_tail_queries
        parts = batch.parts(self.workspace.rows, self.model.shard.own_part(size.queries))
        losses = [add(part, size, sample, entity_grad) for part in parts]
        if self.loss.relation_loss.weight:
            relation_loss = self.loss.relation_loss
            losses.append(relation_loss.backward(self.model, entity_grad, batch, self.max_pairs))
        return torch.stack([self.model.entities.new_zeros(()), *losses]).sum()

    def _add_tail_queries(
        self,
        batch: Batch,
        size: BatchSize,
        sample: CandidateSample | None,
        entity_grad: EntityGrad,
    ) -> Tensor:
        """Return the loss of a part of a batch; add its gradients."""
        model, rows = self.model, GatheredRows(self.model, entity_grad)
        head, relation = rows.heads(batch.entities), rows.relations(batch.relations)
        query = model.transform(head, relation)  # (B, D)
        candidates = Candidates(model, entity_grad)
        if sample is not None:
            candidates = SampledCandidates(model, entity_grad, sample)
        loss, query_grad = self._score(query.detach(), batch, size, candidates, self.similarity)
        if self.regularizer is None:
            rows.backward([query], [query_grad])
        else:
            per_query = self.regularizer.query_penalty(model, head, relation, query)
            penalty = self.reg_weight * (per_query @ batch.query_weights(query.dtype))
            penalty = penalty / size.triples
            rows.backward([penalty, query], [None, query_grad])
            loss += penalty.detach()
        return loss

    def _add_head_queries(
        self,
        batch: Batch,
        size: BatchSize,
        sample: CandidateSample | None,
        entity_grad: EntityGrad,
    ) -> Tensor:
        """Return the loss of a part of a batch of head queries; add its gradients.

        Entities are transformed by the relation, and scored as heads of the given tails.
        """
        model, rows = self.model, GatheredRows(self.model, entity_grad)
        tail = rows.tails(batch.entities)  # (B, D)
        candidates = TransformedEntities(model, entity_grad, batch.relations[:1], sample)
        similarity = Transposed(self.similarity)
        loss, tail_grad = self._score(tail.detach(), batch, size, candidates, similarity)
        rows.backward([tail], [tail_grad])
        candidates.backward()
        if self.regularizer is not None:
            for pairs in slices(len(batch.answers), self.max_pairs):
                rows = GatheredRows(model, entity_grad)
                head = rows.heads(batch.answers[pairs])
                tail = rows.tails(batch.entities[batch.rows[pairs]])
                relation = rows.relations(batch.relations[:1]).expand(len(head), -1)
                fact_weights = None if batch.weights is None else batch.weights[pairs]
                loss += self._penalty(rows, (head, relation, tail), fact_weights, size)
        return loss

    def _score(
        self,
        query: Tensor,
        batch: Batch,
        size: BatchSize,
        candidates: Candidates,
        similarity: Similarity,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and its gradient by the query (B, D); add those of the candidates.

        Of processes that share the entity table, each adds the answers that it holds.
        """
        shard, own = self.model.shard, self.model.shard.local(batch.answers)
        pair_rows = own.select(batch.rows)
        objective, smoothing = self.loss.objective, self.loss.label_smoothing
        weights = objective.weights(batch.query_weights(query.dtype), size, smoothing)
        fact_weights = None if batch.weights is None else own.select(batch.weights)
        loss, query_grad = score_candidates(
            objective, query, weights.query, candidates, similarity, self.workspace
        )
        candidates.scatter()
        table, table_grad = candidates.answer_table
        losses = [query.new_zeros(())]
        if smoothing:
            uniform_loss, uniform_grad = similarity.sum_all_with_grad(
                query, weights.uniform, table, table_grad
            )
            losses.append(uniform_loss)
            query_grad.add_(uniform_grad)
        for pairs in slices(len(pair_rows), self.max_pairs):
            rows = pair_rows[pairs]
            answer_rows, grad_rows = candidates.answer_rows(own.rows[pairs])
            answer = table.index_select(0, answer_rows)  # (T, D)
            own_weights = None if fact_weights is None else fact_weights[pairs]
            answer_loss, by_query, by_answer, factor = score_answers(
                objective, (query, rows), answer, own_weights, weights, similarity
            )
            losses.append(answer_loss)
            query_grad.index_add_(0, rows, by_query, alpha=factor)
            if self.regularizer is None or batch.exhaustive:
                table_grad.index_add_(0, grad_rows, by_answer, alpha=factor)
                continue
            penalty = self.regularizer.tail_penalty(
                self.model, answer.requires_grad_(), own_weights
            )
            penalty = penalty * (self.reg_weight / size.triples)
            torch.autograd.backward([penalty])
            answer_grad = grad_of(answer).add_(by_answer, alpha=factor)
            table_grad.index_add_(0, grad_rows, answer_grad)
            losses.append(penalty.detach())
        return loss + shard.sum(torch.stack(losses).sum()), shard.sum(query_grad)

    def _penalty(
        self,
        rows: GatheredRows,
        triples: tuple[Tensor, Tensor, Tensor],
        fact_weights: Tensor | None,
        size: BatchSize,
    ) -> Tensor:
        """Return the penalty of gathered triples; add its gradients."""
        model, regularizer, (head, relation, tail) = self.model, self.regularizer, triples
        assert regularizer is not None  # noqa: S101  (checked by the caller)
        query = model.transform(head, relation)
        penalties = regularizer.query_penalty(model, head, relation, query)
        penalty = penalties.sum() if fact_weights is None else fact_weights @ penalties
        penalty = (penalty + regularizer.tail_penalty(model, tail, fact_weights)) * (
            self.reg_weight / size.triples
        )
        rows.backward([penalty], [None])
        return penalty.detach()


def slices(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows that cover `count` rows."""
    for first in range(0, count, size):
        yield slice(first, first + size)
