"""Convert any source to any format; from file to file without the graph in memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fivestar.errors import BadSource, OutputError
from fivestar.files import atomic_file
from fivestar.graph.datasets import locate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers import reader_for
from fivestar.graph.readers.base import ReadOptions
from fivestar.graph.readers.streams import suffix_of
from fivestar.graph.reading import describe_empty, make_tally, read_with
from fivestar.graph.report import SplitReport
from fivestar.graph.writers import (
    FORMATS,
    FORMATS_WITH_ANNOTATIONS,
    FORMATS_WITH_SPLITS,
    open_sink,
    output_format,
)
from fivestar.graph.writers.base import WriteOptions
from fivestar.graph.writing import (
    ExistingChoice,
    LiteralsAs,
    SplitChoice,
    check_output_path,
    splits_error,
    warn_about_lost,
    write_graph,
)

# Source files that may include splits, by extension and by format.
_SUFFIXES_WITH_SPLITS = frozenset(
    {".nq", ".nquads", ".trig", ".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"}
)
_SOURCE_FORMATS_WITH_SPLITS = frozenset({"nq", "trig", "parquet", "arrow"})


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        out: the file or folder that was written.
        triples: the number of triples per split.
        report: how the lines of the source were used.
    """

    out: Path
    triples: Mapping[str, int]
    report: Mapping[str, SplitReport]


def convert_graph(
    source: object,
    out: str | os.PathLike[str],
    *,
    to: str | None = None,
    splits: SplitChoice = "keep",
    existing: ExistingChoice = "refuse",
    options: ReadOptions | None = None,
) -> Conversion:
    """Convert a source to another format.

    A file is converted to a file in pieces, in bounded memory, and keeps repeated triples. In all
    other cases the graph is read first.

    Args:
        source: a source as in `read_graph`.
        out: a file or folder as in `write_graph`.
        to: the extension of files in a folder.
        splits: "keep" or "merge" the splits, as in `write_graph`.
        existing: "replace" an existing file, or "refuse" to.
        options: how to read the source.

    Returns:
        What was read and written.

    Raises:
        BadSource: if the source cannot be read.
        OutputError: if the output cannot be written, or cannot represent the graph.
    """
    path = Path(out)
    options = options or ReadOptions()
    _check_extension(path, to)
    if isinstance(source, str | os.PathLike) and output_format(path) is not None:
        source_path = locate(source, options.progress)
        if source_path.is_file():
            check_output_path(path, existing)
            return _convert_file(source_path, path, splits, options)
    graph = source if isinstance(source, KnowledgeGraph) else read_with(options, source)
    literals: LiteralsAs = "literals" if options.literals == "keep" else "names"
    write_graph(graph, path, to=to or "tsv", splits=splits, existing=existing, literals=literals)
    parts = {"train": graph.facts} if splits == "merge" else graph.splits
    counts = {split: len(triples) for split, triples in parts.items() if len(triples)}
    return Conversion(path, counts, graph.report.splits)


def _check_extension(path: Path, to: str | None) -> None:
    is_file = output_format(path) is not None
    if is_file and to is not None:
        raise OutputError(f"{path}: the file extension is the format; to={to!r} is for folders")
    if not is_file and to is None and path.suffix:
        raise OutputError(
            f"{path}: {path.suffix} is not an output format; use {', '.join(FORMATS)} (or a "
            "folder, with to='tsv')"
        )


def _convert_file(
    source: Path, path: Path, splits: SplitChoice, options: ReadOptions
) -> Conversion:
    if path.exists() and path.samefile(source):
        raise OutputError(f"{path}: is the source; choose another name")
    file_format = output_format(path)
    has_splits = (
        splits == "keep"
        and file_format in FORMATS_WITH_SPLITS
        and _may_include_splits(source, options)
    )
    literals: LiteralsAs = "literals" if options.literals == "keep" else "names"
    write_options = WriteOptions(
        "include" if has_splits else "omit",
        "nodes",
        literals,
        "omit" if options.weight is None else "include",
    )
    tally = make_tally(source, "")
    counts: Counter[str] = Counter()
    pieces = reader_for(source, options.format).read(source, options, tally)
    with atomic_file(path) as draft, open_sink(path, draft, write_options) as sink:
        for piece in pieces:
            if piece.split != "train" and splits == "keep" and not has_splits:
                raise splits_error(path, ("train", piece.split))
            sink.write(piece)
            counts["train" if splits == "merge" else piece.split] += len(piece.heads)
        if not counts["train"]:
            raise BadSource(describe_empty(tally))
        sink.write_annotations(tally.annotations)
    if file_format not in FORMATS_WITH_ANNOTATIONS:
        warn_about_lost(path, tally.annotations)
    total = counts.total()
    return Conversion(path, dict(counts), {"train": SplitReport.of(tally, total, total)})


def _may_include_splits(source: Path, options: ReadOptions) -> bool:
    if options.format is not None:
        return options.format in _SOURCE_FORMATS_WITH_SPLITS
    return suffix_of(source) in _SUFFIXES_WITH_SPLITS
