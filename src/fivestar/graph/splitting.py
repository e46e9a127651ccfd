"""Cutting one graph into train, valid and test so that the test means something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from fivestar.errors import SettingsError, SplitImpossible
from fivestar.graph.knowledge_graph import SPLITS, KnowledgeGraph
from fivestar.graph.report import ReadReport, SplitReport
from fivestar.graph.triples import Triples

PairChoice = Literal["together", "free"]


def split_graph(
    graph: KnowledgeGraph,
    *,
    valid: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
    pairs: PairChoice = "together",
) -> KnowledgeGraph:
    """All distinct facts of a graph, cut anew into train, valid and test.

    Every entity and relation of valid and test also stands in train. With `pairs="together"` all
    facts between the same two entities, whatever their relation and direction, go into the same
    split: then no test fact can be read off a symmetric, inverse or duplicate fact of train. With
    `pairs="free"` each fact goes its own way. The same seed gives the same split.

    >>> from fivestar.graph.reading import read_graph
    >>> square = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> split_graph(read_graph(square), valid=0.0, test=1 / 6)
    KnowledgeGraph('graph': 4 entities, 1 relations, 10 / 0 / 2 triples)
    """
    for name, share in (("valid", valid), ("test", test)):
        if not 0 <= share < 1:
            raise SettingsError(
                f"{name} must be a share of the triples between 0 and 1, not {share}"
            )
    if valid + test >= 1:
        raise SettingsError(f"valid + test = {valid + test:g} leaves nothing to train on")
    if seed < 0:
        raise SettingsError(f"seed must not be negative, but is {seed}")
    if pairs not in ("together", "free"):
        raise SettingsError(f"pairs must be 'together' or 'free', not {pairs!r}")
    facts = graph.facts
    wanted = {"valid": round(valid * len(facts)), "test": round(test * len(facts))}
    place = _places(facts, _groups(facts, len(graph.entities), pairs), wanted, seed)
    parts = {name: facts.take(np.flatnonzero(place == i)) for i, name in enumerate(SPLITS)}
    for name, number in wanted.items():
        if number and not len(parts[name]):
            raise SplitImpossible(
                f"no fact can leave train for {name}: each is the only one of an entity or a "
                "relation" + (", or tied to one that is; try --pairs free" * (pairs == "together"))
            )
    reports = {
        name: SplitReport(source=graph.name, lines=len(part), triples=len(part))
        for name, part in parts.items()
    }
    return replace(
        graph,
        train=parts["train"],
        valid=parts["valid"],
        test=parts["test"],
        report=ReadReport(reports),
    )


@dataclass(frozen=True)
class _Groups:
    """Facts that must stay together: `rows[start[i]:start[i + 1]]` are the facts of group i."""

    rows: npt.NDArray[np.intp]
    start: npt.NDArray[np.intp]

    def shuffled(self, seed: int) -> Iterator[npt.NDArray[np.intp]]:
        for group in np.random.default_rng(seed).permutation(len(self.start) - 1):
            yield self.rows[self.start[group] : self.start[group + 1]]


def _groups(facts: Triples, entities: int, pairs: PairChoice) -> _Groups:
    if pairs == "free":
        rows = np.arange(len(facts))
        return _Groups(rows, np.arange(len(facts) + 1))
    low = np.minimum(facts.heads, facts.tails).astype(np.int64)
    keys = low * entities + np.maximum(facts.heads, facts.tails)
    rows = np.argsort(keys, kind="stable")
    ordered = keys[rows]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return _Groups(rows, np.append(first, len(facts)))


def _places(
    facts: Triples, groups: _Groups, wanted: dict[str, int], seed: int
) -> npt.NDArray[np.int8]:
    """For each fact 0, 1 or 2: train, valid or test.

    Groups leave train in random order as long as each of their entities and relations keeps a fact
    there. They go where more is missing in proportion, so that a graph with little to spare gives
    to both.
    """
    place = np.zeros(len(facts), np.int8)
    heads, relations, tails = facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist()
    ends = np.concatenate([facts.heads, facts.tails])
    entity_left = np.bincount(ends).tolist() if len(facts) else []
    relation_left = np.bincount(facts.relations).tolist() if len(facts) else []
    size = [0, wanted["valid"], wanted["test"]]
    room = size.copy()
    for rows in groups.shuffled(seed):
        if not (room[1] or room[2]):
            break
        fitting = [target for target in (1, 2) if room[target] >= len(rows)]
        if not fitting:
            continue
        target = max(fitting, key=lambda option: room[option] / size[option])
        members = rows.tolist()
        for row in members:
            entity_left[heads[row]] -= 1
            entity_left[tails[row]] -= 1
            relation_left[relations[row]] -= 1
        if all(
            entity_left[heads[row]] > 0
            and entity_left[tails[row]] > 0
            and relation_left[relations[row]] > 0
            for row in members
        ):
            room[target] -= len(members)
            place[rows] = target
            continue
        for row in members:
            entity_left[heads[row]] += 1
            entity_left[tails[row]] += 1
            relation_left[relations[row]] += 1
    return place
