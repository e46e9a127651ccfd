"""Nearest neighbors by centered cosine: similar entities, and facts analogous to a triple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from fivestar.cancellation import check_cancelled
from fivestar.errors import SettingsError
from fivestar.models.base import Model
from fivestar.notebook import html_table
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.predictions import (
    Named,
)
from fivestar.runs.run import Run
from fivestar.threads import coarse_threads

# Embeddings compared at once: few enough for the cache.
_CHUNK = 1 << 11


@dataclass(frozen=True)
class Neighbor:
    """An entity, its cosine similarity, and the types that both entities have.

    `common_types` is None if the graph has no types.
    """

    rank: int
    entity: Named
    similarity: float
    common_types: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)


class Neighbors(Sequence[Neighbor]):
    """The nearest neighbors of an entity, best first; a table in notebooks."""

    def __init__(self, entity: Named, neighbors: list[Neighbor]) -> None:
        self.entity = entity
        self._neighbors = neighbors

    @overload
    def __getitem__(self, at: int) -> Neighbor: ...
    @overload
    def __getitem__(self, at: slice) -> list[Neighbor]: ...
    def __getitem__(self, at: int | slice) -> Neighbor | list[Neighbor]:
        return self._neighbors[at]

    def __len__(self) -> int:
        return len(self._neighbors)

    def __repr__(self) -> str:
        rows = (f"{n.rank:4}  {n.similarity:6.3f}  {n.entity}" for n in self)
        return "\n".join([f"nearest neighbors of {self.entity}", *rows])

    def _repr_html_(self) -> str:
        rows = [
            (str(n.rank), str(n.entity), f"{n.similarity:.3f}", ", ".join(n.common_types or ()))
            for n in self
        ]
        columns = ("rank", "entity", "cosine", "common types")
        return html_table(columns, rows, f"nearest neighbors of {self.entity}")


@dataclass(frozen=True)
class Analogy:
    """A training triple; `similarity` is the mean cosine of its head and its tail."""

    head: Named
    tail: Named
    similarity: float
    head_similarity: float
    tail_similarity: float


def similar(run: Run, entity: str, top: int = 10) -> Neighbors:
    """Return the nearest neighbors of an entity given by name or label, without itself."""
    if top < 1:
        raise SettingsError(f"top must be at least 1, not {top}")
    graph = run.graph
    entity_id = graph.entities.find(entity)
    (cosines,) = cosine_similarities(run.model, [entity_id])
    cosines[entity_id] = -torch.inf
    values, ids = torch.topk(cosines, min(top, len(cosines) - 1))
    types = graph.types
    own_types = set() if types is None else set(types.of(entity_id))
    neighbors = [
        Neighbor(
            rank,
            Named.of(graph.entities, number),
            value,
            None if types is None else tuple(t for t in types.of(number) if t in own_types),
        )
        for rank, (value, number) in enumerate(
            zip(values.tolist(), ids.tolist(), strict=True), start=1
        )
    ]
    return Neighbors(Named.of(graph.entities, entity_id), neighbors)


def analogous_facts(
    run: Run, triple: TripleIds, top: int, cosines: Tensor | None = None
) -> tuple[Analogy, ...]:
    """Return the training triples of the relation most similar to `triple`, without itself.

    Args:
        run: the model.
        triple: the triple.
        top: number of triples.
        cosines: cosines (2, N) of its head and of its tail with all entities, if known already.
    """
    train, entities = run.graph.train, run.graph.entities
    is_other = (train.heads != triple.head) | (train.tails != triple.tail)
    facts = train.take(np.flatnonzero((train.relations == triple.relation) & is_other))
    if cosines is None:
        cosines = cosine_similarities(run.model, [triple.head, triple.tail])
    to_head, to_tail = cosines
    head_cosines = to_head[torch.as_tensor(facts.heads.astype(np.int64))]
    tail_cosines = to_tail[torch.as_tensor(facts.tails.astype(np.int64))]
    best = torch.topk((head_cosines + tail_cosines) / 2, min(top, len(facts)))
    return tuple(
        Analogy(
            Named.of(entities, int(facts.heads[row])),
            Named.of(entities, int(facts.tails[row])),
            value,
            float(head_cosines[row]),
            float(tail_cosines[row]),
        )
        for value, row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    )


@torch.no_grad()
@coarse_threads()
def cosine_similarities(model: Model, entities: list[int]) -> Tensor:
    """Return the cosines (n, N) of n centered embeddings with all N; 0 for the center itself."""
    table = model.entities
    center = sum(chunk.sum(dim=0) for chunk in _positions(model)) / len(table)
    rows = _normalized(model.positions(table[torch.as_tensor(entities)].double()) - center)
    cosines = [(rows @ _normalized(chunk - center).T).cpu() for chunk in _positions(model)]
    return torch.cat(cosines, dim=1).clamp_(-1, 1)


def _positions(model: Model) -> Iterator[Tensor]:
    for first in range(0, len(model.entities), _CHUNK):
        check_cancelled()
        yield model.positions(model.entities[first : first + _CHUNK].double())


def _normalized(rows: Tensor) -> Tensor:
    norm = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(norm > 0, norm, 1)
