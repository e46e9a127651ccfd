"""Which paths join two entities, and which of them speak for the asked relation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.steps import Numbers, Steps
from fivestar.prediction.named import Named
from fivestar.prediction.path_reliability import PathReliability, Reliability
from fivestar.prediction.paths import LONGEST, Asked, PathCounts, count_paths, find_path

# Sequences that are tried by a few pairs, and those of them that are measured by many, at most.
_MOST_TRIED = 300
_MOST_MEASURED = 30
_FEW_PAIRS = 200
# Other facts of the relation whose paths tell which sequences to try, and the steps around their
# ends, at most.
_OTHER_FACTS = 12
_STEPS_AROUND = 1_000_000


@dataclass(frozen=True)
class Link:
    """A relation, walked from head to tail or backwards."""

    relation: Named
    backwards: bool

    def __str__(self) -> str:
        return f"←{self.relation.label}—" if self.backwards else f"—{self.relation.label}→"


@dataclass(frozen=True)
class PathKind:
    """All paths between the two entities along one sequence of links.

    `confidence` is the share of other pairs in train joined so that have the asked relation too:
    `supported` of `pairs`, which are all there are if `exact`, else a sample.
    """

    links: tuple[Link, ...]
    count: int
    example: tuple[Named, ...]
    confidence: float | None
    pairs: int
    supported: int
    exact: bool

    def walked(self) -> str:
        """The example, step by step, for people."""
        steps = zip(self.links, self.example[1:], strict=True)
        return self.example[0].label + "".join(f" {link} {end.label}" for link, end in steps)


@dataclass(frozen=True)
class PathEvidence:
    """The most reliable kinds of paths, and how many there are in all.

    `kinds_tried` is how many of them were compared; `complete` tells whether all paths were counted
    or, between hubs, a random part.
    """

    kinds: tuple[PathKind, ...]
    kinds_found: int
    kinds_tried: int
    paths_found: dict[int, int]
    complete: bool


def path_evidence(graph: KnowledgeGraph, steps: Steps, asked: Asked, top: int) -> PathEvidence:
    """What the paths of at most three steps in train say about a fact."""
    counts = count_paths(steps, asked)
    judge = PathReliability(steps, graph.train, len(graph.entities), asked)
    tried = [
        (counts.sequence(int(counts.keys[row])), int(counts.counts[row]))
        for row in _worth_trying(graph, steps, asked, counts)
    ]
    judged = _best_first((judge.of(one, _FEW_PAIRS), one, count) for one, count in tried)
    measured = judged[: max(top, _MOST_MEASURED)]
    judged = _best_first((judge.of(one), one, count) for _, one, count in measured)
    kinds = (
        _kind(graph, steps, asked, sequence, count, reliability)
        for reliability, sequence, count in judged[:top]
    )
    return PathEvidence(
        tuple(kinds), len(counts.keys), len(tried), counts.by_length(), counts.complete
    )


def _kind(
    graph: KnowledgeGraph,
    steps: Steps,
    asked: Asked,
    sequence: tuple[int, ...],
    count: int,
    reliability: Reliability,
) -> PathKind:
    relations = len(graph.relations)
    links = (
        Link(Named.of(graph.relations, link % relations), link >= relations) for link in sequence
    )
    example = (Named.of(graph.entities, entity) for entity in find_path(steps, asked, sequence))
    return PathKind(
        tuple(links),
        count,
        tuple(example),
        reliability.confidence,
        reliability.pairs,
        reliability.supported,
        reliability.exact,
    )


def _best_first(
    judged: Iterable[tuple[Reliability, tuple[int, ...], int]],
) -> list[tuple[Reliability, tuple[int, ...], int]]:
    return sorted(judged, key=lambda each: (-each[0].cautious, -each[2], each[1]))


def _worth_trying(graph: KnowledgeGraph, steps: Steps, asked: Asked, counts: PathCounts) -> Numbers:
    """The rows of sequences that are tried: short ones, then what other facts have too.

    Among long sequences that as many other facts of the relation have, the ones of the rarest
    relations come first: they join few pairs, so they can say most.
    """
    if len(counts.keys) <= _MOST_TRIED:
        return np.arange(len(counts.keys))
    recurs = np.zeros(len(counts.keys), np.int64)
    for other in _other_facts(graph, steps, asked):
        recurs += np.isin(counts.keys, count_paths(steps, other).keys)
    sizes = np.bincount(graph.train.relations, minlength=len(graph.relations))
    rarity = np.zeros(len(counts.keys))
    rest = counts.keys.copy()
    while rest.any():
        rest, digit = np.divmod(rest, counts.links + 1)
        relation = (digit - 1) % len(graph.relations)
        rarity += np.where(digit > 0, np.log(np.maximum(sizes[relation], 1)), 0)
    is_long = counts.lengths() == LONGEST
    return np.lexsort((rarity, -recurs, is_long))[:_MOST_TRIED]


def _other_facts(graph: KnowledgeGraph, steps: Steps, asked: Asked) -> list[Asked]:
    """Some other facts of the relation, not all of them among hubs."""
    train = graph.train
    is_other = (train.heads != asked.head) | (train.tails != asked.tail)
    rows = np.flatnonzero((train.relations == asked.relation) & is_other)
    some = train.take(np.random.default_rng(0).permutation(rows)[: 4 * _OTHER_FACTS])
    found: list[Asked] = []
    around = 0
    for head, relation, tail in some.array.tolist():
        cost = min(_steps_around(steps, head), _steps_around(steps, tail))
        if around + cost <= _STEPS_AROUND and len(found) < _OTHER_FACTS:
            found.append(Asked(head, relation, tail))
            around += cost
    return found


def _steps_around(steps: Steps, entity: int) -> int:
    """How many steps leave the neighbours of an entity."""
    _, ends = steps.leaving(entity)
    return int(steps.all_of(np.unique(ends)).count.sum())
