"""Which entities a model holds to be alike: those whose embeddings point the same way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.models.base import Model
from fivestar.prediction.named import Named
from fivestar.runs.run import Run

# Entities whose embeddings are looked at together.
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Neighbour:
    """An entity, how alike it is (a cosine, at most 1), and the types that both have.

    `common_types` is None if the graph has no types.
    """

    rank: int
    entity: Named
    similarity: float
    common_types: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def similar(run: Run, entity: str, top: int = 10) -> list[Neighbour]:
    """The entities most like one that is given by name or label, itself left out."""
    if top < 1:
        raise SettingsError(f"top must be at least 1, not {top}")
    graph = run.graph
    asked = graph.entities.find(entity)
    (cosines,) = cosine_similarities(run.model, [asked])
    cosines[asked] = -torch.inf
    values, ids = torch.topk(cosines, min(top, len(cosines) - 1))
    own = set() if graph.types is None else set(graph.types.of(asked))
    return [
        Neighbour(
            rank,
            Named.of(graph.entities, number),
            value,
            None
            if graph.types is None
            else tuple(name for name in graph.types.of(number) if name in own),
        )
        for rank, (value, number) in enumerate(
            zip(values.tolist(), ids.tolist(), strict=True), start=1
        )
    ]


@torch.no_grad()
def cosine_similarities(model: Model, entities: list[int]) -> Tensor:
    """The cosines (n, N) of the centred embeddings of some entities with those of all.

    An embedding that is the centre itself points nowhere: its cosines are 0.
    """
    table = model.entities
    tiles = [table[first : first + _AT_ONCE] for first in range(0, len(table), _AT_ONCE)]
    centre = sum(model.positions(tile.double()).sum(dim=0) for tile in tiles) / len(table)
    asked = _directions(model.positions(table[torch.as_tensor(entities)].double()) - centre)
    found = [
        (asked @ _directions(model.positions(tile.double()) - centre).T).cpu() for tile in tiles
    ]
    return torch.cat(found, dim=1).clamp_(-1, 1)


def _directions(rows: Tensor) -> Tensor:
    size = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(size > 0, size, 1)
