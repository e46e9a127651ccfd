"""Write a graph to a file or folder that other tools can read, and that reads back the same."""

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
    FORMATS_WITH_ANNOTATIONS,
    FORMATS_WITH_SPLITS,
    folder_file_ending,
    open_sink,
    output_format,
)
from fivestar.graph.writers.base import WriteOptions
from fivestar.graph.writers.rdf import subject_term

SplitChoice = Literal["keep", "merge"]
ExistingChoice = Literal["refuse", "replace"]
LiteralsAs = Literal["literals", "names"]
_BATCH_SIZE = 1_000_000
# A graph has one label per name, so ranks have no meaning here.
_RANK = 0


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

    Weights of facts are a column `weight` of text, Parquet and Arrow, and in RDF the property
    urn:fivestar:weight of reified statements: `read_graph` reads them back with `weight="weight"`
    or `weight="urn:fivestar:weight"`.

    Args:
        graph: the graph.
        out: a file with the extension .tsv, .csv, .nt, .nq, .ttl (each also compressed: .gz, .bz2,
            .xz, .zst), .parquet, .arrow or .feather; any other name is a folder.
        to: the extension of files in a folder: "tsv", "nt.gz", "parquet" … Text is comma-separated
            if a name contains a tab.
        splits: "keep" the splits of one file as named graphs (.nq) or in a column (.parquet,
            .arrow), or "merge" them into one set of distinct facts.
        existing: "replace" an existing file, or "refuse" to; a folder is never replaced.
        literals: write names such as '"text"@en' as RDF "literals", or as IRIs like other "names".

    Returns:
        The path of the file or folder.

    Raises:
        OutputError: if it cannot be written, or the format cannot represent the graph.

    >>> import tempfile, fivestar
    >>> graph = fivestar.read_graph([("a", "next", "b")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graph(graph, f"{folder}/graph.tsv").read_text().split()
    ['a', 'next', 'b']
    """
    path = Path(out)
    if output_format(path) is None:
        _write_folder(graph, path, to, splits, literals)
    else:
        _write_file(graph, path, splits, existing, literals)
    return path


def check_output_path(path: Path, existing: ExistingChoice) -> None:
    """Raise `OutputError` if a file cannot be written to a path."""
    if path.is_dir():
        raise OutputError(f"{path} is a folder; choose another name")
    if path.exists() and existing == "refuse":
        raise OutputError(f"{path} exists already; choose another name, or existing='replace'")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}; make it first")


def splits_error(path: Path, names: Iterable[str]) -> OutputError:
    """Return the error that one file cannot represent the splits of a graph."""
    return OutputError(
        f"{path}: the graph has the splits {', '.join(names)}, which {path.suffix} cannot "
        "represent; write a folder, .nq or .parquet, or merge them with splits='merge'"
    )


def warn_about_lost(path: Path, annotations: Annotations) -> None:
    """Warn that labels or types are not in a file."""
    present = {
        "labels": annotations.labels or annotations.descriptions,
        "types": annotations.types,
    }
    missing = " and ".join(name for name, content in present.items() if content)
    if missing:
        warnings.warn(
            f"{path}: the {missing} of the graph are not written; use a folder, .nt, .nq or .ttl",
            GraphWarning,
            stacklevel=3,
        )


def _write_file(
    graph: KnowledgeGraph,
    path: Path,
    splits: SplitChoice,
    existing: ExistingChoice,
    literals: LiteralsAs,
) -> None:
    check_output_path(path, existing)
    file_format = output_format(path)
    parts = _parts(graph, splits)
    if len(parts) > 1 and file_format not in FORMATS_WITH_SPLITS:
        raise splits_error(path, parts)
    options = WriteOptions(
        "include" if len(parts) > 1 else "omit", "nodes", literals, _weight_choice(graph)
    )
    annotations = graph_annotations(graph)
    with atomic_file(path) as draft, open_sink(path, draft, options) as sink:
        for split, triples in parts.items():
            for piece in _pieces(graph, triples, split):
                sink.write(piece)
        sink.write_annotations(annotations)
    if file_format not in FORMATS_WITH_ANNOTATIONS:
        warn_about_lost(path, annotations)


def _write_folder(
    graph: KnowledgeGraph, folder: Path, to: str, splits: SplitChoice, literals: LiteralsAs
) -> None:
    ending = folder_file_ending(to)
    file_format = output_format(Path(f"train.{ending}"))
    vocabularies = (graph.entities, graph.relations)
    if file_format == "tsv" and any(_contains(vocabulary, "\t") for vocabulary in vocabularies):
        ending = ending.replace(ending.partition(".")[0], "csv", 1)
    annotations = graph_annotations(graph)
    # A blank node of several files must be a name, which is valid in all of them.
    options = WriteOptions("omit", "names", literals, _weight_choice(graph))
    with atomic_folder(folder) as draft:
        for split, triples in _parts(graph, splits).items():
            path = draft / f"{split}.{ending}"
            with open_sink(path, path, options) as sink:
                for piece in _pieces(graph, triples, split):
                    sink.write(piece)
                if split == "train":
                    sink.write_annotations(annotations)
            sync_file(path)
        if file_format not in FORMATS_WITH_ANNOTATIONS:
            _write_annotations(graph, draft)


def graph_annotations(graph: KnowledgeGraph) -> Annotations:
    """Return the labels, descriptions and types of a graph by RDF term."""
    annotations = Annotations()
    for vocabulary in (graph.entities, graph.relations):
        for texts, by_term in (
            (vocabulary.labels, annotations.labels),
            (vocabulary.descriptions, annotations.descriptions),
        ):
            if texts is not None:
                for name, text in zip(vocabulary.names.to_pylist(), texts.to_pylist(), strict=True):
                    if text is not None:
                        term = subject_term(name, vocabulary.kind)
                        by_term.setdefault(term, (_RANK, text))
    for name, type_ in _typed_names(graph):
        terms = subject_term(name, "entity"), subject_term(type_, "type")
        annotations.types[terms] = None
    return annotations


def _typed_names(graph: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Yield (entity, type) in the order of the types, so that they get the same ids again."""
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
    for start in range(0, len(triples), _BATCH_SIZE):
        rows = slice(start, start + _BATCH_SIZE)
        part = Triples(triples.heads[rows], triples.relations[rows], triples.tails[rows])
        weights = None if triples.weights is None else triples.weights[rows]
        yield TripleColumns.of(graph.named(part).columns, split, weights)


def _weight_choice(graph: KnowledgeGraph) -> Literal["include", "omit"]:
    return "include" if graph.is_weighted else "omit"


def _write_annotations(graph: KnowledgeGraph, folder: Path) -> None:
    _write_labels(folder / "entity_labels.tsv", graph.entities)
    _write_labels(folder / "relation_labels.tsv", graph.relations)
    if graph.types is not None:
        _write_rows(folder / "entity_types.tsv", _typed_names(graph))


def _write_labels(path: Path, vocabulary: Vocabulary) -> None:
    if vocabulary.labels is None and vocabulary.descriptions is None:
        return
    missing = [None] * len(vocabulary)
    labels, descriptions = (
        missing if texts is None else texts.to_pylist()
        for texts in (vocabulary.labels, vocabulary.descriptions)
    )
    rows = []
    for name, label, description in zip(vocabulary, labels, descriptions, strict=True):
        if label or description:
            # A label may have several lines; a row of a table may not.
            texts = [" ".join((text or "").split()) for text in (label, description)]
            rows.append((name, *texts) if description else (name, texts[0]))
    _write_rows(path, rows)


def _write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in rows:
            if any(character in field for field in row for character in "\t\n\r"):
                raise OutputError(
                    f"{row[0]!r} or its type contains a tab or a line break, which {path.name} "
                    "cannot represent; use save_graph or write .nt"
                )
            file.write("\t".join(row) + "\n")
    sync_file(path)


def _contains(vocabulary: Vocabulary, text: str) -> bool:
    return bool(pc.any(pc.match_substring(vocabulary.names, text)).as_py())
