"""A graph as a file or a folder of files that other tools read, and that reads back as it was."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from fivestar.errors import GraphWarning, OutputError
from fivestar.files import atomic_file, atomic_folder, sync_file
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.graph.writers import (
    KEEPS_ANNOTATIONS,
    KEEPS_SPLITS,
    WRITTEN,
    format_written,
    open_sink,
)
from fivestar.graph.writers.base import WriteChoices
from fivestar.graph.writers.rdf import term_of

SplitChoice = Literal["keep", "merge"]
ExistingChoice = Literal["refuse", "replace"]
LiteralsAs = Literal["literals", "names"]
_ROWS_AT_ONCE = 1_000_000
# How RDF ranks texts for people has no meaning here: there is one of each.
_ONLY = 0


def write_graph(
    graph: KnowledgeGraph,
    out: str | os.PathLike[str],
    *,
    to: str = "tsv",
    splits: SplitChoice = "keep",
    existing: ExistingChoice = "refuse",
    literals: LiteralsAs = "names",
) -> Path:
    """Write a graph to a file, or to a new folder with train, valid and test.

    Args:
        graph: what to write.
        out: a file whose name ends with .tsv, .csv, .nt, .nq, .ttl (all of them also packed: .gz,
            .bz2, .xz, .zst), .parquet, .arrow or .feather; any other name is that of a folder.
        to: how files in a folder end: "tsv", "nt.gz", "parquet" … Text is comma-separated where a
            name holds a tab.
        splits: one file keeps splits apart as named graphs (.nq) or by a column (.parquet, .arrow);
            "merge" puts all distinct facts together.
        existing: "replace" allows for another file of this name; a folder is never replaced.
        literals: names such as '"text"@en' become "literals" of RDF again, or IRIs as all "names".
    """
    place = Path(out)
    if format_written(place) is None:
        _write_folder(graph, place, to, splits, literals)
    else:
        _write_file(graph, place, splits, existing, literals)
    return place


def check_place(place: Path, existing: ExistingChoice) -> None:
    """Stop if a file cannot go where it should."""
    if place.is_dir() or (place.exists() and existing == "refuse"):
        what = "is a folder" if place.is_dir() else "exists already"
        raise OutputError(f"{place} {what}; choose another name, or replace a file with --force")
    if not place.parent.is_dir():
        raise OutputError(f"{place}: there is no folder {place.parent}; make it first")


def untold_splits(place: Path, names: Iterable[str]) -> OutputError:
    """The error where one file cannot keep the splits of a graph."""
    return OutputError(
        f"{place}: the graph has the splits {', '.join(names)}, which {place.suffix} cannot tell "
        "apart; write a folder, .nq or .parquet, or put them together with --all (splits='merge')"
    )


def warn_of_lost(place: Path, told: Annotations) -> None:
    """Say that labels or types are not in a file."""
    what = " and ".join(
        text
        for text, some in (
            ("labels", told.labels or told.descriptions),
            ("types", told.types),
        )
        if some
    )
    if what:
        warnings.warn(
            f"{place}: has no place for the {what} of the graph; a folder, .nt, .nq or .ttl has",
            GraphWarning,
            stacklevel=3,
        )


def _write_file(
    graph: KnowledgeGraph,
    place: Path,
    splits: SplitChoice,
    existing: ExistingChoice,
    literals: LiteralsAs,
) -> None:
    check_place(place, existing)
    kind = format_written(place)
    parts = _parts(graph, splits)
    if len(parts) > 1 and kind not in KEEPS_SPLITS:
        raise untold_splits(place, parts)
    choices = WriteChoices("told" if len(parts) > 1 else "untold", "nodes", literals)
    told = annotations_of(graph)
    with atomic_file(place) as draft, open_sink(place, draft, choices) as sink:
        for split, triples in parts.items():
            for piece in _pieces(graph, triples, split):
                sink.write(piece)
        sink.tell(told)
    if kind not in KEEPS_ANNOTATIONS:
        warn_of_lost(place, told)


def _write_folder(
    graph: KnowledgeGraph, folder: Path, to: str, splits: SplitChoice, literals: LiteralsAs
) -> None:
    ending = to.lower().removeprefix(".")
    kind = format_written(Path(f"train.{ending}"))
    if kind is None:
        known = ", ".join(suffix.removeprefix(".") for suffix in WRITTEN)
        raise OutputError(f"no files are written as {to!r}; use one of {known}")
    vocabularies = (graph.entities, graph.relations)
    if kind == "tsv" and any(_holds(vocabulary, "\t") for vocabulary in vocabularies):
        ending = ending.replace(ending.partition(".")[0], "csv", 1)
    told = annotations_of(graph)
    # One node of several files must have a name that holds in all of them.
    choices = WriteChoices("untold", "names", literals)
    with atomic_folder(folder) as draft:
        for split, triples in _parts(graph, splits).items():
            path = draft / f"{split}.{ending}"
            with open_sink(path, path, choices) as sink:
                for piece in _pieces(graph, triples, split):
                    sink.write(piece)
                if split == "train":
                    sink.tell(told)
            sync_file(path)
        if kind not in KEEPS_ANNOTATIONS:
            _write_annotations(graph, draft)


def annotations_of(graph: KnowledgeGraph) -> Annotations:
    """What a graph says about its names, by terms."""
    told = Annotations()
    for vocabulary in (graph.entities, graph.relations):
        for texts, known in (
            (vocabulary.labels, told.labels),
            (vocabulary.descriptions, told.descriptions),
        ):
            if texts is not None:
                for name, text in zip(vocabulary.names.to_pylist(), texts.to_pylist(), strict=True):
                    if text is not None:
                        known.setdefault(term_of(name, vocabulary.kind), (_ONLY, text))
    for name, kind in _typed_names(graph):
        told.types[term_of(name, "entity"), term_of(kind, "type")] = None
    return told


def _typed_names(graph: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Entities with their types, in the order of the types: so they are numbered again alike."""
    if graph.types is None:
        return iter(())
    order = graph.types.types.argsort(kind="stable")
    names = graph.entities.names_of(graph.types.entities[order])
    return zip(names, graph.types.vocabulary.names_of(graph.types.types[order]), strict=True)


