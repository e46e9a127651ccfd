"""Facts of the same relation whose head and tail are most like the asked ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fivestar.prediction.named import Named
from fivestar.prediction.neighbours import cosine_similarities
from fivestar.prediction.paths import Asked
from fivestar.runs.run import Run


@dataclass(frozen=True)
class Analogy:
    """A fact of train; `similarity` is the mean of the cosines of both heads and both tails."""

    head: Named
    tail: Named
    similarity: float
    head_similarity: float
    tail_similarity: float


def analogous_facts(run: Run, asked: Asked, top: int) -> tuple[Analogy, ...]:
    """The facts of the relation in train that are most like the asked one, which is left out."""
    train, entities = run.graph.train, run.graph.entities
    is_other = (train.heads != asked.head) | (train.tails != asked.tail)
    facts = train.take(np.flatnonzero((train.relations == asked.relation) & is_other))
    like_head, like_tail = cosine_similarities(run.model, [asked.head, asked.tail])
    of_heads = like_head[torch.as_tensor(facts.heads.astype(np.int64))]
    of_tails = like_tail[torch.as_tensor(facts.tails.astype(np.int64))]
    best = torch.topk((of_heads + of_tails) / 2, min(top, len(facts)))
    return tuple(
        Analogy(
            Named.of(entities, int(facts.heads[row])),
            Named.of(entities, int(facts.tails[row])),
            value,
            float(of_heads[row]),
            float(of_tails[row]),
        )
        for value, row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    )
