"""The knowledge graph: vocabularies, triples per split, types and the report of reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fivestar.errors import GraphError, SettingsError
from fivestar.extras import require
from fivestar.graph.arrow import to_arrow
from fivestar.graph.report import ReadReport
from fivestar.graph.triples import Ids, Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.notebook import html_table
from fivestar.spelling import closest_names, did_you_mean

SPLITS = ("train", "valid", "test")
_SPLIT_TYPE = pa.dictionary(pa.int8(), pa.string())
# Minimum share of self-loops among a relation's train facts for an entity to be a possible answer
# to a query about itself. In FB15k, FB15k-237, NELL-995-h25, WD50K, WN18 and WN18RR, relations with
# 100 or more train facts have at least 5.2 % self-loops (WD50K: the country of a country) or at
# most 2.1 % (FB15k: city states as their own capital): any threshold in between decides them alike.
# This one still allows 677 of the 693 held-out self-loops, and hides self-answers for 24,633
# held-out facts whose relation has a self-loop in train, of which 16 are self-loops.
_SELF_LOOP_SHARE = 0.03


@dataclass(frozen=True)
class EntityTypes:
    """Types of entities: pairs (entity id, type id), sorted by entity."""

    vocabulary: Vocabulary
    entities: Ids
    types: Ids

    def __post_init__(self) -> None:
        order = np.lexsort((self.types, self.entities))
        for column in ("entities", "types"):
            values = np.ascontiguousarray(getattr(self, column)[order], dtype=np.int32)
            values.flags.writeable = False
            object.__setattr__(self, column, values)

    def of(self, entity: int) -> list[str]:
        """Return the names of the types of an entity."""
        start, end = np.searchsorted(self.entities, [entity, entity + 1])
        return self.vocabulary.names_of(self.types[start:end])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntityTypes):
            return NotImplemented
        return (
            self.vocabulary == other.vocabulary
            and np.array_equal(self.entities, other.entities)
            and np.array_equal(self.types, other.types)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class KnowledgeGraph:
    """An immutable knowledge graph.

    Two graphs are equal if they have the same facts with the same names and ids.

    Attributes:
        name: the name of the graph.
        entities: the names of entities.
        relations: the names of relations.
        train: the distinct training facts.
        valid: the validation facts, with duplicates as published.
        test: the test facts, with duplicates as published.
        types: the types of entities, if there are any.
        negatives: triples that are known to be false, for training, if there are any.
        report: how the lines of the source were used.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Triples
    valid: Triples = field(default_factory=lambda: Triples.of([]))
    test: Triples = field(default_factory=lambda: Triples.of([]))
    types: EntityTypes | None = None
    negatives: Triples | None = None
    report: ReadReport = field(default_factory=ReadReport, compare=False)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        facts = " / ".join(f"{len(triples):,}" for triples in self.splits.values())
        return (
            f"KnowledgeGraph({self.name!r}: {len(self.entities):,} entities, "
            f"{len(self.relations):,} relations, {facts} triples)"
        )

    def _repr_html_(self) -> str:
        counts = {"entities": len(self.entities), "relations": len(self.relations)}
        counts |= {f"{name} triples": len(triples) for name, triples in self.splits.items()}
        if self.types is not None:
            counts["entity types"] = len(self.types.vocabulary)
        rows = [(name, f"{count:,}") for name, count in counts.items()]
        return html_table(("KnowledgeGraph", self.name), rows)

    @property
    def splits(self) -> Mapping[str, Triples]:
        """The facts by split."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @cached_property
    def facts(self) -> Triples:
        """Every distinct fact of all splits."""
        return (self.train + self.valid + self.test).distinct()

    @cached_property
    def allows_self_answers(self) -> npt.NDArray[np.bool_]:
        """Return per relation whether an entity may be the answer to a query about itself.

        It may if at least 3 % of the relation's train facts are self-loops. A few self-loops in a
        large relation are exceptions, and do not make every entity a plausible answer.
        """
        train, count = self.train, len(self.relations)
        num_facts = np.bincount(train.relations, minlength=count)
        num_loops = np.bincount(train.relations[train.heads == train.tails], minlength=count)
        return (num_loops > 0) & (num_loops >= _SELF_LOOP_SHARE * num_facts)

    @cached_property
    def pair_redundancy(self) -> float:
        """Return the share of train facts whose two entities another train fact links as well.

        It is high where relations come in inverse pairs or repeat one another (WN18 .93, FB15k .81)
        and where every pair is linked by something (Nations 1.0), and below .4 elsewhere.
        """
        low = np.minimum(self.train.heads, self.train.tails).astype(np.int64)
        pairs = low * len(self.entities) + np.maximum(self.train.heads, self.train.tails)
        _, pair_of, count = np.unique(pairs, return_inverse=True, return_counts=True)
        return float((count[pair_of] > 1).mean()) if len(pairs) else 0.0

    def required_types(self) -> EntityTypes:
        """Return the types of entities.

        Raises:
            GraphError: if the graph has none.
        """
        if self.types is None:
            raise GraphError(
                f"{self.name} has no types; add a file entity_types.tsv (entity, type) next to its "
                "triples and train again"
            )
        return self.types

    def split(self, name: str) -> Triples:
        """Return the facts of a split.

        Raises:
            SettingsError: if there is no such split.
        """
        try:
            return self.splits[name]
        except KeyError:
            suggestions = closest_names(name, SPLITS) or SPLITS
            raise SettingsError(f"no split {name!r}{did_you_mean(suggestions)}") from None

    def translated(self, triples: Triples, into: KnowledgeGraph) -> Triples:
        """Return triples with the ids of another graph; omit those with names that it lacks."""
        entity = self.entities.ids_in(into.entities)
        relation = self.relations.ids_in(into.relations)
        columns = (entity[triples.heads], relation[triples.relations], entity[triples.tails])
        known = np.all([column >= 0 for column in columns], axis=0)
        weights = None if triples.weights is None else triples.weights[known]
        return Triples(*(column[known] for column in columns), weights=weights)

    def named(self, triples: Triples) -> pa.Table:
        """Return triples by name, as a table with the columns head, relation and tail."""
        return pa.table(
            {
                "head": self.entities.names.take(to_arrow(triples.heads)),
                "relation": self.relations.names.take(to_arrow(triples.relations)),
                "tail": self.entities.names.take(to_arrow(triples.tails)),
            }
        )

    @property
    def is_weighted(self) -> bool:
        """Whether facts of any split have weights."""
        return any(triples.weights is not None for triples in self.splits.values())

    def to_arrow(self) -> pa.Table:
        """Return all facts by name: head, relation, tail, weight if they have some, and split.

        It reads back the same, with `weight="weight"` if there are weights.
        """
        tables = []
        for split, triples in self.splits.items():
            table = self.named(triples)
            if self.is_weighted:
                table = table.append_column("weight", to_arrow(triples.weights_or_ones))
            column = pa.repeat(pa.scalar(split), len(triples)).dictionary_encode()
            tables.append(table.append_column("split", column.cast(_SPLIT_TYPE)))
        return pa.concat_tables(tables).unify_dictionaries()

    def to_pandas(self) -> Any:
        """Return all facts by name as a DataFrame, like `to_arrow`."""
        require("pandas", "pandas", "a DataFrame")
        return self.to_arrow().to_pandas()

    def to_networkx(self) -> Any:
        """Return the facts as a MultiDiGraph: the relation is the key of an edge.

        Edges have the attribute split, and weight if facts have weights; nodes have the attributes
        label and types. A fact of several splits is one edge, with the first of them.
        """
        networkx = require("networkx", "networkx", "a MultiDiGraph")
        graph = networkx.MultiDiGraph(name=self.name)
        labels = None if self.entities.labels is None else self.entities.labels.to_pylist()
        for number, name in enumerate(self.entities):
            attributes: dict[str, Any] = {}
            if labels is not None and labels[number] is not None:
                attributes["label"] = labels[number]
            if self.types is not None:
                attributes["types"] = self.types.of(number)
            graph.add_node(name, **attributes)
        for split, triples in self.splits.items():
            columns = (column.to_pylist() for column in self.named(triples).columns)
            attribute = {"weight": triples.weights_or_ones.tolist()} if self.is_weighted else {}
            for row, (head, relation, tail) in enumerate(zip(*columns, strict=True)):
                if not graph.has_edge(head, tail, relation):
                    own = {name: values[row] for name, values in attribute.items()}
                    graph.add_edge(head, tail, relation, split=split, **own)
        return graph
