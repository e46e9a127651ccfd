"""Objectives that compare a true tail with a few drawn at random, not with all entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from fivestar.graph.known_answers import query_keys
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.training.gradients import gradient_of
from fivestar.training.head_side import asks_for_heads
from fivestar.training.queries import Batch
from fivestar.training.regularizers import Regularizer

# How often a drawn tail that is a known answer is drawn again.
_TRIES = 10


@dataclass(frozen=True)
class SampledLoss:
    """Of the scores of a true tail and of k drawn ones.

    `negative-sampling`: −½ log σ(γ + s) − ½ Σ pⱼ log σ(−γ − sⱼ), p the softmax of `adversarial`
    times the drawn scores, without a gradient (Sun et al. 2019); if `adversarial` is not given, the
    mean binary cross-entropy of all k + 1, γ added to their scores.
    `margin`: the mean of max(0, γ − s + sⱼ) (Bordes et al. 2013).
    """

    kind: Literal["negative-sampling", "margin"]
    margin: float
    adversarial: float | None = None

    def __call__(self, true: Tensor, drawn: Tensor) -> Tensor:
        """The loss of each triple, of scores (T,) and (T, k)."""
        if self.kind == "margin":
            return (self.margin - true[:, None] + drawn).relu().mean(dim=1)
        true, drawn = true + self.margin, drawn + self.margin
        if self.adversarial is None:
            return (softplus(-true) + softplus(drawn).sum(dim=1)) / (1 + drawn.shape[1])
        share = torch.softmax(self.adversarial * drawn.detach(), dim=1)
        return -(logsigmoid(true) + (share * logsigmoid(-drawn)).sum(dim=1)) / 2


class Negatives:
    """Draws tails for triples, uniformly from all entities; known answers never, if so wished."""

    def __init__(self, count: int, entities: int, known: Triples | None = None) -> None:
        self.count = count
        self.entities = entities
        self.relations = 0
        self._keys: Tensor | None = None
        if known is not None:
            self.relations = int(known.relations.max(initial=0)) + 1
            queries = query_keys(known.heads, known.relations, self.relations)
            self._keys = torch.as_tensor(queries * entities + known.tails).sort().values

    def draw(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The drawn tails (T, k), by torch's own generator."""
        drawn = torch.randint(self.entities, (len(heads), self.count), device=heads.device)
        if self._keys is None:
            return drawn
        self._keys = self._keys.to(heads.device)
        query = ((heads * self.relations + relations) * self.entities)[:, None]
        for _ in range(_TRIES):
            known = self._are_known(query + drawn)
            if not known.any():
                return drawn
            again = torch.randint(self.entities, drawn.shape, device=drawn.device)
            drawn = torch.where(known, again, drawn)
        # Queries that almost every entity answers: draw from the few that do not.
        every = torch.arange(self.entities, device=drawn.device)
        known = self._are_known(query + drawn)
        for row in torch.nonzero(known.any(dim=1)).flatten().tolist():
            others = every[~self._are_known(query[row] + every)]
            if len(others):
                some = torch.randint(len(others), (self.count,), device=drawn.device)
                drawn[row] = torch.where(known[row], others[some], drawn[row])
        return drawn

    def _are_known(self, wanted: Tensor) -> Tensor:
        keys = self._keys
        assert keys is not None  # noqa: S101  (asked only where there are some)
        return keys[torch.searchsorted(keys, wanted).clamp_max_(len(keys) - 1)] == wanted


def bernoulli_weights(triples: Triples, relations: int) -> Tensor:
    """How much the two sides of each relation count: (2R,), queries for heads from R on.

    Where a head has many tails, a drawn tail is often true; so with probability tph / (tph + hpt)
    (tails per head, heads per tail) the head is replaced, else the tail (Wang et al., AAAI 2014).
    Here both sides are asked for in every epoch, so each counts twice its probability: the mean.
    """
    number = triples.relations.astype(np.int64)
    facts = np.bincount(number, minlength=relations)
    per_query = []
    for given in (triples.heads, triples.tails):
        asked = np.unique(query_keys(given, triples.relations, relations)) % relations
        per_query.append(facts / np.maximum(np.bincount(asked, minlength=relations), 1))
    tails_per_head, heads_per_tail = per_query
    heads = tails_per_head / np.maximum(tails_per_head + heads_per_tail, 1)
    return torch.as_tensor(np.concatenate([2 - 2 * heads, 2 * heads]), dtype=torch.float32)


