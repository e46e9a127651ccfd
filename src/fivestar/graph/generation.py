"""Generated graphs of any size, with planted patterns, for measuring scale and quality.

Every fact is a function of the seed, its head and a counter, so a graph is written piece by piece
in memory that depends on the number of entities only. Entities have a popularity rank with
power-law degrees and belong to groups. A relation leads from the group of its head to one other
group, where popular entities are chosen more often. So a model can learn which entities to prefer,
and a known share of the facts (`noise`) has a tail that nobody can predict.

The patterns hold for single facts, with the confidence `_CONFIDENCE`:

- symmetric: (h, r, t) comes with (t, r, h);
- inverse: (h, r, t) comes with (t, r⁻¹, h);
- composed: (x, r₁, y) and (y, r₂, z) come with (x, r₃, z);
- hierarchical: the groups form a tree, and tails are in the parent group;
- path and loop: the entities of a group form a path in one half of the groups and a loop in the
  other, of the same relation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import SettingsError
from fivestar.files import atomic_folder, sync_file
from fivestar.graph.arrow import to_arrow
from fivestar.graph.readers.base import TripleColumns
from fivestar.graph.writers import folder_file_ending, open_sink
from fivestar.graph.writers.base import WriteOptions

Ints = npt.NDArray[np.int64]
Facts = tuple[Ints, Ints, Ints]
Progress = Callable[[int, int], None]
# How often a fact that a pattern implies is in the graph.
_CONFIDENCE = 0.9
# The kinds of relations, in turn; some come as several relations.
_KINDS = {
    "hierarchical": 1,
    "symmetric": 1,
    "inverse": 2,
    "composed": 3,
    "path and loop": 1,
    "plain": 2,
}
_HIERARCHICAL, _SYMMETRIC, _INVERSE, _COMPOSED = range(4)
# Exponents of the out-degree by rank, and of the popularity within a group.
_OUT_EXPONENT = 0.6
_SKEW = 2.5
_GROUP_SIZE = 200
_BRANCHING = 4
# Share of the triples for relations with one fact per entity of some groups.
_STRUCTURAL_SHARE = 0.25
_TRIPLES_PER_PIECE = 1_000_000
_MAX_ENTITIES = 2**31 - 1


@dataclass(frozen=True)
class GeneratedRelation:
    """A relation of a generated graph: its kind, and how it chooses the group of a tail."""

    name: str
    kind: str
    description: str


@dataclass(frozen=True)
class GeneratedGraph:
    """The size of a generated graph and the numbers that determine it.

    Args:
        entities: Number of entities.
        relations: Number of relations.
        triples: Number of triples, up to a few percent.
        noise: Share of unpredictable tails among the facts that no other fact implies.
        held_out: Share of the triples in valid, and in test.
        seed: Random seed.
    """

    entities: int
    relations: int
    triples: int
    noise: float = 0.1
    held_out: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if not 10 <= self.entities <= _MAX_ENTITIES:
            raise SettingsError(f"entities must be between 10 and {_MAX_ENTITIES:,}")
        if not 1 <= self.relations <= 1_000_000:
            raise SettingsError("relations must be between 1 and 1,000,000")
        if self.triples < 2 * self.entities:
            raise SettingsError(
                f"triples must be at least twice the number of entities, {2 * self.entities:,}: "
                "every entity has a fact of its own"
            )
        if self.triples > self.entities * min(self.entities, 1000) // 2:
            raise SettingsError("there are too many triples for so few entities")
        if not 0 <= self.noise <= 1 or not 0 <= self.held_out <= 0.25:
            raise SettingsError("noise must be between 0 and 1, and held-out between 0 and 0.25")
        if self.seed < 0:
            raise SettingsError("the seed must not be negative")

    @property
    def groups(self) -> int:
        """The number of groups of entities."""
        return max(4, self.entities // _GROUP_SIZE)

    def named_relations(self) -> list[GeneratedRelation]:
        """Return all relations, with their planted patterns."""
        found: list[GeneratedRelation] = []
        number = 0
        while len(found) < self.relations:
            number += 1
            for kind, width in _KINDS.items():
                if len(found) + width > self.relations:
                    kind, width = "plain", 1  # noqa: PLW2901
                found += _relations_of(kind, number, width)
                if len(found) == self.relations:
                    break
        return found


def _relations_of(kind: str, number: int, width: int) -> list[GeneratedRelation]:
    texts: dict[str, str]
    if kind == "plain":
        texts = {f"plain_{number}_{part}": "no pattern" for part in range(1, width + 1)}
    elif kind == "inverse":
        one, other = f"inverse_{number}", f"inverse_{number}_of"
        texts = {one: f"inverse of {other}", other: f"inverse of {one}"}
    elif kind == "composed":
        names = [f"{part}_{number}" for part in ("first", "second", "composed")]
        rule = f"{names[0]} and then {names[1]} imply {names[2]}"
        texts = dict.fromkeys(names, rule)
    else:
        texts = {f"{kind.replace(' ', '_')}_{number}": kind}
    return [GeneratedRelation(name, kind, text) for name, text in texts.items()]


def _mixed(*parts: Ints | int) -> npt.NDArray[np.uint64]:
    """Return random 64-bit numbers that depend on all parts (splitmix64)."""
    state = np.zeros((), dtype=np.uint64)
    for part in parts:
        with np.errstate(over="ignore"):
            state = state + np.uint64(0x9E3779B97F4A7C15) + np.asarray(part).astype(np.uint64)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return state


def _uniform(*parts: Ints | int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) that depend on all parts."""
    return _in_unit_interval(_mixed(*parts))


