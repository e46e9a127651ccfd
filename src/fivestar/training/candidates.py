"""The candidates that all queries of a batch are scored with.

Tail queries are scored with rows of the entity table, head queries without reciprocal relations
with entities transformed by the relation: all of them, or a sample.

Sampled softmax: the candidates of a batch are all its answers, and others sampled uniformly from
the rest. Each sampled candidate has the weight (number of the rest) / (number sampled), so that the
sum over all entities is estimated without bias, whatever the answers are. The cost of a sample
depends on its size, not on the number of entities.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.sharding import Shard
from fivestar.models.similarity import TILE
from fivestar.training.gathered_rows import EntityGrad, GatheredRows, summed_gradients

# Numbers are sampled from a permutation if at least this share of them is.
_LARGE_SHARE = 0.25


class SampleWeight(NamedTuple):
    """The first `size` candidates are sampled and count `weight` times each."""

    size: int
    weight: float


NOT_SAMPLED = SampleWeight(0, 1.0)


class CandidateSample(NamedTuple):
    """Candidate ids, sampled ones first, then the answers; both in ascending order."""

    ids: Tensor
    sampled: SampleWeight


def sample_candidates(
    answers: Tensor, num_candidates: int, num_entities: int, pool: Tensor | None = None
) -> CandidateSample | None:
    """Sample candidates for a batch.

    Args:
        answers: (T,) all answers of the batch.
        num_candidates: number of entities to sample besides the answers.
        num_entities: number of entities of the graph.
        pool: (P,) entities to sample from, in ascending order, all answers among them; their weight
            is that of a sample from all entities. None: all entities.

    Returns:
        The sample; None if it would hold all entities.
    """
    if pool is not None:
        sample = sample_candidates(torch.searchsorted(pool, answers), num_candidates, len(pool))
        return _from_pool(sample, pool, torch.unique(answers), num_entities)
    distinct = torch.unique(answers)
    num_others = num_entities - len(distinct)
    if num_candidates >= num_others:
        return None
    others = sample_distinct(num_candidates, num_others, answers.device)
    # The number of entities that are no answers and come before each answer; ascending. The n-th
    # entity that is no answer comes after as many answers as have at most n such before them.
    num_before = distinct - torch.arange(len(distinct), device=answers.device)
    sampled = others + torch.searchsorted(num_before, others, right=True)
    weight = SampleWeight(num_candidates, num_others / num_candidates)
    return CandidateSample(torch.cat([sampled, distinct]), weight)


def _from_pool(
    sample: CandidateSample | None, pool: Tensor, distinct: Tensor, num_entities: int
) -> CandidateSample:
    """Return a sample of positions in a pool (None: all) as a sample of entities."""
    if sample is None:
        others = pool[~torch.isin(pool, distinct, assume_unique=True)]
    else:
        others = pool[sample.ids[: sample.sampled.size]]
    weight = (num_entities - len(distinct)) / max(1, len(others))
    return CandidateSample(torch.cat([others, distinct]), SampleWeight(len(others), weight))


def sample_distinct(size: int, limit: int, device: torch.device) -> Tensor:
    """Sample distinct numbers below a limit, each set of this size with the same probability.

    Args:
        size: how many, at most `limit`.
        limit: all numbers are below it.
        device: where the sample is made.

    Returns:
        (size,) numbers in ascending order.
    """
    if size >= _LARGE_SHARE * limit:
        return torch.randperm(limit, device=device)[:size].sort()[0]
    sample: Tensor = torch.unique(torch.randint(limit, (size,), device=device))
    # Never more than are missing, or some would have to be removed without a bias.
    while len(sample) < size:
        more = torch.randint(limit, (size - len(sample),), device=device)
        sample = torch.unique(torch.cat([sample, more]))
    return sample


def own_sample(sample: CandidateSample, shard: Shard) -> CandidateSample:
    """Return the part of a sample that this process holds, as rows of its entity table."""
    size, weight = sample.sampled
    sampled, answers = (shard.local(ids).rows for ids in (sample.ids[:size], sample.ids[size:]))
    return CandidateSample(torch.cat([sampled, answers]), SampleWeight(len(sampled), weight))


class Candidates:
    """All entities as tails: a view of the entity table and of its gradient."""

    def __init__(self, model: Model, entity_grad: EntityGrad) -> None:
        self.model = model
        self.entity_grad = entity_grad
        self.table = model.candidate_columns(model.entities.detach())  # (N, D)
        self.table_grad = model.candidate_columns(entity_grad.rows)  # (N, D)
        self.sampled: SampleWeight = NOT_SAMPLED
        # A table that holds all answers (and all entities, for label smoothing), and its gradient.
        self.answer_table = self.table, self.table_grad

    def answer_rows(self, answers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of `answer_table`, and of its gradient, of rows of the entity table."""
        return answers, self.entity_grad.index_of(answers)

    def scatter(self) -> None:
        """Add the gradient of sampled candidates to that of the entity table."""


class SampledCandidates(Candidates):
    """Copies of the rows of a sample of entities."""

    def __init__(self, model: Model, entity_grad: EntityGrad, sample: CandidateSample) -> None:
        super().__init__(model, entity_grad)
        self.ids, self.sampled = sample
        self.table = self.table.index_select(0, self.ids)
        self.table_grad = torch.zeros_like(self.table)

    def scatter(self) -> None:
        """Add the gradient of sampled candidates to that of the entity table."""
        index = self.entity_grad.index_of(self.ids)
        self.answer_table[1].index_add_(0, index, self.table_grad)


class TransformedEntities(Candidates):
    """All entities, or a sample, as heads: transformed by one relation."""

    def __init__(
        self,
        model: Model,
        entity_grad: EntityGrad,
        relation: Tensor,
        sample: CandidateSample | None,
    ) -> None:
        super().__init__(model, entity_grad)
        self.relation = relation  # (1,)
        if sample is None:
            self.ids = torch.arange(len(model.entities), device=relation.device)
        else:
            self.ids, self.sampled = sample
        with torch.no_grad():
            tiles = [self._transform(ids)[1] for ids in torch.split(self.ids, TILE)]
        self.table = torch.cat(tiles)
        self.table_grad = torch.zeros_like(self.table)
        self.answer_table = self.table, self.table_grad

    def answer_rows(self, answers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of `answer_table`, and of its gradient, of rows of the entity table."""
        size = self.sampled.size  # behind the sampled ones, ids are in ascending order
        rows = size + torch.searchsorted(self.ids[size:], answers)
        return rows, rows

    def backward(self) -> None:
        """Backpropagate the gradient of the transformed entities to the model's tables."""
        with summed_gradients(self.model):
            for ids, grad in zip(
                torch.split(self.ids, TILE), torch.split(self.table_grad, TILE), strict=True
            ):
                rows, transformed = self._transform(ids)
                rows.backward([transformed], [grad])

    def _transform(self, ids: Tensor) -> tuple[GatheredRows, Tensor]:
        rows = GatheredRows(self.model, self.entity_grad)
        head, relation = rows.own_heads(ids), rows.relations(self.relation)
        return rows, self.model.transform(head, relation.expand(len(head), -1))
