"""Negative sampling: each triple is compared with k negatives of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from fivestar.graph.known_answers import query_keys
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.training.gathered_rows import EntityGrad, GatheredRows, grad_of
from fivestar.training.negatives import NegativeSampler
from fivestar.training.queries import Batch
from fivestar.training.regularizers import Regularizer
from fivestar.training.step import Step, slices

# The gradient is sparse if a batch samples fewer ids than this share of the entities.
_FEW = 0.5


@dataclass(frozen=True)
class NegativeLoss:
    """A loss per triple, from the scores of its true answer and of k negatives.

    `negative-sampling`: −½ log σ(γ + s) − ½ Σ pⱼ log σ(−γ − sⱼ), where p is the softmax of the
    negatives' scores times `adversarial_temperature`, without a gradient (Sun et al. 2019); without
    a temperature, the mean binary cross-entropy of all k + 1 scores plus γ.
    `margin`: the mean of max(0, γ − s + sⱼ) (Bordes et al. 2013).
    """

    name: Literal["negative-sampling", "margin"]
    margin: float
    adversarial_temperature: float | None = None

    def __call__(self, true: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss (T,) of scores (T,) and (T, k)."""
        if self.name == "margin":
            return (self.margin - true[:, None] + negatives).relu().mean(dim=1)
        true, negatives = true + self.margin, negatives + self.margin
        if self.adversarial_temperature is None:
            return (softplus(-true) + softplus(negatives).sum(dim=1)) / (1 + negatives.shape[1])
        weights = torch.softmax(self.adversarial_temperature * negatives.detach(), dim=1)
        return -(logsigmoid(true) + (weights * logsigmoid(-negatives)).sum(dim=1)) / 2


def bernoulli_weights(triples: Triples, num_relations: int) -> Tensor:
    """Return the weight (2R,) of tail queries, then of head queries, of each relation.

    Bernoulli corruption replaces the head with probability tph / (tph + hpt) (tails per head, heads
    per tail), else the tail, because where a head has many tails, a sampled tail is often true
    (Wang et al., AAAI 2014). Here both sides are trained in every epoch, so each side is weighted
    by twice its probability, which gives the same mean.
    """
    relations = triples.relations.astype(np.int64)
    num_triples = np.bincount(relations, minlength=num_relations)
    per_query = []
    for entities in (triples.heads, triples.tails):
        keys = np.unique(query_keys(entities, triples.relations, num_relations))
        num_queries = np.bincount(keys % num_relations, minlength=num_relations)
        per_query.append(num_triples / np.maximum(num_queries, 1))
    tails_per_head, heads_per_tail = per_query
    corrupts_head = tails_per_head / np.maximum(tails_per_head + heads_per_tail, 1)
    weights = np.concatenate([2 - 2 * corrupts_head, 2 * corrupts_head])
    return torch.as_tensor(weights, dtype=torch.float32)


