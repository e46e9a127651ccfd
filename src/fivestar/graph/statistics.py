"""Statistics of a graph: degrees, relations, components, patterns and leaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import to_arrow
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.relation_forms import RelationForm, relation_forms
from fivestar.graph.relation_patterns import RelationPatterns, RelationRule, find_patterns
from fivestar.graph.report import SplitReport
from fivestar.graph.triples import Triples
from fivestar.notebook import html_table

# Bordes et al. 2013: a side is "many" from 1.5 partners on average.
_MANY = 1.5
_PERCENTILES = (0, 25, 50, 75, 90, 99, 100)
_MIN_LEAK_SHARE = 0.05
_CATEGORIES = ("1-1", "1-N", "N-1", "N-N")


@dataclass(frozen=True)
class RelationProfile:
    """Counts of one relation, and its category (1-1, 1-N, N-1, N-N)."""

    name: str
    triples: int
    heads: int
    tails: int
    tails_per_head: float
    heads_per_tail: float
    category: str


@dataclass(frozen=True)
class HeldOut:
    """How valid or test relates to train; all fields but the first two count lines."""

    unseen_entities: int
    unseen_relations: int
    lines_with_unseen: int
    in_train: int
    reverse_pair_in_train: int
    same_pair_in_train: int
    lines: int


class WeightProfile(NamedTuple):
    """The weights of the facts of a split: how many there are, and their range."""

    facts: int
    minimum: float
    mean: float
    maximum: float


@dataclass(frozen=True)
class GraphProfile:
    """The statistics of a graph, as shown by `fivestar graph info`."""

    graph: KnowledgeGraph
    degrees: dict[str, float]
    degree_histogram: dict[str, int]
    relations: tuple[RelationProfile, ...]
    components: tuple[int, ...]
    patterns: RelationPatterns
    # By relation: whether it forms paths or loops.
    forms: tuple[RelationForm, ...] = ()
    held_out: dict[str, HeldOut] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"GraphProfile({self.graph!r})"

    def _repr_html_(self) -> str:
        names = self.graph.relations
        rows = [
            (
                names.label_of(names.id_of(relation.name)),
                f"{relation.triples:,}",
                f"{relation.tails_per_head:.2f}",
                f"{relation.heads_per_tail:.2f}",
                relation.category,
            )
            for relation in self.relations
        ]
        columns = ("relation", "triples", "tails per head", "heads per tail", "category")
        return html_table(columns, rows, repr(self.graph))

    @property
    def splits(self) -> dict[str, SplitReport]:
        """The report of each split; of a graph that was not read, its triples."""
        reports = {}
        for name, triples in self.graph.splits.items():
            distinct = len(triples.distinct())
            default = SplitReport(
                lines=len(triples), triples=distinct, duplicates=len(triples) - distinct
            )
            reports[name] = self.graph.report.splits.get(name, default)
        return reports

    @property
    def weights(self) -> dict[str, WeightProfile]:
        """The weights by split; splits without weights or facts are omitted."""
        return {
            name: WeightProfile(len(w), float(w.min()), float(w.mean()), float(w.max()))
            for name, triples in self.graph.splits.items()
            if (w := triples.weights) is not None and len(w)
        }

    @property
    def categories(self) -> dict[str, int]:
        """The number of relations per category."""
        return {c: sum(r.category == c for r in self.relations) for c in _CATEGORIES}

    @property
    def warnings(self) -> list[str]:
        """Warnings about suspicious content, duplicates and leaks."""
        return [*self.graph.report.warnings, *_duplicate_warnings(self), *_leak_warnings(self)]

    def as_json(self) -> dict[str, Any]:
        """Return all statistics as JSON values, with names instead of ids."""
        graph = self.graph
        return {
            "name": graph.name,
            "warnings": self.warnings,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "weights": {name: weights._asdict() for name, weights in self.weights.items()},
            "degrees": {"percentiles": self.degrees, "histogram": self.degree_histogram},
            "relation_categories": self.categories,
            "pair_redundancy": round(graph.pair_redundancy, 4),
            "relation_profiles": [asdict(relation) for relation in self.relations],
            "components": {
                "count": len(self.components),
                "largest": self.components[0] if self.components else 0,
            },
            "held_out": {name: asdict(part) for name, part in self.held_out.items()},
            "patterns": self._patterns_as_json(),
            "relation_forms": {
                graph.relations.name_of(number): asdict(form)
                for number, form in enumerate(self.forms)
            },
            "types": len(graph.types.vocabulary) if graph.types else 0,
        }

    def _patterns_as_json(self) -> dict[str, Any]:
        def named(rule: RelationRule) -> dict[str, Any]:
            return {
                "given": self.graph.relations.names_of(list(rule.given)),
                "then": self.graph.relations.name_of(rule.then),
                "support": rule.support,
                "confidence": round(rule.confidence, 4),
            }

        patterns: dict[str, Any] = {
            pattern: [named(rule) for rule in getattr(self.patterns, pattern)]
            for pattern in ("symmetric", "inverse", "duplicate", "composed")
        }
        patterns["anti_symmetric"] = [
            {"relation": self.graph.relations.name_of(rule.then), "support": rule.support}
            for rule in self.patterns.anti_symmetric
        ]
        patterns["share_of_paths_sampled"] = self.patterns.paths_sampled
        return patterns


def profile_graph(graph: KnowledgeGraph) -> GraphProfile:
    """Compute the statistics of a graph.

    Args:
        graph: the graph. Degrees, relations, components and patterns are those of train.

    Returns:
        The statistics, with leaks from train to valid and test.

    >>> from fivestar.graph.reading import read_graph
    >>> profile_graph(read_graph([("a", "knows", "b"), ("b", "knows", "a")])).components
    (2,)
    """
    train = graph.train
    degree = np.bincount(np.concatenate([train.heads, train.tails]), minlength=len(graph.entities))
    return GraphProfile(
        graph=graph,
        degrees=_percentiles(degree[degree > 0]),
        degree_histogram=_histogram(degree),
        relations=relation_profiles(graph),
        components=_components(train, len(graph.entities)),
        patterns=find_patterns(train, len(graph.entities), len(graph.relations)),
        forms=tuple(relation_forms(train, len(graph.entities), len(graph.relations))),
        held_out={
            name: _held_out(graph, graph.split(name))
            for name in ("valid", "test")
            if len(graph.split(name))
        },
    )


def _percentiles(degree: npt.NDArray[np.intp]) -> dict[str, float]:
    values = np.percentile(degree, _PERCENTILES)
    named = {f"p{p}": float(value) for p, value in zip(_PERCENTILES, values, strict=True)}
    return {"mean": float(degree.mean()), **named}


def _histogram(degree: npt.NDArray[np.intp]) -> dict[str, int]:
    """Count entities by degree in train: 0, 1, 2–3, 4–7 and so on."""
    bins = np.ceil(np.log2(degree + 1)).astype(int)  # 0, 1, 2 for 2–3, 3 for 4–7 …
    counts = np.bincount(bins)
    titles = ["0", "1"] + [f"{2 ** (i - 1)}-{2**i - 1}" for i in range(2, len(counts))]
    return {title: int(count) for title, count in zip(titles, counts, strict=False)}


def relation_profiles(graph: KnowledgeGraph) -> tuple[RelationProfile, ...]:
    """Return the counts of every relation in train, the most frequent first."""
    train, relations = graph.train, len(graph.relations)
    triples = np.bincount(train.relations, minlength=relations)
    heads = _distinct_partners(train.heads, train.relations, relations)
    tails = _distinct_partners(train.tails, train.relations, relations)
    profiles = []
    for relation in np.argsort(-triples, kind="stable"):
        count, head_count, tail_count = (
            int(counts[relation]) for counts in (triples, heads, tails)
        )
        tails_per_head = count / head_count if head_count else 0.0
        heads_per_tail = count / tail_count if tail_count else 0.0
        profiles.append(
            RelationProfile(
                name=graph.relations.name_of(int(relation)),
                triples=count,
                heads=head_count,
                tails=tail_count,
                tails_per_head=round(tails_per_head, 3),
                heads_per_tail=round(heads_per_tail, 3),
                category=_category(heads_per_tail, tails_per_head),
            )
        )
    return tuple(profiles)


def _category(heads_per_tail: float, tails_per_head: float) -> str:
    return "-".join("N" if mean >= _MANY else "1" for mean in (heads_per_tail, tails_per_head))


def _distinct_partners(
    entities: npt.NDArray[np.int32], relations: npt.NDArray[np.int32], count: int
) -> npt.NDArray[np.intp]:
    pairs = np.sort(entities.astype(np.int64) * count + relations)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    return np.bincount(pairs % count, minlength=count)


def _components(train: Triples, entities: int) -> tuple[int, ...]:
    """Return the sizes of the connected components of train, largest first.

    Every entity points to the smallest entity that it is linked to, until nothing changes. Pointer
    jumping halves the distance to the root each time, so few rounds are needed.
    """
    root = np.arange(entities)
    while True:
        least = np.minimum(root[train.heads], root[train.tails])
        before = root.copy()
        np.minimum.at(root, before[train.heads], least)
        np.minimum.at(root, before[train.tails], least)
        while not np.array_equal(root, root[root]):
            root = root[root]
        if np.array_equal(root, before):
            break
    sizes = np.bincount(root[_mentioned(train, entities)])
    return tuple(int(size) for size in np.sort(sizes[sizes > 0])[::-1])


def _held_out(graph: KnowledgeGraph, part: Triples) -> HeldOut:
    train = graph.train
    known_entity = _mentioned(train, len(graph.entities))
    known_relation = np.zeros(len(graph.relations), bool)
    known_relation[train.relations] = True
    unseen = _mentioned(part, len(graph.entities)) & ~known_entity
    seen = known_entity[part.heads] & known_entity[part.tails] & known_relation[part.relations]
    width = len(graph.entities)
    train_pairs = to_arrow(train.heads.astype(np.int64) * width + train.tails)
    reverse = to_arrow(part.tails.astype(np.int64) * width + part.heads)
    same = to_arrow(part.heads.astype(np.int64) * width + part.tails)
    return HeldOut(
        unseen_entities=int(unseen.sum()),
        unseen_relations=int((~known_relation[np.unique(part.relations)]).sum()),
        lines_with_unseen=int((~seen).sum()),
        in_train=int(part.are_in(train).sum()),
        reverse_pair_in_train=_count_members(reverse, train_pairs),
        same_pair_in_train=_count_members(same, train_pairs),
        lines=len(part),
    )


def _mentioned(triples: Triples, entities: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the entities that occur in triples."""
    mentioned = np.zeros(entities, bool)
    mentioned[triples.heads] = mentioned[triples.tails] = True
    return mentioned


