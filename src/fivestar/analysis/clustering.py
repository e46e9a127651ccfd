"""Do entities of one type lie together? Measured, so that models can be compared.

Embeddings are centred and scaled to a total variance of 1 first, so neither the size nor the place
of a model's cloud counts. Only entities of exactly one of the wanted types are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.extras import require
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.run import Run

Method = Literal["tsne", "pca"]
# As many types as a picture has colours for, if none are named.
_MOST_TYPES = 6
# Distances held at once.
_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Typed:
    """Entities that are of exactly one of some types."""

    types: list[str]
    entities: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]  # the number of its type, for each entity


@dataclass(frozen=True)
class Clustering:
    """How well types are told apart by the place of their entities.

    `within` is the mean squared distance to the centre of the own type, as a share of the total
    variance (1: types mean nothing). `between` is the mean distance of two centres. `silhouette` is
    in [−1, 1]. `purity` is the share of the k nearest neighbours that are of the same type. All are
    means over types, so a large type counts no more than a small one; `chance` is the purity of
    neighbours drawn at random, and `shuffled` holds the same figures with types dealt out anew.
    """

    types: dict[str, int]
    neighbours: int
    within: float
    between: float
    silhouette: float
    purity: float
    chance: float
    shuffled: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def typed_entities(graph: KnowledgeGraph, types: Sequence[str] = ()) -> Typed:
    """Entities of exactly one of these types; without any, of the most frequent ones."""
    held = graph.required_types()
    sizes = np.bincount(held.types, minlength=len(held.vocabulary))
    if types:
        numbers = np.array(list(dict.fromkeys(held.vocabulary.find(name) for name in types)))
    else:
        numbers = np.argsort(-sizes, kind="stable")[:_MOST_TYPES]
    place = np.full(len(sizes), -1)
    place[numbers] = np.arange(len(numbers))
    wanted = place[held.types] >= 0
    entities, which = held.entities[wanted], place[held.types[wanted]]
    once = np.bincount(entities, minlength=len(graph.entities))[entities] == 1
    found = Typed(held.vocabulary.names_of(numbers), entities[once].astype(np.int64), which[once])
    counts = np.bincount(found.classes, minlength=len(numbers))
    if len(numbers) < 2 or counts.min() < 2:
        few = [f"{name} ({count})" for name, count in zip(found.types, counts, strict=True)]
        raise SettingsError(
            "at least two types are needed, each with two entities that are of no other of them; "
            f"there are {', '.join(few)}: name others with types"
        )
    return found


def normalised(run: Run, entities: npt.NDArray[np.int64]) -> Tensor:
    """The embeddings (n, D) of entities, centred, with a total variance of 1."""
    table = run.model.entities.detach()
    rows = run.model.positions(table[torch.as_tensor(entities)].double()).cpu()
    rows = rows - rows.mean(dim=0)
    size = rows.square().sum(dim=1).mean().sqrt()
    if size == 0:
        raise SettingsError("all these entities lie in one point: the model has learned nothing")
    return rows / size


def clustering(run: Run, typed: Typed, neighbours: int = 10, seed: int = 0) -> Clustering:
    """Measure how far types lie apart."""
    rows = normalised(run, typed.entities)
    classes = torch.as_tensor(typed.classes)
    counts = torch.bincount(classes, minlength=len(typed.types))
    if neighbours >= len(rows):
        raise SettingsError(f"only {len(rows)} entities: neighbours must be fewer")
    generator = torch.Generator().manual_seed(seed)
    dealt = classes[torch.randperm(len(classes), generator=generator)]
    found = _figures(rows, classes, counts, neighbours)
    chance = float(((counts - 1) / (len(rows) - 1)).mean())
    return Clustering(
        dict(zip(typed.types, counts.tolist(), strict=True)),
        neighbours,
        **found,
        chance=chance,
        shuffled=_figures(rows, dealt, counts, neighbours),
    )


def entity_map(
    run: Run, typed: Typed, method: Method = "tsne", seed: int = 0
) -> npt.NDArray[np.float64]:
    """The entities as points (n, 2) of the plane."""
    rows = normalised(run, typed.entities)
    if method == "pca":
        _, _, axes = torch.linalg.svd(rows, full_matrices=False)
        if len(axes) < 2:
            raise SettingsError("a map needs a model with at least two numbers an entity")
        flat: npt.NDArray[np.float64] = (rows @ axes[:2].T).numpy()
        return flat
    manifold = require("sklearn.manifold", "plots", "a t-SNE map")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    tsne = manifold.TSNE(init="pca", perplexity=perplexity, random_state=seed)
    placed: npt.NDArray[np.float64] = tsne.fit_transform(rows.numpy()).astype(np.float64)
    return placed


def _figures(rows: Tensor, classes: Tensor, counts: Tensor, neighbours: int) -> dict[str, float]:
    belongs = torch.nn.functional.one_hot(classes, len(counts)).double()
    centres = (belongs.T @ rows) / counts[:, None]
    within = _by_class((rows - centres[classes]).square().sum(dim=1), belongs, counts)
    silhouettes = torch.empty(len(rows), dtype=torch.float64)
    alike = torch.empty(len(rows), dtype=torch.float64)
    step = max(1, _AT_ONCE // len(rows))
    for first in range(0, len(rows), step):
        some = slice(first, first + step)
        distances = torch.cdist(rows[some], rows)
        silhouettes[some] = _silhouettes(distances, classes[some], belongs, counts)
        distances[torch.arange(len(distances)), torch.arange(len(rows))[some]] = torch.inf
        near = distances.topk(neighbours, largest=False).indices
        alike[some] = (classes[near] == classes[some, None]).double().mean(dim=1)
    return {
        "within": within,
        "between": float(torch.pdist(centres).mean()),
        "silhouette": _by_class(silhouettes, belongs, counts),
        "purity": _by_class(alike, belongs, counts),
    }


def _silhouettes(distances: Tensor, classes: Tensor, belongs: Tensor, counts: Tensor) -> Tensor:
    """(b − a)/max(a, b): a is the mean distance within the own type, b to the nearest other one."""
    sums = distances @ belongs
    own = torch.arange(len(classes)), classes
    inside = sums[own] / (counts[classes] - 1)
    means = sums / counts
    means[own] = torch.inf
    outside = means.min(dim=1).values
    return (outside - inside) / torch.maximum(inside, outside).clamp_min(1e-300)


def _by_class(values: Tensor, belongs: Tensor, counts: Tensor) -> float:
    return float(((values @ belongs) / counts).mean())