class NegativeStep(Step):
    """A step that scores each triple with negatives of its own.

    Args:
        model: the model.
        loss: the loss of the scores of a triple and its negatives.
        sampler: samples the negatives.
        regularizer: a penalty on the triples, not on their negatives.
        reg_weight: its weight.
        max_triples: triples at once.
        side_weights: (2R,) weight of tail queries, then of head queries, of each relation.
    """

    def __init__(
        self,
        model: Model,
        loss: NegativeLoss,
        sampler: NegativeSampler,
        regularizer: Regularizer | None = None,
        reg_weight: float = 0.0,
        max_triples: int = 1 << 14,
        side_weights: Tensor | None = None,
    ) -> None:
        super().__init__(model, regularizer, reg_weight)
        self.loss = loss
        self.sampler = sampler
        self.max_triples = max_triples
        self.side_weights = side_weights

    def _own_gradients(self, batch: Batch) -> Tensor:
        batch, num_triples = batch.with_weights_as(self.model.entities.dtype), len(batch.answers)
        # Batch normalization needs all queries of the batch at once.
        size = num_triples if self.model.uses_batch_norm else self.max_triples
        parts = list(slices(num_triples, size))
        candidates: Iterable[Tensor] = (self._candidates(batch, part) for part in parts)
        num_ids = len(batch.entities) + num_triples * (1 + self.sampler.num_negatives)
        touched = None
        if num_ids < _FEW * self.model.num_entities:
            candidates = list(candidates)
            used = [batch.entities, *(ids.flatten() for ids in candidates)]
            touched = torch.unique(torch.cat(used))
        entity_grad = self._zero_grad(touched, batch.relations)
        total = self.model.entities.new_zeros(())
        for part, ids in zip(parts, candidates, strict=True):
            own = self.model.shard.own_part(len(ids))
            triples = slice(part.start + own.start, part.start + own.stop)
            if own.start < own.stop:
                total += self._add(batch, triples, ids[own], entity_grad)
        return total

    def _add(
        self, batch: Batch, triples: slice, candidates: Tensor, entity_grad: EntityGrad
    ) -> Tensor:
        """Return the loss of some triples of a batch with their candidates; add its gradients."""
        model, rows, num_triples = self.model, batch.rows[triples], batch.num_triples
        fact_weights = None if batch.weights is None else batch.weights[triples]
        gathered = GatheredRows(model, entity_grad)
        entities, relations = batch.entities[rows, None], batch.relations[rows, None]  # (T, 1)
        heads, tails = entities, candidates
        if batch.exhaustive:  # (?, r, t): every candidate head is transformed
            heads, tails = candidates, entities
            relations = relations.expand_as(heads)
        head, relation, query = self._transform(gathered, heads, relations)  # (T, 1 or 1 + k, D)
        weights = self._weights(batch.side_relations[rows], fact_weights, num_triples)
        query_grad, total = torch.empty_like(query), model.entities.new_zeros(())
        # Tails that are given are few; of many candidates, each process scores those it holds.
        is_whole = model.shard.is_whole or batch.exhaustive
        compare = self._compare if is_whole else self._compare_own
        for part in slices(len(tails), self.max_triples):
            loss, query_grad[part] = compare(
                query.detach()[part],
                GatheredRows(model, entity_grad),
                tails[part],
                weights[part],
                None if fact_weights is None else fact_weights[part],
                num_triples,
            )
            total += loss
        if self.regularizer is None:
            gathered.backward([query], [query_grad])
            return total
        penalties = self.regularizer.query_penalty(model, head[:, 0], relation[:, 0], query[:, 0])
        penalty = penalties.sum() if fact_weights is None else fact_weights @ penalties
        penalty = penalty * (self.reg_weight / num_triples)
        gathered.backward([penalty, query], [None, query_grad])
        return total + penalty.detach()

    def _candidates(self, batch: Batch, triples: slice) -> Tensor:
        """Return the ids (T, 1 + k) of the answer of each triple and of its negatives."""
        rows = batch.rows[triples]
        negatives = self.sampler.sample(batch.entities[rows], batch.side_relations[rows])
        return torch.cat([batch.answers[triples, None], negatives], dim=1)

    def _transform(
        self, gathered: GatheredRows, heads: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return head rows, relation rows and queries, each of shape (*ids.shape, width)."""
        head, relation = gathered.heads(heads), gathered.relations(relations)
        query = self.model.transform(head.flatten(0, 1), relation.flatten(0, 1))
        return head, relation, query.view(*heads.shape, -1)

    def _compare(
        self,
        query: Tensor,
        gathered: GatheredRows,
        tails: Tensor,
        weights: Tensor,
        fact_weights: Tensor | None,
        num_triples: float,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of queries with their tails and its gradient; add those of the tails."""
        query = query.requires_grad_()
        tail = gathered.tails(tails)
        scores = self.model.similarity.score_pairs(query, tail)  # (T, 1 + k), the answer first
        loss = self.loss(scores[:, 0], scores[:, 1:]) @ weights
        if self.regularizer is not None:
            penalty = self.regularizer.tail_penalty(self.model, tail[:, 0], fact_weights)
            loss = loss + penalty * (self.reg_weight / num_triples)
        gathered.backward([loss], [None])
        return loss.detach(), grad_of(query)

    def _compare_own(
        self,
        query: Tensor,
        gathered: GatheredRows,
        tails: Tensor,
        weights: Tensor,
        fact_weights: Tensor | None,
        num_triples: float,
    ) -> tuple[Tensor, Tensor]:
        """Do what `_compare` does, each process for the candidates that it holds.

        Scores (T, 1 + k) and gradients of queries are summed over all processes, but no rows.
        """
        shard, query = self.model.shard, query.requires_grad_()  # (T, 1, D)
        positions, own_rows = shard.local(tails.reshape(-1))
        assert positions is not None  # noqa: S101  (the table is sharded)
        rows, columns = positions // tails.shape[1], positions % tails.shape[1]
        tail = gathered.own_tails(own_rows)  # (n, D)
        own_scores = self.model.similarity.score_pairs(query[rows, 0], tail)  # (n,)
        scores = query.new_zeros(tails.shape)
        scores[rows, columns] = own_scores.detach()
        scores = shard.sum(scores).requires_grad_()
        loss = self.loss(scores[:, 0], scores[:, 1:]) @ weights
        torch.autograd.backward([loss])
        outputs, grads = [own_scores], [grad_of(scores)[rows, columns]]
        penalty = query.new_zeros(())
        if self.regularizer is not None:
            is_answer = columns == 0
            if fact_weights is not None:
                fact_weights = fact_weights[rows[is_answer]]
            penalty = self.regularizer.tail_penalty(self.model, tail[is_answer], fact_weights)
            penalty = penalty * (self.reg_weight / num_triples)
            outputs.append(penalty)
            grads.append(torch.ones_like(penalty))
        gathered.backward(outputs, grads)
        query_grad = torch.zeros_like(query) if query.grad is None else query.grad
        return loss.detach() + shard.sum(penalty.detach()), shard.sum(query_grad)

    def _weights(
        self, side_relations: Tensor, fact_weights: Tensor | None, num_triples: float
    ) -> Tensor:
        """Return the weight (T,) of each triple."""
        if self.side_weights is None:
            weights = self.model.entities.new_full((len(side_relations),), 1 / num_triples)
        else:
            self.side_weights = self.side_weights.to(self.model.entities)
            weights = self.side_weights[side_relations] / num_triples
        return weights if fact_weights is None else weights * fact_weights