def _in_unit_interval(random: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    return (random >> np.uint64(11)).astype(np.float64) / 2.0**53


class _Generator:
    """Generates the facts of any range of heads."""

    def __init__(self, graph: GeneratedGraph) -> None:
        self.graph, self.seed = graph, graph.seed
        self.names = graph.named_relations()
        order = [*_KINDS]
        self.kinds = np.array([order.index(r.kind) for r in self.names], dtype=np.int8)
        # Relations with one fact per entity, those that others imply, and all others.
        functional = [r.name.startswith(("second_", "path_")) for r in self.names]
        implied = [r.name.endswith("_of") or r.name.startswith("composed_") for r in self.names]
        self.functional = np.flatnonzero(functional)
        self.sampled = np.flatnonzero(~(np.array(functional) | np.array(implied)))
        beyond = max(graph.triples - graph.entities, 0)
        share = _STRUCTURAL_SHARE * beyond / (graph.entities * max(len(self.functional), 1))
        self.domain = min(share, 0.5)  # share of the groups with facts of such a relation
        self._find_permutation()
        self.scale = 1.0
        self.scale = self._fitted_scale()

    def _find_permutation(self) -> None:
        """Choose the popularity rank of each entity: (a · id + b) mod entities."""
        n = self.graph.entities
        factor = int(_mixed(self.seed, 1)) % n
        while math.gcd(factor, n) != 1:
            factor += 1
        self.factor, self.shift = factor % n, int(_mixed(self.seed, 2)) % n
        self.inverse_factor = pow(self.factor, -1, n) if n > 1 else 0

    def rank_of(self, ids: Ints) -> Ints:
        """Return the popularity ranks of entities, 0 for the most popular one."""
        return (ids * self.factor + self.shift) % self.graph.entities

    def id_of(self, ranks: Ints) -> Ints:
        """Return the entities of popularity ranks."""
        n = self.graph.entities
        return (ranks - self.shift) % n * self.inverse_factor % n

    def _fitted_scale(self) -> float:
        """Return the factor of all out-degrees with which the graph has the wanted size."""
        n = self.graph.entities
        step = max(1, n // 20_000)
        # By rank, so that the sample has its share of the few entities with most facts.
        ranks = np.arange(0, n, step, dtype=np.int64)
        weights = np.full(len(ranks), float(step))
        if step > 1:
            top = np.arange(1000, dtype=np.int64)
            kept = ranks >= 1000
            ranks = np.concatenate([top, ranks[kept]])
            weights = np.concatenate([np.ones(1000), weights[kept]])
            weights[1000:] *= (n - 1000) / weights[1000:].sum()
        weight = dict(zip(self.id_of(ranks).tolist(), weights.tolist(), strict=True))
        ids = np.sort(self.id_of(ranks))
        of_id = np.array([weight[number] for number in ids.tolist()])
        for _ in range(6):
            _, owners = self._facts(ids)
            size = float(of_id[owners].sum())
            self.scale *= self.graph.triples / size
        return self.scale

    def degrees(self, ids: Ints) -> Ints:
        """Return how many facts of each head are sampled."""
        n, e = self.graph.entities, _OUT_EXPONENT
        mean = self.graph.triples / n * self.scale
        expected = mean * (1 - e) * (n / (self.rank_of(ids) + 1.0)) ** e
        expected = np.minimum(expected, n / 4)
        return np.floor(expected + _uniform(self.seed, 3, ids)).astype(np.int64)

    def facts(self, first: int, last: int) -> Facts:
        """Return the distinct facts that the heads from `first` to `last` give rise to."""
        columns, _ = self._facts(np.arange(first, last, dtype=np.int64))
        return columns

    def _facts(self, ids: Ints) -> tuple[Facts, Ints]:
        """Return facts of heads, and for each of them the row of the head it belongs to."""
        rows, zeros = np.arange(len(ids)), np.zeros(len(ids), dtype=np.int64)
        own = (ids, zeros, self.own_tails(ids), rows)
        parts = [own, *self._functional(ids), *self._sampled(ids)]
        h, r, t, owner = (np.concatenate(column) for column in zip(*parts, strict=True))
        keep = h != t
        h, r, t, owner = h[keep], r[keep], t[keep], owner[keep]
        order = np.lexsort((t, r, h))
        h, r, t, owner = h[order], r[order], t[order], owner[order]
        new = np.ones(len(h), dtype=bool)
        new[1:] = (h[1:] != h[:-1]) | (r[1:] != r[:-1]) | (t[1:] != t[:-1])
        return (h[new], r[new], t[new]), owner[new]

    def own_tails(self, ids: Ints) -> Ints:
        """Return one tail of the first relation for every head, so that none is without facts."""
        tails = self._tails(ids, np.zeros(len(ids), dtype=np.int64), _mixed(self.seed, 4, ids))
        return np.where(tails == ids, (ids + 1) % self.graph.entities, tails)

    def _functional(self, ids: Ints) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        for number in self.functional.tolist():
            rows = np.flatnonzero(self._has_fact(number, ids))
            relation = np.full(len(rows), number, dtype=np.int64)
            tails = self._function(number, ids[rows])
            keep = tails >= 0
            yield ids[rows][keep], relation[keep], tails[keep], rows[keep]

    def _has_fact(self, relation: int, ids: Ints) -> npt.NDArray[np.bool_]:
        group = self.rank_of(ids) % self.graph.groups
        return _uniform(self.seed, 5, relation, group) < self.domain

    def _function(self, relation: int, ids: Ints) -> Ints:
        """Return the only tail of heads, −1 where a path ends."""
        if self.names[relation].name.startswith("second_"):
            relations = np.full(len(ids), relation, dtype=np.int64)
            return self._tails(ids, relations, _mixed(self.seed, 6, relation, ids))
        groups = self.graph.groups
        number, group = np.divmod(self.rank_of(ids), groups)
        size = self._sizes(group)
        following = number + 1 + int(_mixed(self.seed, 7, relation)) % (_GROUP_SIZE // 4)
        is_loop = _uniform(self.seed, 15, relation, group) < 0.5
        tail = self.id_of(group + groups * (following % size))
        return np.where((following >= size) & ~is_loop, -1, tail)

    def _sizes(self, group: Ints) -> Ints:
        return (self.graph.entities - 1 - group) // self.graph.groups + 1

    def _sampled(self, ids: Ints) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        degrees = self.degrees(ids)
        owner = np.repeat(np.arange(len(ids)), degrees)
        heads = ids[owner]
        counter = np.arange(len(owner)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        choice = (_uniform(self.seed, 8, heads, counter) ** 1.5 * len(self.sampled)).astype(int)
        relations = self.sampled[choice].astype(np.int64)
        tails = self._tails(heads, relations, _mixed(self.seed, 9, heads, counter))
        noisy = _uniform(self.seed, 10, heads, counter) < self.graph.noise
        anywhere = (_uniform(self.seed, 11, heads, counter) * self.graph.entities).astype(np.int64)
        tails = np.where(noisy, anywhere, tails)
        kind = self.kinds[relations]
        # Each pair of a symmetric relation belongs to one of its two entities.
        keep = (kind != _SYMMETRIC) | (heads < tails)
        heads, relations, tails, owner = heads[keep], relations[keep], tails[keep], owner[keep]
        yield heads, relations, tails, owner
        kind = kind[keep]
        implied = _uniform(self.seed, 12, heads, relations, tails) < _CONFIDENCE
        mirror = np.flatnonzero(implied & (kind == _SYMMETRIC))
        yield tails[mirror], relations[mirror], heads[mirror], owner[mirror]
        inverse = np.flatnonzero(implied & (kind == _INVERSE))
        yield tails[inverse], relations[inverse] + 1, heads[inverse], owner[inverse]
        composed = np.flatnonzero(implied & (kind == _COMPOSED))
        for number in np.unique(relations[composed]).tolist():
            rows = composed[relations[composed] == number]
            rows = rows[self._has_fact(number + 1, tails[rows])]
            ends = self._function(number + 1, tails[rows])
            yield heads[rows], np.full(len(rows), number + 2), ends, owner[rows]

    def _tails(self, heads: Ints, relations: Ints, random: npt.NDArray[np.uint64]) -> Ints:
        """Choose tails in the groups that relations lead to."""
        groups = self.graph.groups
        group = self.rank_of(heads) % groups
        shift = (_mixed(self.seed, 13, relations) % np.uint64(groups)).astype(np.int64)
        kind = self.kinds[relations]
        target = np.where(kind == _SYMMETRIC, (shift - group) % groups, (shift + group) % groups)
        target = np.where(kind == _HIERARCHICAL, group // _BRANCHING, target)
        number = (_in_unit_interval(random) ** _SKEW * self._sizes(target)).astype(np.int64)
        return self.id_of(target + groups * number)


def generate_graph(
    graph: GeneratedGraph,
    out: str | os.PathLike[str],
    *,
    to: str = "parquet",
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write a generated graph to a new folder, in bounded memory.

    Args:
        graph: Its size and seed.
        out: The new folder, for train, valid, test and the descriptions of the relations.
        to: The format of its files, as for `write_graph`.
        progress: Called with the number of heads done and of all.

    Returns:
        The number of triples in each split.

    Raises:
        OutputError: The folder exists or cannot be written, or there is no such format.
    """
    ending = folder_file_ending(to)
    generator = _Generator(graph)
    names = pa.array([relation.name for relation in generator.names], pa.large_string())
    counts = dict.fromkeys(("train", "valid", "test"), 0)
    heads = max(1, int(_TRIPLES_PER_PIECE * graph.entities / graph.triples))
    with atomic_folder(out) as folder, ExitStack() as stack:
        paths = {split: folder / f"{split}.{ending}" for split in counts}
        sinks = {
            split: stack.enter_context(open_sink(path, path, WriteOptions()))
            for split, path in paths.items()
            if split == "train" or graph.held_out
        }
        for first in range(0, graph.entities, heads):
            last = min(first + heads, graph.entities)
            for split, (h, r, t) in _split(generator, generator.facts(first, last)).items():
                columns = [_entity_names(h), names.take(to_arrow(r)), _entity_names(t)]
                chunked = [pa.chunked_array([column]) for column in columns]
                if len(h):
                    sinks[split].write(TripleColumns.of(chunked, split))
                    counts[split] += len(h)
            if progress is not None:
                progress(last, graph.entities)
        stack.close()
        labels = "".join(f"{r.name}\t{r.name}\t{r.description}\n" for r in generator.names)
        (folder / "relation_labels.tsv").write_text(labels, encoding="utf-8")
        for path in folder.iterdir():
            sync_file(path)
    return counts


def _entity_names(ids: Ints) -> pa.Array:
    numbers = pc.cast(to_arrow(ids), pa.large_string())
    return pc.binary_join_element_wise(
        pa.scalar("e", pa.large_string()), numbers, pa.scalar("", pa.large_string())
    )


def _split(generator: _Generator, facts: Facts) -> dict[str, Facts]:
    """Hold out some facts, but none of those that give every entity one in train."""
    (h, r, t), graph = facts, generator.graph
    share = _uniform(graph.seed, 14, h, r, t)
    first = np.flatnonzero(r == 0)
    share[first[generator.own_tails(h[first]) == t[first]]] = 1.0
    in_valid = share < graph.held_out
    in_test = ~in_valid & (share < 2 * graph.held_out)
    masks = {"train": ~in_valid & ~in_test, "valid": in_valid, "test": in_test}
    return {split: (h[mask], r[mask], t[mask]) for split, mask in masks.items()}