def _parts(graph: KnowledgeGraph, splits: SplitChoice) -> dict[str, Triples]:
    if splits == "merge":
        return {"train": graph.facts}
    return {split: triples for split, triples in graph.splits.items() if len(triples)}


def _pieces(graph: KnowledgeGraph, triples: Triples, split: str) -> Iterator[TripleColumns]:
    for start in range(0, len(triples), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        part = Triples(triples.heads[rows], triples.relations[rows], triples.tails[rows])
        yield TripleColumns.of(graph.named(part).columns, split)


def _write_annotations(graph: KnowledgeGraph, folder: Path) -> None:
    _write_labels(folder / "entity_labels.tsv", graph.entities)
    _write_labels(folder / "relation_labels.tsv", graph.relations)
    if graph.types is not None:
        _write_rows(folder / "entity_types.tsv", _typed_names(graph))


def _write_labels(path: Path, vocabulary: Vocabulary) -> None:
    if vocabulary.labels is None and vocabulary.descriptions is None:
        return
    nothing = [None] * len(vocabulary)
    labels, descriptions = (
        nothing if texts is None else texts.to_pylist()
        for texts in (vocabulary.labels, vocabulary.descriptions)
    )
    rows = []
    for name, label, description in zip(vocabulary, labels, descriptions, strict=True):
        if label or description:
            # A text for people may be on several lines; a row of a table may not.
            texts = [" ".join((text or "").split()) for text in (label, description)]
            rows.append((name, *texts) if description else (name, texts[0]))
    _write_rows(path, rows)


def _write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in rows:
            if any(mark in field for field in row for mark in "\t\n\r"):
                raise OutputError(
                    f"{row[0]!r} or its type holds a tab or a line end, which {path.name} cannot "
                    "keep; use save_graph or write .nt"
                )
            file.write("\t".join(row) + "\n")
    sync_file(path)


def _holds(vocabulary: Vocabulary, mark: str) -> bool:
    return bool(pc.any(pc.match_substring(vocabulary.names, mark)).as_py())
