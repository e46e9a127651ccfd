"""Metrics of how well embeddings separate the types of entities.

Embeddings are centered and scaled to a total variance of 1, so that models are comparable. Only
entities of exactly one of the selected types are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.analysis import tsne
from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.run import Run

Method = Literal["tsne", "pca"]
# Number of types if none are named: as many as a plot has colors.
_DEFAULT_TYPES = 6
# Maximum number of distances in memory.
_MAX_DISTANCES = 1 << 24


@dataclass(frozen=True)
class TypedEntities:
    """Entities that are of exactly one of several types.

    Attributes:
        types: the names of the types.
        entities: the ids (n) of the entities.
        classes: for each entity (n) the index of its type.
    """

    types: list[str]
    entities: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]


@dataclass(frozen=True)
class ClusteringMetrics:
    """Metrics of the separation of types. All are unweighted means over types.

    Attributes:
        types: the number of entities per type.
        num_neighbors: the k of `purity`.
        within: the mean squared distance to the center of the own type, as a share of the total
            variance (1: types are not separated at all).
        between: the mean distance of two centers.
        silhouette: the mean silhouette coefficient, in [−1, 1].
        purity: the share of the k nearest neighbors that are of the same type.
        random_purity: the expected purity of random neighbors.
        permutation_baseline: the same metrics after a permutation of the types.
    """

    types: dict[str, int]
    num_neighbors: int
    within: float
    between: float
    silhouette: float
    purity: float
    random_purity: float
    permutation_baseline: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


def typed_entities(graph: KnowledgeGraph, types: Sequence[str] = ()) -> TypedEntities:
    """Select the entities that are of exactly one of several types.

    Args:
        graph: a graph with types of entities.
        types: names of types; by default the most frequent ones.

    Returns:
        The entities and their types.

    Raises:
        GraphError: if the graph has no types.
        SettingsError: unless there are two types with two such entities each.
    """
    entity_types = graph.required_types()
    sizes = np.bincount(entity_types.types, minlength=len(entity_types.vocabulary))
    if types:
        type_ids = np.array(list(dict.fromkeys(map(entity_types.vocabulary.find, types))))
    else:
        type_ids = np.argsort(-sizes, kind="stable")[:_DEFAULT_TYPES]
    class_of_type = np.full(len(sizes), -1)
    class_of_type[type_ids] = np.arange(len(type_ids))
    selected = class_of_type[entity_types.types] >= 0
    entities = entity_types.entities[selected]
    classes = class_of_type[entity_types.types[selected]]
    once = np.bincount(entities, minlength=len(graph.entities))[entities] == 1
    names = entity_types.vocabulary.names_of(type_ids)
    counts = np.bincount(classes[once], minlength=len(type_ids))
    if len(type_ids) < 2 or counts.min() < 2:
        sizes_text = ", ".join(f"{name} ({n})" for name, n in zip(names, counts, strict=True))
        raise SettingsError(
            "at least two types are needed, each with two entities of no other selected type; "
            f"there are {sizes_text}: select others with types"
        )
    return TypedEntities(names, entities[once].astype(np.int64), classes[once])


def normalized_embeddings(run: Run, entities: npt.NDArray[np.int64]) -> Tensor:
    """Return the embeddings (n, D) of entity ids (n), centered, with a total variance of 1.

    Raises:
        SettingsError: if all embeddings are equal.
    """
    table = run.model.entities.detach()
    rows = run.model.positions(table[torch.as_tensor(entities)].double()).cpu()
    rows = rows - rows.mean(dim=0)
    scale = rows.square().sum(dim=1).mean().sqrt()
    if scale == 0:
        raise SettingsError("all these entities have the same embedding: the model is untrained")
    return rows / scale


def clustering_metrics(
    run: Run, typed: TypedEntities, num_neighbors: int = 10, seed: int = 0
) -> ClusteringMetrics:
    """Measure how well the embeddings of a run separate types.

    Args:
        run: a run of any model.
        typed: entities and their types.
        num_neighbors: the number of nearest neighbors for `purity`.
        seed: the seed of the permutation baseline.

    Returns:
        The metrics and their baselines.

    Raises:
        SettingsError: if there are not more entities than neighbors.
    """
    rows = normalized_embeddings(run, typed.entities)
    classes = torch.as_tensor(typed.classes)
    counts = torch.bincount(classes, minlength=len(typed.types))
    if num_neighbors >= len(rows):
        raise SettingsError(f"num_neighbors must be below the number of entities, {len(rows)}")
    generator = torch.Generator().manual_seed(seed)
    permuted = classes[torch.randperm(len(classes), generator=generator)]
    return ClusteringMetrics(
        dict(zip(typed.types, counts.tolist(), strict=True)),
        num_neighbors,
        **_metrics(rows, classes, counts, num_neighbors),
        random_purity=float(((counts - 1) / (len(rows) - 1)).mean()),
        permutation_baseline=_metrics(rows, permuted, counts, num_neighbors),
    )


def entity_map(
    run: Run,
    typed: TypedEntities,
    method: Method = "tsne",
    seed: int = 0,
    project: Callable[[npt.NDArray[np.float64], int], npt.NDArray[np.float64]] = tsne.project,
) -> npt.NDArray[np.float64]:
    """Project embeddings to the plane.

    Args:
        run: a run of any model.
        typed: the entities to project.
        method: "tsne" or "pca".
        seed: the seed of t-SNE.
        project: computes the t-SNE of rows (n, D) with a seed.

    Returns:
        The points (n, 2).

    Raises:
        SettingsError: if the embeddings have only one dimension.
        MissingExtra: if scikit-learn is not installed, which t-SNE needs.
    """
    rows = normalized_embeddings(run, typed.entities)
    if method == "pca":
        _, _, axes = torch.linalg.svd(rows, full_matrices=False)
        if len(axes) < 2:
            raise SettingsError("a map needs embeddings with at least two dimensions")
        projected: npt.NDArray[np.float64] = (rows @ axes[:2].T).numpy()
        return projected
    return project(rows.numpy(), seed)


def _metrics(rows: Tensor, classes: Tensor, counts: Tensor, num_neighbors: int) -> dict[str, float]:
    one_hot = torch.nn.functional.one_hot(classes, len(counts)).double()
    centers = (one_hot.T @ rows) / counts[:, None]
    within = _mean_over_classes((rows - centers[classes]).square().sum(dim=1), one_hot, counts)
    silhouettes = torch.empty(len(rows), dtype=torch.float64)
    purities = torch.empty(len(rows), dtype=torch.float64)
    step = max(1, _MAX_DISTANCES // len(rows))
    for first in range(0, len(rows), step):
        tile = slice(first, first + step)
        distances = torch.cdist(rows[tile], rows)
        silhouettes[tile] = _silhouettes(distances, classes[tile], one_hot, counts)
        distances[torch.arange(len(distances)), torch.arange(len(rows))[tile]] = torch.inf
        neighbors = distances.topk(num_neighbors, largest=False).indices
        purities[tile] = (classes[neighbors] == classes[tile, None]).double().mean(dim=1)
    return {
        "within": within,
        "between": float(torch.pdist(centers).mean()),
        "silhouette": _mean_over_classes(silhouettes, one_hot, counts),
        "purity": _mean_over_classes(purities, one_hot, counts),
    }


def _silhouettes(distances: Tensor, classes: Tensor, one_hot: Tensor, counts: Tensor) -> Tensor:
    """Return (b − a)/max(a, b): a is the mean distance within the type, b to the nearest other."""
    sums = distances @ one_hot
    own = torch.arange(len(classes)), classes
    inside = sums[own] / (counts[classes] - 1)
    means = sums / counts
    means[own] = torch.inf
    outside = means.min(dim=1).values
    return (outside - inside) / torch.maximum(inside, outside).clamp_min(1e-300)


def _mean_over_classes(values: Tensor, one_hot: Tensor, counts: Tensor) -> float:
    return float(((values @ one_hot) / counts).mean())
