"""Known false triples of a graph, for training: its own negatives."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers.base import plural
from fivestar.graph.reading import read_graph

_MAX_NAMED = 3


def with_negatives(graph: KnowledgeGraph, source: Any) -> KnowledgeGraph:
    """Return the graph with known false triples, which training uses as negatives.

    Args:
        graph: the graph.
        source: false triples: anything `read_graph` reads, or another `KnowledgeGraph`.

    Raises:
        BadSource: if a name is not in the graph, or a triple is a training fact.

    >>> graph = read_graph([("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy")])
    >>> with_negatives(graph, [("Rome", "capital_of", "France")]).negatives
    Triples(1)
    """
    name = os.fspath(source) if isinstance(source, str | Path) else "negatives"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        other = source if isinstance(source, KnowledgeGraph) else read_graph(source)
    for kind, theirs, mine in (
        ("entities", other.entities, graph.entities),
        ("relations", other.relations, graph.relations),
    ):
        unknown = theirs.names.filter(pc.invert(pc.is_in(theirs.names, value_set=mine.names)))
        if len(unknown):
            raise BadSource(
                f"{name}: has {kind} that {graph.name} lacks: {_listed(unknown.to_pylist())}; "
                "negatives must have the names of the graph"
            )
    negatives = other.translated(other.facts, graph).with_weights(None)
    trained = negatives.take(negatives.are_in(graph.train))
    if len(trained):
        row = graph.named(trained.take(np.arange(1))).to_pylist()[0]
        raise BadSource(
            f"{name}: {plural(len(trained), 'negative')} of {graph.name} are training facts, for "
            f"example {tuple(row.values())!r}; remove them from one of the two"
        )
    return replace(graph, negatives=negatives)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(map(repr, names[:_MAX_NAMED])) + more