class SampledStep:
    """A step of training on drawn tails, in parts that bound its memory."""

    def __init__(
        self,
        model: Model,
        loss: SampledLoss,
        negatives: Negatives,
        regularizer: Regularizer | None = None,
        reg: float = 0.0,
        triples_at_once: int = 1 << 14,
        side_weights: Tensor | None = None,
    ) -> None:
        self.model = model
        self.loss = loss
        self.negatives = negatives
        self.regularizer = regularizer if reg else None
        self.reg = reg
        self.triples_at_once = triples_at_once
        self.side_weights = side_weights
        self.touched: Tensor | None = None  # not known
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def gradients(self, batch: Batch) -> Tensor:
        """The loss of the batch; its gradients replace those in the model's tables."""
        for parameter in self.model.parameters():
            gradient_of(parameter).zero_()
        triples = len(batch.tails)
        add = self._add_heads if asks_for_heads(self.model, batch) else self._add_tails
        at_once = triples if self.model.uses_batch_norm else self.triples_at_once
        total = self.model.entities.new_zeros(())
        for first in range(0, triples, at_once):
            some = slice(first, first + at_once)
            rows = batch.rows[some]
            total += add(batch.heads[rows], batch.relations[rows], batch.tails[some], triples)
        return total

    def _add_tails(self, heads: Tensor, relations: Tensor, tails: Tensor, triples: int) -> Tensor:
        """The loss of some of so many triples; adds its gradients."""
        model = self.model
        head = model.entities.detach()[heads].requires_grad_()
        relation = model.relations.detach()[relations].requires_grad_()
        query = model.transform(head, relation)
        columns = torch.cat([tails[:, None], self.negatives.draw(heads, relations)], dim=1)
        share = self._shares(relations, triples)
        slope = torch.empty_like(query)
        total = self.model.entities.new_zeros(())
        for first in range(0, len(tails), self.triples_at_once):
            some = slice(first, first + self.triples_at_once)
            value, slope[some] = self._compare(
                query.detach()[some], columns[some], share[some], triples
            )
            total += value
        if self.regularizer is not None:
            penalty = self.regularizer.query(model, head, relation, query).sum()
            penalty = penalty * (self.reg / triples)
            torch.autograd.backward([penalty, query], [None, slope])
            total += penalty.detach()
        else:
            torch.autograd.backward([query], [slope])
        gradient_of(model.entities).index_add_(0, heads, gradient_of(head))
        gradient_of(model.relations).index_add_(0, relations, gradient_of(relation))
        return total

    def _add_heads(self, given: Tensor, relations: Tensor, heads: Tensor, triples: int) -> Tensor:
        """Queries for heads: the true one and the drawn ones are all moved by the relation."""
        model = self.model
        entities = gradient_of(model.entities)
        columns = torch.cat([heads[:, None], self.negatives.draw(given, relations)], dim=1)
        number = relations[:, None].expand_as(columns) - len(model.relations)
        head = model.entities.detach()[columns].requires_grad_()
        relation = model.relations.detach()[number].requires_grad_()
        tail = model.candidate_columns(model.entities.detach())[given].requires_grad_()
        query = model.transform(head.flatten(0, 1), relation.flatten(0, 1))
        query = query.unflatten(0, head.shape[:2])  # type: ignore[no-untyped-call]
        scores = model.similarity.score_pairs(query, tail[:, None])
        value = self.loss(scores[:, 0], scores[:, 1:]) @ self._shares(relations, triples)
        if self.regularizer is not None:
            sizes = self.regularizer.query(model, head[:, 0], relation[:, 0], query[:, 0]).sum()
            sizes = sizes + self.regularizer.tail(model, tail)
            value = value + sizes * (self.reg / triples)
        torch.autograd.backward([value])
        for ids, leaf, into in (
            (columns, head, entities),
            (number, relation, gradient_of(model.relations)),
        ):
            into.index_add_(0, ids.reshape(-1), gradient_of(leaf).flatten(0, 1))
        model.candidate_columns(entities).index_add_(0, given, gradient_of(tail))
        return value.detach()

    def _shares(self, relations: Tensor, triples: int) -> Tensor:
        """How much each triple counts."""
        weights = self.side_weights
        if weights is None:
            return self.model.entities.new_full((len(relations),), 1 / triples)
        self.side_weights = weights = weights.to(self.model.entities)
        return weights[relations] / triples

    def _compare(
        self, query: Tensor, columns: Tensor, share: Tensor, triples: int
    ) -> tuple[Tensor, Tensor]:
        """The loss of some queries with the true tail and the drawn ones, its gradient by them."""
        model = self.model
        query = query.requires_grad_()
        table = model.candidate_columns(model.entities.detach())
        candidates = table[columns].requires_grad_()
        scores = model.similarity.score_pairs(query[:, None], candidates)
        value = self.loss(scores[:, 0], scores[:, 1:]) @ share
        if self.regularizer is not None:
            penalty = self.regularizer.tail(model, candidates[:, 0])
            value = value + penalty * (self.reg / triples)
        by_query, by_candidates = torch.autograd.grad(value, (query, candidates))
        into = model.candidate_columns(gradient_of(model.entities))
        into.index_add_(0, columns.reshape(-1), by_candidates.flatten(0, 1))
        return value.detach(), by_query
