"""A second question a step: which relation holds between a head and a tail?

p(r | h, t) over all relations as an auxiliary loss (Chen et al., AKBC 2021). A map that is not
linear in its relation has no product over all relations at once, so the true one is compared with
some that are drawn for the whole step; each of these counts for as many as there are for one of
them. As many triples are asked about as the step has queries, so the cost does not grow with tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.training.gradients import gradient_of
from fivestar.training.queries import Batch

# Moved heads at once; more than fits the cache is slower.
_IN_CACHE = 1 << 12


@dataclass(frozen=True)
class RelationQuestion:
    """How much it weighs, and how many relations are drawn for it; 0: all are compared."""

    weight: float = 0.0
    draws: int = 0

    def add(self, model: Model, batch: Batch, rows_at_once: int) -> Tensor:
        """The loss of a batch; adds its gradients to those in the model's tables."""
        relations = len(model.relations)
        drawn = torch.randperm(relations, device=batch.heads.device)
        drawn = drawn[: self.draws or relations]
        asked = torch.randperm(len(batch.tails), device=drawn.device)[: len(batch.heads)]
        size = max(1, min(rows_at_once, _IN_CACHE) // (1 + len(drawn)))
        share = self.weight / len(asked)
        values = []
        for pairs in torch.split(asked, size):
            row = batch.rows[pairs]
            triples = batch.heads[row], batch.relations[row], batch.tails[pairs]
            values.append(_add(model, triples, drawn, share))
        return torch.stack(values).sum()


NOT_ASKED = RelationQuestion()


def _add(
    model: Model, triples: tuple[Tensor, Tensor, Tensor], drawn: Tensor, share: float
) -> Tensor:
    heads, true, tails = triples
    entities, relations = model.entities.detach(), model.relations.detach()
    head = entities.index_select(0, heads).requires_grad_()
    relation = relations.index_select(0, true).requires_grad_()
    others = relations[drawn].requires_grad_()
    tail = model.candidate_columns(entities).index_select(0, tails).requires_grad_()
    score = model.similarity.score_pairs(model.transform(head, relation), tail)
    scores = model.similarity.score_pairs(
        model.transform_pairwise(head, others), tail[:, None]
    )  # (T, K)
    # Where the true relation was drawn as well, it does not count twice.
    is_other = drawn != true[:, None]
    each = (len(relations) - 1) / is_other.sum(dim=1, keepdim=True).clamp(min=1)
    scores = (scores + each.log()).masked_fill(~is_other, -torch.inf)
    partition = torch.cat([score[:, None], scores], dim=1).logsumexp(dim=1)
    value = share * (partition - score).sum()
    torch.autograd.backward([value])
    into, candidates = gradient_of(model.entities), model.candidate_columns
    into.index_add_(0, heads, gradient_of(head))
    candidates(into).index_add_(0, tails, gradient_of(tail))
    for ids, rows in ((true, relation), (drawn, others)):
        gradient_of(model.relations).index_add_(0, ids, gradient_of(rows))
    return value.detach()
