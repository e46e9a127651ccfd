"""Labels, descriptions and types of a graph: files of them, and how they are attached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import from_arrow, to_arrow, to_mask, to_texts
from fivestar.graph.knowledge_graph import EntityTypes, KnowledgeGraph
from fivestar.graph.rdf_terms import iri_as_name
from fivestar.graph.readers.base import Annotations, ReadOptions, Tally, plural
from fivestar.graph.readers.streams import COMPRESSED, line_blocks, open_bytes
from fivestar.graph.vocabulary import Vocabulary


def with_annotation_files(
    graph: KnowledgeGraph, folder: Path, options: ReadOptions, tallies: dict[str, Tally]
) -> KnowledgeGraph:
    """Return the graph with the labels and types of its folder.

    Args:
        graph: the graph.
        folder: a folder that may hold entity_labels.tsv, relation_labels.tsv and entity_types.tsv.
        options: what to do with bad lines.
        tallies: gets one more tally per file.
    """
    changes: dict[str, object] = {}
    for field, stem in (("entities", "entity_labels"), ("relations", "relation_labels")):
        if path := _find_file(folder, stem):
            tally = tallies[stem] = Tally(str(path))
            rows = list(_read_rows(path, options, tally, max_fields=3))
            names, labels = [row[0] for row in rows], [row[1] for row in rows]
            descriptions = ["".join(row[2:]) for row in rows]
            changes[field] = _with_labels(getattr(graph, field), names, labels, descriptions)
    if path := _find_file(folder, "entity_types"):
        tally = tallies["entity_types"] = Tally(str(path))
        pairs = _read_rows(path, options, tally, max_fields=2)
        changes["types"] = _with_types(graph, [(name, type_) for name, type_ in pairs if type_])
    return replace(graph, **changes)  # type: ignore[arg-type]


def with_annotations(graph: KnowledgeGraph, annotations: Annotations) -> KnowledgeGraph:
    """Return the graph with the labels, descriptions and types of an RDF source."""
    if not annotations:
        return graph
    texts = (annotations.labels, annotations.descriptions)
    labels = [text for _, text in texts[0].values()] + [""] * len(texts[1])
    descriptions = [""] * len(texts[0]) + [text for _, text in texts[1].values()]
    vocabularies = {}
    for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations)):
        names = [_name(term, kind) for terms in texts for term in terms]
        vocabularies[kind] = _with_labels(vocabulary, names, labels, descriptions)
    pairs = [(_name(term, "entity"), _name(type_, "type")) for term, type_ in annotations.types]
    return replace(
        graph,
        entities=vocabularies["entity"],
        relations=vocabularies["relation"],
        types=_with_types(graph, pairs),
    )


def _find_file(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}.tsv{ending}" for ending in ("", *COMPRESSED))
    return next((path for path in paths if path.is_file()), None)


def _read_rows(
    path: Path, options: ReadOptions, tally: Tally, max_fields: int
) -> Iterator[list[str]]:
    """Yield the rows of a tab-separated file: a name, then one or more fields."""
    with open_bytes(path, options.progress) as stream:
        for block in line_blocks(stream):
            for raw in block.lines():
                tally.lines += 1
                if tally.lines == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901
                row = _parse_row(raw.removesuffix(b"\r"), max_fields)
                if isinstance(row, str):
                    tally.reject(tally.lines, row, raw[:1_000].decode("utf-8", "replace"), options)
                elif row:
                    yield row
                else:
                    tally.blanks += 1


def _parse_row(line: bytes, max_fields: int) -> list[str] | str:
    """Return the fields of a line, none if it is blank, or what is wrong with it."""
    if not line.strip():
        return []
    try:
        fields = line.decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return "is not UTF-8; convert the file: iconv -f latin1 -t utf-8"
    if not 2 <= len(fields) <= max_fields:
        expected = "2" if max_fields == 2 else f"2 to {max_fields}"
        return f"has {plural(len(fields), 'field')} where {expected} are expected (delimiter: tab)"
    if not fields[0]:
        return "has an empty name"
    return fields


def _with_labels(
    vocabulary: Vocabulary,
    names: Sequence[str],
    labels: Sequence[str],
    descriptions: Sequence[str],
) -> Vocabulary:
    """Return the vocabulary with labels and descriptions by name; the first of a name wins."""
    owners = pc.index_in(to_texts(names), value_set=vocabulary.names)
    all_labels = _texts(vocabulary.labels, len(vocabulary))
    all_descriptions = _texts(vocabulary.descriptions, len(vocabulary))
    rows = np.flatnonzero(to_mask(owners.is_valid()))
    ids = from_arrow(owners.take(to_arrow(rows)))
    for row, owner in zip(rows.tolist(), ids.tolist(), strict=True):
        all_labels[owner] = all_labels[owner] or labels[row] or None
        all_descriptions[owner] = all_descriptions[owner] or descriptions[row] or None
    return Vocabulary(
        vocabulary.kind,
        vocabulary.names,
        all_labels if any(all_labels) else None,
        all_descriptions if any(all_descriptions) else None,
    )


def _with_types(graph: KnowledgeGraph, pairs: Sequence[tuple[str, str]]) -> EntityTypes | None:
    """Return the types of a graph with more pairs (entity, type) by name."""
    rows = list(pairs)
    if graph.types is not None:
        names = graph.entities.names_of(graph.types.entities)
        types = graph.types.vocabulary.names_of(graph.types.types)
        rows = [*zip(names, types, strict=True), *rows]
    owners = pc.index_in(to_texts([row[0] for row in rows]), value_set=graph.entities.names)
    known = to_arrow(np.flatnonzero(to_mask(owners.is_valid())))
    if not len(known):
        return None
    encoded = to_texts([row[1] for row in rows]).take(known).dictionary_encode()
    ids = np.stack([from_arrow(owners.take(known)), from_arrow(encoded.indices)], axis=1)
    ids = np.unique(ids, axis=0)
    return EntityTypes(Vocabulary("type", encoded.dictionary), ids[:, 0], ids[:, 1])


def _texts(texts: pa.Array | None, count: int) -> list[str | None]:
    return [None] * count if texts is None else texts.to_pylist()


def _name(term: str, kind: str) -> str:
    if not term.startswith("<"):
        return term
    return iri_as_name(term[1:-1], kind) if term.startswith("<urn:fivestar:") else term[1:-1]
