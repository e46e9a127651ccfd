"""Labels, descriptions and types for the names of a graph, wherever they were told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.knowledge_graph import EntityTypes, KnowledgeGraph
from fivestar.graph.rdf_terms import iri_as_name
from fivestar.graph.readers.base import Annotations
from fivestar.graph.vocabulary import NAME_TYPE, Vocabulary


def with_annotations(graph: KnowledgeGraph, told: Annotations) -> KnowledgeGraph:
    """The graph with what a source of RDF says about its names."""
    if not told:
        return graph
    vocabularies = {}
    for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations)):
        labels = [(_name(term, kind), text, "") for term, (_, text) in told.labels.items()]
        more = [(_name(term, kind), "", text) for term, (_, text) in told.descriptions.items()]
        vocabularies[kind] = labelled(vocabulary, labels + more)
    pairs = [(_name(term, "entity"), _name(kind, "type")) for term, kind in told.types]
    return replace(
        graph,
        entities=vocabularies["entity"],
        relations=vocabularies["relation"],
        types=typed(graph, pairs),
    )


def labelled(vocabulary: Vocabulary, texts: Iterable[tuple[str, str, str]]) -> Vocabulary:
    """A vocabulary with labels and descriptions by name; of several for one name the first."""
    rows = list(texts)
    owners = pc.index_in(pa.array([row[0] for row in rows], NAME_TYPE), value_set=vocabulary.names)
    labels, descriptions = (
        _texts(known, len(vocabulary)) for known in (vocabulary.labels, vocabulary.descriptions)
    )
    for owner, (_, label, description) in zip(owners.to_pylist(), rows, strict=True):
        if owner is not None:
            labels[owner] = labels[owner] or label or None
            descriptions[owner] = descriptions[owner] or description or None
    return Vocabulary(
        vocabulary.kind,
        vocabulary.names,
        labels if any(labels) else None,
        descriptions if any(descriptions) else None,
    )


def typed(graph: KnowledgeGraph, pairs: Sequence[tuple[str, str]]) -> EntityTypes | None:
    """The types of a graph and these besides, pairs of entity and type by name."""
    rows = list(pairs)
    if graph.types is not None:
        names = graph.entities.names_of(graph.types.entities)
        kinds = graph.types.vocabulary.names_of(graph.types.types)
        rows = [*zip(names, kinds, strict=True), *rows]
    owners = pc.index_in(
        pa.array([row[0] for row in rows], NAME_TYPE), value_set=graph.entities.names
    )
    known = pa.array(np.flatnonzero(owners.is_valid()))
    if not len(known):
        return None
    coded = pa.array([row[1] for row in rows], NAME_TYPE).take(known).dictionary_encode()
    found = np.stack([owners.take(known).to_numpy(), coded.indices.to_numpy()], axis=1)
    found = np.unique(found, axis=0)
    return EntityTypes(Vocabulary("type", coded.dictionary), found[:, 0], found[:, 1])


def _texts(known: pa.Array | None, count: int) -> list[str | None]:
    return [None] * count if known is None else known.to_pylist()


def _name(term: str, kind: str) -> str:
    if not term.startswith("<"):
        return term
    return iri_as_name(term[1:-1], kind) if term.startswith("<urn:fivestar:") else term[1:-1]
