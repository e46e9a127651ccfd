"""`read_graph`: any source in, a `KnowledgeGraph` out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.building import Encoder
from fivestar.graph.catalog import DEMO_FOLDER, DEMO_NAME, locate
from fivestar.graph.knowledge_graph import SPLITS, EntityTypes, KnowledgeGraph
from fivestar.graph.readers import READERS, reader_for
from fivestar.graph.readers.annotations import find_annotations, read_annotations
from fivestar.graph.readers.base import (
    BadLineChoice,
    Columns,
    HeaderChoice,
    Progress,
    ReadOptions,
    Tally,
)
from fivestar.graph.readers.compression import SUFFIXES as PACKED
from fivestar.graph.readers.dialect import counted
from fivestar.graph.report import ReadReport, SplitReport
from fivestar.graph.storage import is_saved_graph, load_graph
from fivestar.graph.suspicions import suspicions
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import NAME_TYPE, Vocabulary

_SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "dev", "val", "validation"),
    "test": ("test",),
}


def read_graph(
    source: object = None,
    *,
    delimiter: str | None = None,
    header: HeaderChoice = "auto",
    columns: Columns | None = None,
    quote: str | None = None,
    on_bad_line: BadLineChoice = "error",
    name: str | None = None,
    progress: Progress | None = None,
) -> KnowledgeGraph:
    """Read a knowledge graph from wherever it is.

    Args:
        source: a file of triples, a folder of train/valid/test files, a folder that `save_graph`
            wrote, the name of a data set, a table (pandas, polars, pyarrow), an iterable of
            (head, relation, tail), or a mapping from split names to any of these.
            Without a source it is the embedded graph of countries and cities.
        delimiter: what separates the fields of a text file; found out if not given.
        header: whether text files begin with a header: "yes", "no", or "auto" to find out.
        columns: names or numbers (from 0) of the head, relation and tail column, in this order.
        quote: the quote character of text files, "" for none; by default `"`, and none in
            tab-separated files.
        on_bad_line: "error" stops at the first line that cannot be read; "skip" leaves such lines
            out and says how many and which in `graph.report`.
        name: a name for the graph; by default that of its file or folder.
        progress: called with (bytes done, bytes in all) while large files are read.

    Anything legal but suspicious is a `GraphWarning`, and is kept in `graph.report.warnings`.

    >>> graph = read_graph([("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy")])
    >>> graph
    KnowledgeGraph('graph': 4 entities, 1 relations, 2 / 0 / 0 triples)
    >>> graph.entities.id_of("Rome")
    2
    """
    options = ReadOptions(delimiter, header, columns, quote, on_bad_line, progress)
    folder: Path | None = None
    if source is None or isinstance(source, str | os.PathLike):
        path = DEMO_FOLDER if source is None else locate(source, progress)
        name = name or (DEMO_NAME if path == DEMO_FOLDER else _stem(path))
        folder = path if path.is_dir() else None
        if folder is not None and is_saved_graph(folder):
            return replace(load_graph(folder), name=name)
        sources: Mapping[str, object] = {"train": path} if folder is None else _split_files(folder)
    elif isinstance(source, Mapping):
        sources = _split_sources(source)
    else:
        sources = {"train": source}
    graph, tallies = _built(sources, options, name or "graph")
    if folder is not None:
        graph = _annotated(graph, folder, options, tallies)
    return _reported(graph, tallies)


def _built(
    sources: Mapping[str, object], options: ReadOptions, name: str
) -> tuple[KnowledgeGraph, dict[str, Tally]]:
    encoder = Encoder()
    splits: dict[str, Triples] = {}
    tallies: dict[str, Tally] = {}
    reports: dict[str, SplitReport] = {}
    for split in SPLITS:
        if split not in sources:
            continue
        source = sources[split]
        reader = reader_for(source)
        unit = "line" if isinstance(source, Path) else "row"
        tally = Tally(str(source) if isinstance(source, Path) else f"{split} ({name})", unit)
        triples = encoder.encode(reader.read(source, options, tally))
        distinct = triples.distinct()
        splits[split] = distinct if split == "train" else triples
        tallies[split] = tally
        reports[split] = SplitReport.of(tally, len(distinct))
    if not len(splits["train"]):
        tally = tallies["train"]
        raise BadSource(
            f"{tally.source}: holds no triple ({counted(tally.lines, tally.unit)}: {tally.headers} "
            f"header, {tally.blanks:,} blank, {tally.bad:,} bad); a graph needs at least one"
        )
    graph = KnowledgeGraph(
        name=name,
        entities=Vocabulary("entity", encoder.entities),
        relations=Vocabulary("relation", encoder.relations),
        train=splits["train"],
        valid=splits.get("valid", Triples.of([])),
        test=splits.get("test", Triples.of([])),
        report=ReadReport(reports),
    )
    return graph, tallies


def _reported(graph: KnowledgeGraph, tallies: dict[str, Tally]) -> KnowledgeGraph:
    found = tuple(suspicions(graph, tallies))
    for message in found:
        warnings.warn(message, GraphWarning, stacklevel=3)
    return replace(graph, report=replace(graph.report, warnings=found))


def _stem(path: Path) -> str:
    name = path.resolve().name
    for ending in PACKED:
        name = name.removesuffix(ending)
    return Path(name).stem if path.is_file() else name


def _split_sources(given: Mapping[object, object]) -> dict[str, object]:
    """The splits of a mapping, under our names for them."""
    found: dict[str, object] = {}
    for key, source in given.items():
        split = next((s for s, names in _SPLIT_NAMES.items() if str(key).casefold() in names), None)
        if split is None or split in found:
            raise BadSource(f"{key!r} is not the name of one split; use train, valid and test")
        found[split] = locate(source) if isinstance(source, str | os.PathLike) else source
    if "train" not in found:
        raise BadSource("there is no 'train' among the splits; a graph needs training triples")
    return found


def _split_files(folder: Path) -> dict[str, object]:
    """The file of each split in a folder."""
    endings = {
        suffix + packed
        for reader in READERS
        for suffix in reader.suffixes
        for packed in ("", *PACKED)
    }
    try:
        here = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise BadSource(f"{folder}: cannot be read: {error.strerror}") from error
    found: dict[str, object] = {}
    for split, names in _SPLIT_NAMES.items():
        fitting = [
            path for path in here if path.name.casefold() in {n + e for n in names for e in endings}
        ]
        if len(fitting) > 1:
            raise BadSource(
                f"{folder}: {' and '.join(path.name for path in fitting)} are both the {split} "
                "split; keep one"
            )
        if fitting:
            found[split] = fitting[0]
    if "train" not in found:
        listed = ", ".join(path.name for path in here[:8]) or "nothing"
        raise BadSource(
            f"{folder}: no train.txt, train.tsv or train.csv here (there is {listed}); name the "
            "training file so, or give the path of one file"
        )
    return found


def _annotated(
    graph: KnowledgeGraph, folder: Path, options: ReadOptions, tallies: dict[str, Tally]
) -> KnowledgeGraph:
    """The graph with the labels and types that lie beside its triples."""
    changes: dict[str, object] = {}
    for field, stem in (("entities", "entity_labels"), ("relations", "relation_labels")):
        if path := find_annotations(folder, stem):
            tally = tallies[stem] = Tally(str(path))
            changes[field] = _labelled(getattr(graph, field), path, options, tally)
    if path := find_annotations(folder, "entity_types"):
        tally = tallies["entity_types"] = Tally(str(path))
        changes["types"] = _typed(graph.entities, path, options, tally)
    return replace(graph, **changes)  # type: ignore[arg-type]


def _labelled(vocabulary: Vocabulary, path: Path, options: ReadOptions, tally: Tally) -> Vocabulary:
    labels: list[str | None] = [None] * len(vocabulary)
    descriptions: list[str | None] = [None] * len(vocabulary)
    for name, label, *description in read_annotations(path, options, tally, most_fields=3):
        if name in vocabulary:
            number = vocabulary.id_of(name)
            labels[number] = labels[number] or label or None
            descriptions[number] = descriptions[number] or "".join(description) or None
    return Vocabulary(
        vocabulary.kind,
        vocabulary.names,
        labels if any(labels) else None,
        descriptions if any(descriptions) else None,
    )


def _typed(
    entities: Vocabulary, path: Path, options: ReadOptions, tally: Tally
) -> EntityTypes | None:
    rows = [row for row in read_annotations(path, options, tally, most_fields=2) if row[1]]
    names, kinds = zip(*rows, strict=True) if rows else ((), ())
    owners = pc.index_in(pa.array(names, NAME_TYPE), value_set=entities.names)
    known = np.flatnonzero(owners.is_valid())
    if not len(known):
        return None
    coded = pa.array(kinds, NAME_TYPE).take(pa.array(known)).dictionary_encode()
    pairs = np.stack([owners.take(pa.array(known)).to_numpy(), coded.indices.to_numpy()], axis=1)
    pairs = np.unique(pairs, axis=0)
    return EntityTypes(Vocabulary("type", coded.dictionary), pairs[:, 0], pairs[:, 1])
