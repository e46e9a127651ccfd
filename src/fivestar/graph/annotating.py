"""Labels, descriptions and types for the names of a graph, wherever they were told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import from_arrow, to_arrow, to_mask, to_texts
from fivestar.graph.knowledge_graph import EntityTypes, KnowledgeGraph
from fivestar.graph.rdf_terms import iri_as_name
from fivestar.graph.readers.base import Annotations
from fivestar.graph.vocabulary import Vocabulary


def with_annotations(graph: KnowledgeGraph, told: Annotations) -> KnowledgeGraph:
    """The graph with what a source of RDF says about its names."""
    if not told:
        return graph
    vocabularies = {}
    for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations)):
        names = [_name(term, kind) for texts in (told.labels, told.descriptions) for term in texts]
        labels = [text for _, text in told.labels.values()] + [""] * len(told.descriptions)
        more = [""] * len(told.labels) + [text for _, text in told.descriptions.values()]
        vocabularies[kind] = labelled(vocabulary, names, labels, more)
    pairs = [(_name(term, "entity"), _name(kind, "type")) for term, kind in told.types]
    return replace(
        graph,
        entities=vocabularies["entity"],
        relations=vocabularies["relation"],
        types=typed(graph, pairs),
    )


def labelled(
    vocabulary: Vocabulary,
    names: Sequence[str],
    labels: Sequence[str],
    descriptions: Sequence[str],
) -> Vocabulary:
    """A vocabulary with labels and descriptions by name; of several for one name the first."""
    owners = pc.index_in(to_texts(names), value_set=vocabulary.names)
    known_labels, known_descriptions = (
        _texts(known, len(vocabulary)) for known in (vocabulary.labels, vocabulary.descriptions)
    )
    found = np.flatnonzero(to_mask(owners.is_valid()))
    places = from_arrow(owners.take(to_arrow(found)))
    for row, owner in zip(found.tolist(), places.tolist(), strict=True):
        known_labels[owner] = known_labels[owner] or labels[row] or None
        known_descriptions[owner] = known_descriptions[owner] or descriptions[row] or None
    return Vocabulary(
        vocabulary.kind,
        vocabulary.names,
        known_labels if any(known_labels) else None,
        known_descriptions if any(known_descriptions) else None,
    )


def typed(graph: KnowledgeGraph, pairs: Sequence[tuple[str, str]]) -> EntityTypes | None:
    """The types of a graph and these besides, pairs of entity and type by name."""
    rows = list(pairs)
    if graph.types is not None:
        names = graph.entities.names_of(graph.types.entities)
        kinds = graph.types.vocabulary.names_of(graph.types.types)
        rows = [*zip(names, kinds, strict=True), *rows]
    owners = pc.index_in(to_texts([row[0] for row in rows]), value_set=graph.entities.names)
    known = to_arrow(np.flatnonzero(to_mask(owners.is_valid())))
    if not len(known):
        return None
    coded = to_texts([row[1] for row in rows]).take(known).dictionary_encode()
    found = np.stack([from_arrow(owners.take(known)), from_arrow(coded.indices)], axis=1)
    found = np.unique(found, axis=0)
    return EntityTypes(Vocabulary("type", coded.dictionary), found[:, 0], found[:, 1])


def _texts(known: pa.Array | None, count: int) -> list[str | None]:
    return [None] * count if known is None else known.to_pylist()


def _name(term: str, kind: str) -> str:
    if not term.startswith("<"):
        return term
    return iri_as_name(term[1:-1], kind) if term.startswith("<urn:fivestar:") else term[1:-1]
