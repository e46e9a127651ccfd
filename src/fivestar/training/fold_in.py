"""Inductive fold-in: fit rows of new entities to their facts while all other weights stay fixed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fivestar.evaluation.ranking import Progress
from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.runs.settings import TrainingSettings
from fivestar.training.gathered_rows import grad_of
from fivestar.training.optimizers import project_to_ball
from fivestar.training.queries import GroupedQueries
from fivestar.training.regularizers import make_regularizer
from fivestar.training.step import CandidateStep, Loss

# Queries per batch.
_BATCH_SIZE = 512


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
    """Fit the rows of new entities with the softmax over all entities, by Adagrad.

    Besides the queries of the new facts, batches of training queries are used: without these
    nothing would lower the scores of new entities as answers.

    Args:
        model: the model, with rows for the new entities; no other row changes.
        facts: facts about the new entities.
        train: training facts of the model.
        relations: number of relations of the graph, without reciprocals.
        new: ids of the new entities.
        training: settings of the run.
        epochs: passes over the facts.
        lr: learning rate.
        progress: called with (epochs done, number of epochs).
    """
    queries, others = (
        GroupedQueries.of(triples, relations, reciprocals=training.reciprocals)
        for triples in (facts, train)
    )
    loss = Loss(make_regularizer(training.regularizer, training.reg_exponent), training.reg_weight)
    step = CandidateStep(model.eval(), loss, _BATCH_SIZE)
    table = model.entities.detach()
    original = table.clone()
    squares = torch.zeros_like(table[new])
    for epoch in range(epochs):
        order = torch.Generator().manual_seed(training.seed * 1_000_003 + epoch)
        samples = others.batches(_BATCH_SIZE, order, table.device)
        for batch in queries.batches(_BATCH_SIZE, order, table.device):
            step.gradients(batch)
            grad = grad_of(model.entities)[new] * len(facts)
            if (sample := next(samples, None)) is not None:
                step.gradients(sample)
                grad += grad_of(model.entities)[new] * len(train)
            squares += grad.square()
            table[new] -= lr * grad / (squares.sqrt() + 1e-10)
            project_to_ball(model)
        if progress is not None:
            progress(epoch + 1, epochs)
    is_old = torch.ones(len(table), dtype=torch.bool, device=table.device)
    is_old[new] = False
    table[is_old] = original[is_old]


@torch.no_grad()
def initialize_rows(
    model: Model, facts: Triples, train: Triples, new: Tensor, relations: int
) -> None:
    """Initialize new rows to the mean row of similar entities.

    By a fact (new, r, t) those are the other heads of (r, t), or else all heads of r.
    """
    table, known = model.entities, with_reciprocals(train, relations)
    new_facts = with_reciprocals(facts, relations)
    for row in new.tolist():
        own = new_facts.heads == row
        similar = []
        for relation, tail in zip(new_facts.relations[own], new_facts.tails[own], strict=True):
            here = known.relations == relation
            same = here & (known.tails == tail)
            similar.append(known.heads[same if same.any() else here])
        found = np.concatenate(similar) if similar else np.zeros(0, np.int32)
        if len(found):
            table[row] = table[torch.as_tensor(found.astype(np.int64))].mean(dim=0)
        else:
            table[row] = table.mean(dim=0)
