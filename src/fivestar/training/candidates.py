"""The candidates that all queries of a batch are scored with.

Tail queries are scored with rows of the entity table, head queries without reciprocal relations
with entities transformed by the relation: all of them, or a sample.

Sampled softmax: the candidates of a batch are all its answers, and others sampled uniformly from
the rest. Each sampled candidate has the weight (number of the rest) / (number sampled), so that the
sum over all entities is estimated without bias, whatever the answers are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.models.similarity import TILE
from fivestar.training.gathered_rows import GatheredRows, grad_of


class SampleWeight(NamedTuple):
    """The first `size` candidates are sampled and count `weight` times each."""

    size: int
    weight: float


NOT_SAMPLED = SampleWeight(0, 1.0)


class CandidateSample(NamedTuple):
    """Candidate ids, sampled ones first, then the answers in ascending order."""

    ids: Tensor
    sampled: SampleWeight


def sample_candidates(
    answers: Tensor, num_candidates: int, num_entities: int
) -> CandidateSample | None:
    """Sample candidates for a batch.

    Args:
        answers: (T,) all answers of the batch.
        num_candidates: number of entities to sample besides the answers.
        num_entities: number of entities of the graph.

    Returns:
        The sample; None if it would hold all entities.
    """
    is_other = torch.ones(num_entities, dtype=torch.bool, device=answers.device)
    is_other[answers] = False
    distinct = is_other.logical_not().nonzero().squeeze(1)
    num_others = num_entities - len(distinct)
    if num_candidates >= num_others:
        return None
    order = torch.randperm(num_entities, device=answers.device)[: num_candidates + len(distinct)]
    sampled = order[is_other[order]][:num_candidates]
    weight = SampleWeight(num_candidates, num_others / num_candidates)
    return CandidateSample(torch.cat([sampled, distinct]), weight)


class Candidates:
    """All entities as tails: a view of the entity table and of its gradient."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.table = model.candidate_columns(model.entities.detach())  # (N, D)
        self.table_grad = model.candidate_columns(grad_of(model.entities))  # (N, D)
        self.sampled: SampleWeight = NOT_SAMPLED
        # A table that holds all answers (and all entities, for label smoothing), and its gradient.
        self.answer_table = self.table, self.table_grad

    def answer_rows(self, answers: Tensor) -> Tensor:
        """Return the rows of `answer_table` that hold these entities."""
        return answers

    def scatter(self) -> None:
        """Add the gradient of sampled candidates to that of all entities."""


class SampledCandidates(Candidates):
    """Copies of the rows of a sample of entities."""

    def __init__(self, model: Model, sample: CandidateSample) -> None:
        super().__init__(model)
        self.ids, self.sampled = sample
        self.table = self.table.index_select(0, self.ids)
        self.table_grad = torch.zeros_like(self.table)

    def scatter(self) -> None:
        """Add the gradient of sampled candidates to that of all entities."""
        self.answer_table[1].index_add_(0, self.ids, self.table_grad)


class TransformedEntities(Candidates):
    """All entities, or a sample, as heads: transformed by one relation."""

    def __init__(self, model: Model, relation: Tensor, sample: CandidateSample | None) -> None:
        super().__init__(model)
        self.relation = relation  # (1,)
        self.ids = torch.arange(len(model.entities), device=relation.device)
        if sample is not None:
            self.ids, self.sampled = sample
        with torch.no_grad():
            tiles = [self._transform(ids)[1] for ids in torch.split(self.ids, TILE)]
        self.table = torch.cat(tiles)
        self.table_grad = torch.zeros_like(self.table)
        self.answer_table = self.table, self.table_grad

    def answer_rows(self, answers: Tensor) -> Tensor:
        """Return the rows of `answer_table` that hold these entities."""
        size = self.sampled.size  # behind the sampled ones, ids are in ascending order
        return size + torch.searchsorted(self.ids[size:], answers)

    def backward(self) -> None:
        """Backpropagate the gradient of the transformed entities to the model's tables."""
        for ids, grad in zip(
            torch.split(self.ids, TILE), torch.split(self.table_grad, TILE), strict=True
        ):
            rows, transformed = self._transform(ids)
            rows.backward([transformed], [grad])

    def _transform(self, ids: Tensor) -> tuple[GatheredRows, Tensor]:
        rows = GatheredRows(self.model)
        head, relation = rows.heads(ids), rows.relations(self.relation)
        return rows, self.model.transform(head, relation.expand(len(head), -1))