def _count_members(keys: pa.Array, known: pa.Array) -> int:
    return int(pc.sum(pc.is_in(keys, value_set=known)).as_py() or 0)


def _duplicate_warnings(profile: GraphProfile) -> list[str]:
    messages = []
    for name, split in profile.splits.items():
        if split.duplicates:
            treatment = "dropped" if name == "train" else "kept, and each ranked"
            messages.append(f"{name}: {split.duplicates:,} duplicate lines ({treatment})")
    return messages


def _leak_warnings(profile: GraphProfile) -> list[str]:
    messages = []
    for name, part in profile.held_out.items():
        if part.lines_with_unseen:
            messages.append(
                f"{name}: {part.lines_with_unseen:,} of {part.lines:,} triples have an entity or "
                f"relation that does not occur in train ({part.unseen_entities:,} entities, "
                f"{part.unseen_relations:,} relations); a model cannot predict these"
            )
        if part.in_train:
            messages.append(
                f"{name}: {part.in_train:,} of {part.lines:,} triples are also in train"
            )
        if part.reverse_pair_in_train >= _MIN_LEAK_SHARE * part.lines:
            messages.append(
                f"{name}: the two entities of {part.reverse_pair_in_train:,} of {part.lines:,} "
                f"triples ({part.reverse_pair_in_train / part.lines:.1%}) are linked in the "
                "opposite direction in train: a leak by symmetric and inverse relations"
            )
    return messages
