"""Auxiliary relation-prediction loss: −log p(r | h, t) over all relations (Chen et al., AKBC 2021).

A transformation need not be linear in its relation, so there is no matrix product over all
relations at once: the true relation is compared with relations sampled once per step, each weighted
by the number of relations that it represents. As many triples are used as the batch has queries, so
the cost does not grow with the number of answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.training.gathered_rows import EntityGrad, GatheredRows
from fivestar.training.queries import Batch

# Transformed heads at once; more than fits the cache is slower.
_MAX_ROWS = 1 << 12


@dataclass(frozen=True)
class RelationLoss:
    """The weight of the loss, and the number of sampled relations (0: all of them)."""

    weight: float = 0.0
    num_candidates: int = 0

    def backward(
        self, model: Model, entity_grad: EntityGrad, batch: Batch, max_rows: int
    ) -> Tensor:
        """Return the loss of a batch; add its gradients to those of the model's tables.

        Args:
            model: the model.
            entity_grad: the gradient of its entity table.
            batch: queries with their answers.
            max_rows: transformed heads at once.
        """
        num_relations = len(model.relations)
        sampled = torch.randperm(num_relations, device=batch.entities.device)
        sampled = sampled[: self.num_candidates or num_relations]
        pairs = torch.randperm(len(batch.answers), device=sampled.device)[: len(batch.entities)]
        size = max(1, min(max_rows, _MAX_ROWS) // (1 + len(sampled)))
        weights = None
        if batch.weights is not None:  # a weighted mean over the triples
            weights = batch.weights[pairs]
            weights = weights / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)
        losses = [model.entities.new_zeros(())]
        own = model.shard.own_part(len(pairs))
        for start in range(own.start, own.stop, size):
            stop = min(start + size, own.stop)
            part = pairs[start:stop]
            row = batch.rows[part]
            triples = batch.entities[row], batch.relations[row], batch.answers[part]
            rows = GatheredRows(model, entity_grad)
            weight: float | Tensor = self.weight / len(pairs)
            if weights is not None:
                weight = self.weight * weights[start:stop]
            losses.append(_backward(rows, triples, sampled, weight))
        return torch.stack(losses).sum()


NO_RELATION_LOSS = RelationLoss()


def _backward(
    rows: GatheredRows,
    triples: tuple[Tensor, Tensor, Tensor],
    sampled: Tensor,
    weight: float | Tensor,
) -> Tensor:
    """Return the loss of triples with one weight, or one weight (T,) each; add its gradients."""
    model, (heads, relations, tails) = rows.model, triples
    head, tail = rows.heads(heads), rows.tails(tails)
    true, others = rows.relations(relations), rows.relations(sampled)
    score_pairs = model.similarity.score_pairs
    score = score_pairs(model.transform(head, true), tail)  # (T,)
    scores = score_pairs(model.transform_pairwise(head, others), tail[:, None])  # (T, K)
    # Where the true relation was sampled as well, it does not count twice.
    is_other = sampled != relations[:, None]
    represented = (len(model.relations) - 1) / is_other.sum(dim=1, keepdim=True).clamp(min=1)
    scores = (scores + represented.log()).masked_fill(~is_other, -torch.inf)
    log_total = torch.cat([score[:, None], scores], dim=1).logsumexp(dim=1)
    losses = log_total - score  # (T,)
    loss = weight @ losses if isinstance(weight, Tensor) else weight * losses.sum()
    rows.backward([loss], [None])
    return loss.detach()
