"""Facts of a relation in single dimensions: where its map takes the heads, and how near the tails.

A head lands nearest its own tail if, of the tails of the chosen facts, the one with the smallest
chordal distance to the head's image is a tail of the head in the graph. The baseline permutes the
tails among the heads; its mean and standard deviation over all permutations are exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.analysis.relations import entity_points, transform_points
from fivestar.geometry.mobius import chordal_distance, reflect
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.models.fivestar import FiveStarE

Numbers = npt.NDArray[np.int64]
# A count beats the baseline if it exceeds its mean by this many standard deviations.
MIN_DEVIATIONS = 4.0
MIN_HEADS = 5
# Maximum number of distances in memory.
_MAX_DISTANCES = 1 << 20
_NOUN = re.compile(r"[a-z]+(?:[_ ][a-z]+)*")
_IRREGULAR = {
    "child": "children",
    "man": "men",
    "person": "people",
    "series": "series",
    "species": "species",
    "woman": "women",
}


@dataclass(frozen=True)
class Landing:
    """How many heads land nearest their own tail in one dimension.

    Attributes:
        count: heads whose image is nearest to a tail of their own.
        total: number of heads.
        expected: mean of `count` over all permutations of the tails among the heads.
        deviation: standard deviation of `count` over these permutations.
    """

    count: int
    total: int
    expected: float
    deviation: float

    @property
    def excess(self) -> float:
        """Return by how many standard deviations the count exceeds the baseline."""
        return (self.count - self.expected) / self.deviation if self.deviation > 0 else 0.0

    @property
    def is_telling(self) -> bool:
        """Return whether the count beats the baseline: by 4 standard deviations, of 5 heads."""
        return self.total >= MIN_HEADS and self.excess > MIN_DEVIATIONS


@dataclass(frozen=True)
class FactPoints:
    """Points of facts in all dimensions, as complex numbers.

    Attributes:
        heads: embeddings (n, d) of the heads.
        images: their images (n, d) under the maps of the relation.
        targets: points (n, d) that the images approach: the tails, conjugated for the bilinear
            pairing.
    """

    heads: Tensor
    images: Tensor
    targets: Tensor

    @property
    def scale(self) -> Tensor:
        """Return per dimension (d) the modulus that is shown as the equator of the sphere.

        It is three times the median of the moduli of heads and targets, so that most points are on
        the side of 0, and can be seen at once. Distances on the sphere are those of points divided
        by it.
        """
        moduli = torch.cat([self.heads, self.targets]).abs()
        return 3 * moduli.median(dim=0).values.clamp_min(1e-12)


def choose_facts(
    graph: KnowledgeGraph, relation: int, limit: int, first: tuple[int, int] | None = None
) -> Triples:
    """Choose facts of a relation that show well what it does.

    Facts whose head and tail have many triples come first, and each head and tail once before any
    comes again: forty countries, each with a city, and not forty cities of one country.

    Args:
        graph: the graph.
        relation: id of the relation.
        limit: maximum number of facts.
        first: head and tail of a triple that comes first, whether or not the graph holds it.

    Returns:
        The facts of all splits, without duplicates, in this order.
    """
    mask = graph.facts.relations == relation
    pairs = np.unique(np.stack([graph.facts.heads[mask], graph.facts.tails[mask]], axis=1), axis=0)
    degree = np.bincount(
        np.concatenate([graph.facts.heads, graph.facts.tails]), minlength=len(graph.entities)
    )
    pairs = pairs[np.argsort(-degree[pairs].prod(axis=1), kind="stable")]
    if first is not None:
        others = pairs[(pairs != np.array(first)).any(axis=1)]
        pairs = np.concatenate([np.array([first], pairs.dtype), others])
    turns = np.maximum(_occurrences(pairs[:, 0]), _occurrences(pairs[:, 1]))
    pairs = pairs[np.argsort(turns, kind="stable")][:limit]
    return Triples(pairs[:, 0], np.full(len(pairs), relation), pairs[:, 1])


def _occurrences(ids: npt.NDArray[np.integer]) -> Numbers:
    """Return how often each id occurs before its place.

    >>> _occurrences(np.array([7, 8, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.searchsorted(ordered, ordered)
    counts = np.empty(len(ids), np.int64)
    counts[order] = np.arange(len(ids)) - starts
    return counts


@torch.no_grad()
def fact_points(model: FiveStarE, facts: Triples) -> FactPoints:
    """Return the points of facts of one relation in all dimensions."""
    relation = model.relations.detach()[torch.as_tensor(facts.relations.astype(np.int64))]
    heads, tails = (
        entity_points(model, torch.as_tensor(ids.astype(np.int64)))
        for ids in (facts.heads, facts.tails)
    )
    targets = tails if model.pairing == "hermitian" else reflect(tails)
    return FactPoints(heads, transform_points(model, relation, heads), targets)


def nearest_tails(facts: Triples, points: FactPoints) -> Numbers:
    """Return per fact and dimension (n, d) the tail nearest to the image of the head.

    Candidates are the tails of the facts; distances are chordal, of points divided by
    `FactPoints.scale`.
    """
    tails, rows = np.unique(facts.tails, return_index=True)
    images, targets = (
        each / points.scale for each in (points.images, points.targets[torch.as_tensor(rows)])
    )
    step = max(1, _MAX_DISTANCES // (len(images) * len(targets)))
    nearest = [
        chordal_distance(images[:, None, at : at + step], targets[:, at : at + step]).argmin(dim=1)
        for at in range(0, images.shape[1], step)
    ]
    ids: Numbers = tails[torch.cat(nearest, dim=1).numpy()].astype(np.int64)
    return ids


def landings(graph: KnowledgeGraph, facts: Triples, points: FactPoints) -> list[Landing]:
    """Count per dimension the heads that land nearest a tail of their own.

    Args:
        graph: the graph; a tail is a head's own if any split holds the fact. Heads without one
            among the tails of `facts` are not counted.
        facts: facts of one relation, as `choose_facts` returns them.
        points: their points.

    Returns:
        One count per dimension, with its random baseline.
    """
    heads, rows = np.unique(facts.heads, return_index=True)
    tails = np.unique(facts.tails)
    own = np.zeros((len(heads), len(tails)), bool)
    known = graph.facts.take(graph.facts.relations == facts.relations[0])
    known = known.take(np.isin(known.heads, heads) & np.isin(known.tails, tails))
    own[np.searchsorted(heads, known.heads), np.searchsorted(tails, known.tails)] = True
    counted = own.any(axis=1)
    nearest = np.searchsorted(tails, nearest_tails(facts, points)[rows[counted]])
    return [_landing(own[counted], column) for column in nearest.T]


def _landing(own: npt.NDArray[np.bool_], nearest: Numbers) -> Landing:
    """Count heads whose nearest tail is their own.

    The baseline is Σ hits[i, π(i)] over permutations π, whose mean and variance are known exactly
    (Hoeffding, Annals of Mathematical Statistics 22, 1951).
    """
    hits = own[:, nearest].T.astype(np.float64)  # whether the nearest tail of i is one of j's
    total = len(hits)
    if total == 0:
        return Landing(0, 0, 0.0, 0.0)
    centered = hits - hits.mean(axis=0) - hits.mean(axis=1)[:, None] + hits.mean()
    variance = float(np.square(centered).sum()) / (total - 1) if total > 1 else 0.0
    return Landing(int(np.trace(hits)), total, float(hits.sum()) / total, variance**0.5)


def describe_landing(
    landing: Landing, head_type: str | None = None, tail_type: str | None = None
) -> str | None:
    """Return one sentence about what a dimension does for its heads; None if nothing is telling.

    Args:
        landing: the count and its baseline.
        head_type: the type of the heads, if they have one in common.
        tail_type: the type of the tails, if they have one in common.

    >>> describe_landing(Landing(38, 45, 1.04, 1.0), "capital", "country")
    'Brings capitals to their countries: 38 of 45 land nearest their own (1.0 expected at random).'
    >>> describe_landing(Landing(9, 45, 1.04, 1.0))
    'Brings some heads to their tails: 9 of 45 land nearest their own (1.0 expected at random).'
    >>> describe_landing(Landing(2, 45, 1.04, 1.0)) is None
    True
    """
    if not landing.is_telling:
        return None
    heads, tails = plural_of(head_type), plural_of(tail_type)
    if heads is None or tails is None:
        heads, tails = "heads", "their tails"
    else:
        tails = f"related {tails}" if heads == tails else f"their {tails}"
    some = "some " if 2 * landing.count < landing.total else ""
    return (
        f"Brings {some}{heads} to {tails}: {landing.count} of {landing.total} land nearest "
        f"their own ({landing.expected:.1f} expected at random)."
    )


def plural_of(type_name: str | None) -> str | None:
    """Return the plural of a type that is an English noun; None for others, such as IRIs.

    >>> [plural_of(name) for name in ("city", "time_zone", "box", "/film/film", None)]
    ['cities', 'time zones', 'boxes', None, None]
    """
    if type_name is None or not _NOUN.fullmatch(type_name):
        return None
    noun = type_name.replace("_", " ")
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"
