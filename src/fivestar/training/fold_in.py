"""Rows of entities that came later, fitted to their facts while everything else stays fixed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fivestar.evaluation.ranking import Progress
from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.plugins import REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.training.gathered_rows import grad_of
from fivestar.training.optimizers import bring_back
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss

# Queries of one step.
_BATCH = 512


def fit_new_rows(  # noqa: PLR0913
    model: Model,
    facts: Triples,
    train: Triples,
    relations: int,
    new: Tensor,
    training: TrainingSettings,
    *,
    epochs: int,
    lr: float,
    progress: Progress | None = None,
) -> None:
    """Fit the rows `new` of the entity table to facts, as training would: softmax over all.

    Both questions of each fact count, and so do all questions of train, by samples: without these
    nothing would say where the new are no answer. Adagrad; nothing but these rows changes.
    """
    queries, others = (
        GroupedQueries.of(triples, relations, reciprocals=training.reciprocals)
        for triples in (facts, train)
    )
    loss = Loss(REGULARIZERS[training.regularizer], training.reg_weight)
    step = CandidateStep(model.eval(), loss, _BATCH)
    table = model.entities.detach()
    kept = table.clone()
    squares = torch.zeros_like(table[new])
    for epoch in range(epochs):
        order = torch.Generator().manual_seed(training.seed * 1_000_003 + epoch)
        samples = others.batches(_BATCH, order, table.device)
        for batch in queries.batches(_BATCH, order, table.device):
            step.gradients(batch)
            slope = grad_of(model.entities)[new] * len(facts)
            if (sample := next(samples, None)) is not None:
                step.gradients(sample)
                slope += grad_of(model.entities)[new] * len(train)
            squares += slope.square()
            table[new] -= lr * slope / (squares.sqrt() + 1e-10)
            bring_back(model)
        if progress is not None:
            progress(epoch + 1, epochs)
    is_old = torch.ones(len(table), dtype=torch.bool, device=table.device)
    is_old[new] = False
    table[is_old] = kept[is_old]


@torch.no_grad()
def first_guess(model: Model, facts: Triples, train: Triples, new: Tensor, relations: int) -> None:
    """Begin where entities are that share facts with the new ones, or a slot of a relation.

    A fact (new, r, t) says: like the other heads of (r, t), or else like the heads of r.
    """
    table, all_ways = model.entities, with_reciprocals(train, relations)
    told = with_reciprocals(facts, relations)
    for row in new.tolist():
        mine = told.heads == row
        alike = []
        for relation, tail in zip(told.relations[mine], told.tails[mine], strict=True):
            here = all_ways.relations == relation
            same = here & (all_ways.tails == tail)
            alike.append(all_ways.heads[same if same.any() else here])
        found = np.concatenate(alike) if alike else np.zeros(0, np.int32)
        if len(found):
            table[row] = table[torch.as_tensor(found.astype(np.int64))].mean(dim=0)
        else:
            table[row] = table.mean(dim=0)
