"""Split a graph into train, valid and test without leaks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from fivestar.errors import GraphWarning, SettingsError, SplitImpossible
from fivestar.graph.knowledge_graph import SPLITS, KnowledgeGraph
from fivestar.graph.report import ReadReport, SplitReport
from fivestar.graph.triples import Triples

PairChoice = Literal["together", "free"]
# Default size of validation: a share of the training facts within bounds, and at most a fifth.
_SHARE, _MIN_SIZE, _MAX_SIZE, _MAX_DIVISOR = 0.05, 100, 10_000, 5


def split_graph(
    graph: KnowledgeGraph,
    *,
    valid: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
    pairs: PairChoice = "together",
) -> KnowledgeGraph:
    """Split all distinct facts of a graph into train, valid and test.

    Every entity and relation of valid and test also occurs in train.

    Args:
        graph: the graph; its splits are merged first.
        valid: the share of facts for validation.
        test: the share of facts for testing.
        seed: the same seed gives the same split.
        pairs: with "together", all facts between the same two entities go to the same split, so
            that no test fact follows from a symmetric, inverse or duplicate fact of train; with
            "free", each fact is split independently.

    Returns:
        The graph with the new splits.

    Raises:
        SettingsError: if the shares, the seed or `pairs` are invalid.
        SplitImpossible: if no fact can leave train.

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
    sizes = {"valid": round(valid * len(facts)), "test": round(test * len(facts))}
    assigned = _assign(facts, _groups(facts, len(graph.entities), pairs), sizes, seed)
    parts = {name: facts.take(np.flatnonzero(assigned == i)) for i, name in enumerate(SPLITS)}
    for name, size in sizes.items():
        if size and not len(parts[name]):
            raise SplitImpossible(
                f"no fact can leave train for {name}: each is the only one of an entity or a "
                "relation" + (", or grouped with one; try pairs='free'" * (pairs == "together"))
            )
    if valid and not sizes["valid"]:
        warnings.warn(
            f"the split has no validation triples: {valid:g} of {len(facts):,} is less than one; "
            "choose a larger share for valid",
            GraphWarning,
            stacklevel=2,
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


def hold_out_validation(
    graph: KnowledgeGraph, valid: float | None = None, *, trained: Triples | None = None
) -> KnowledgeGraph:
    """Return a graph whose validation facts are taken from train, without leaks.

    As in `split_graph` with `pairs="together"`, facts between the same two entities stay together
    and every entity and relation keeps a fact in train. The choice is the same each time.

    Args:
        graph: a graph without validation facts. Its test facts stay as they are.
        valid: a share of the training facts (below 1) or a number of them. By default 5 %, at least
            100 and at most 10,000, but never more than a fifth of the facts.
        trained: facts that are never held out, because a model has been trained on them.

    Raises:
        SettingsError: if the graph has validation facts, or `valid` is no share or number.
        SplitImpossible: if no fact can leave train.

    >>> from fivestar.graph.reading import read_graph
    >>> square = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> hold_out_validation(read_graph(square))
    KnowledgeGraph('graph': 4 entities, 1 relations, 10 / 2 / 0 triples)
    """
    if len(graph.valid):
        raise SettingsError(
            f"{graph.name} has {len(graph.valid):,} validation facts of its own, so none are held "
            "out of train: omit valid"
        )
    facts = graph.train
    fixed = np.zeros(len(facts), bool) if trained is None else facts.are_in(trained)
    size = _validation_size(valid, len(facts), int((~fixed).sum()))
    groups = _groups(facts, len(graph.entities), "together").without(fixed)
    assigned = _assign(facts, groups, {"valid": size, "test": 0}, seed=0)
    if not assigned.any():
        raise SplitImpossible(
            f"no fact of {graph.name} can be held out for validation: there are too few, or each "
            "is the only one of an entity or a relation"
            + (", or was trained on before" if fixed.any() else "")
        )
    held_out = facts.take(np.flatnonzero(assigned))
    before = graph.report.splits.get("train", SplitReport(graph.name, len(facts)))
    reports = {
        **graph.report.splits,
        "train": replace(
            before,
            lines=before.lines - len(held_out),
            triples=len(facts) - len(held_out),
        ),
        "valid": SplitReport(before.source, lines=len(held_out), triples=len(held_out)),
    }
    return replace(
        graph,
        train=facts.take(np.flatnonzero(assigned == 0)),
        valid=held_out,
        report=replace(graph.report, splits=reports),
    )


def cross_validation_folds(
    facts: Triples, num_folds: int, *, seed: int = 0, pairs: PairChoice = "together"
) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows of each fold; what is left of the facts is its training set.

    As in `split_graph`, every entity and relation of a fold also occurs outside of it. Folds are
    disjoint; a fact that is the only one of an entity or a relation is in none of them.

    Args:
        facts: distinct facts.
        num_folds: the number of folds, at least 2.
        seed: the same seed gives the same folds.
        pairs: whether facts between the same two entities stay together, as in `split_graph`.

    >>> square = Triples.of([(a, 0, b) for a in range(4) for b in range(4) if a != b])
    >>> [len(fold) for fold in cross_validation_folds(square, 3)]
    [4, 4, 4]
    """
    groups = _groups(facts, int(max(facts.heads.max(), facts.tails.max())) + 1, pairs)
    fold_of = np.zeros(len(facts), np.intp)
    sizes = [0] * num_folds
    for rows in groups.shuffled(seed):
        smallest = min(range(num_folds), key=sizes.__getitem__)
        fold_of[rows] = smallest
        sizes[smallest] += len(rows)
    for fold in range(num_folds):
        own = groups.without(fold_of != fold)
        assigned = _assign(facts, own, {"valid": 0, "test": len(facts)}, seed)
        yield np.flatnonzero(assigned)


def _validation_size(valid: float | None, facts: int, free: int) -> int:
    """Return how many of the facts to hold out; `free` of them can be."""
    if valid is None:
        return min(max(round(_SHARE * facts), _MIN_SIZE), _MAX_SIZE, free // _MAX_DIVISOR)
    if not 0 < valid < facts or (valid >= 1 and valid != int(valid)):
        raise SettingsError(
            f"valid must be a share between 0 and 1 or a number of facts below {facts:,}, "
            f"not {valid:g}"
        )
    return max(1, round(valid * facts if valid < 1 else valid))


@dataclass(frozen=True)
class _Groups:
    """Groups of facts: `rows[start[i]:start[i + 1]]` are the facts of group i."""

    rows: npt.NDArray[np.intp]
    start: npt.NDArray[np.intp]

    def without(self, fixed: npt.NDArray[np.bool_]) -> _Groups:
        """Return the groups that hold none of the facts marked as fixed."""
        keep = ~np.logical_or.reduceat(fixed[self.rows], self.start[:-1])
        sizes = np.diff(self.start)
        return _Groups(
            self.rows[np.repeat(keep, sizes)], np.append(0, np.cumsum(sizes[keep])).astype(np.intp)
        )

    def shuffled(self, seed: int) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the rows of each group in random order."""
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


def _assign(
    facts: Triples, groups: _Groups, sizes: dict[str, int], seed: int
) -> npt.NDArray[np.int8]:
    """Return for each fact 0, 1 or 2: train, valid or test.

    Groups leave train in random order as long as each of their entities and relations keeps a fact
    there. They go to the split that is filled less, so that both get facts of a small graph.
    """
    assigned = np.zeros(len(facts), np.int8)
    ends = np.concatenate([facts.heads, facts.tails])
    entity_left = np.bincount(ends).tolist() if len(facts) else []
    relation_left = np.bincount(facts.relations).tolist() if len(facts) else []
    capacity = [0, sizes["valid"], sizes["test"]]
    room = capacity.copy()
    for rows in groups.shuffled(seed):
        if not (room[1] or room[2]):
            break
        targets = [split for split in (1, 2) if room[split] >= len(rows)]
        if not targets:
            continue
        target = max(targets, key=lambda split: room[split] / capacity[split])
        # Convert only the groups that are considered: few facts of a large graph leave train.
        columns = (facts.heads[rows], facts.relations[rows], facts.tails[rows])
        members = list(zip(*(column.tolist() for column in columns), strict=True))
        for head, relation, tail in members:
            entity_left[head] -= 1
            entity_left[tail] -= 1
            relation_left[relation] -= 1
        if all(
            entity_left[h] > 0 and entity_left[t] > 0 and relation_left[r] > 0
            for h, r, t in members
        ):
            room[target] -= len(members)
            assigned[rows] = target
            continue
        for head, relation, tail in members:
            entity_left[head] += 1
            entity_left[tail] += 1
            relation_left[relation] += 1
    return assigned
