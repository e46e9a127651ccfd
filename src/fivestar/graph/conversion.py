"""From any source to any format; from file to file without the graph in memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fivestar.errors import BadSource, OutputError
from fivestar.files import atomic_file
from fivestar.graph.catalog import locate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers import reader_for
from fivestar.graph.readers.base import ReadOptions
from fivestar.graph.readers.compression import suffix_of
from fivestar.graph.reading import read_with, tally_for, why_empty
from fivestar.graph.report import SplitReport
from fivestar.graph.writers import (
    KEEPS_ANNOTATIONS,
    KEEPS_SPLITS,
    WRITTEN,
    format_written,
    open_sink,
)
from fivestar.graph.writers.base import WriteChoices
from fivestar.graph.writing import (
    ExistingChoice,
    LiteralsAs,
    SplitChoice,
    check_place,
    untold_splits,
    warn_of_lost,
    write_graph,
)

# Files of these may themselves say which triples are valid and test.
_MAY_TELL_SPLITS = frozenset(
    {".nq", ".nquads", ".trig", ".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"}
)
_FORMATS_TELLING_SPLITS = frozenset({"nq", "trig", "parquet", "arrow"})


@dataclass(frozen=True)
class Converted:
    """What was written, and what became of every line of the source."""

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
) -> Converted:
    """Write what `read_graph` reads as another format; `out` is as in `write_graph`.

    One file becomes one file piece by piece, in bounded memory, and keeps its repeated triples. In
    any other case the graph is read first.
    """
    place = Path(out)
    options = options or ReadOptions()
    _check_ending(place, to)
    if isinstance(source, str | os.PathLike) and format_written(place) is not None:
        path = locate(source, options.progress)
        if path.is_file():
            check_place(place, existing)
            return _streamed(path, place, splits, options)
    graph = source if isinstance(source, KnowledgeGraph) else read_with(options, source)
    literals: LiteralsAs = "literals" if options.literals == "keep" else "names"
    write_graph(graph, place, to=to or "tsv", splits=splits, existing=existing, literals=literals)
    parts = {"train": graph.facts} if splits == "merge" else graph.splits
    counts = {split: len(triples) for split, triples in parts.items() if len(triples)}
    return Converted(place, counts, graph.report.splits)


def _check_ending(place: Path, to: str | None) -> None:
    is_file = format_written(place) is not None
    if is_file and to is not None:
        raise OutputError(f"{place}: the name tells the format; --to is for folders")
    if not is_file and to is None and place.suffix:
        known = ", ".join(WRITTEN)
        raise OutputError(
            f"{place}: nothing is written as {place.suffix}; use {known} (or a folder, with --to)"
        )


def _streamed(path: Path, place: Path, splits: SplitChoice, options: ReadOptions) -> Converted:
    if place.exists() and place.samefile(path):
        raise OutputError(f"{place}: is what is read; write to another name")
    kind = format_written(place)
    told = splits == "keep" and kind in KEEPS_SPLITS and _may_tell_splits(path, options)
    literals: LiteralsAs = "literals" if options.literals == "keep" else "names"
    choices = WriteChoices("told" if told else "untold", "nodes", literals)
    tally = tally_for(path, "")
    counts: Counter[str] = Counter()
    pieces = reader_for(path, options.format).read(path, options, tally)
    with atomic_file(place) as draft, open_sink(place, draft, choices) as sink:
        for piece in pieces:
            if piece.split != "train" and splits == "keep" and not told:
                raise untold_splits(place, ("train", piece.split))
            sink.write(piece)
            counts["train" if splits == "merge" else piece.split] += len(piece.heads)
        if not counts["train"]:
            raise BadSource(why_empty(tally))
        sink.tell(tally.annotations)
    if kind not in KEEPS_ANNOTATIONS:
        warn_of_lost(place, tally.annotations)
    total = counts.total()
    return Converted(place, dict(counts), {"train": SplitReport.of(tally, total, total)})


def _may_tell_splits(path: Path, options: ReadOptions) -> bool:
    if options.format is not None:
        return options.format in _FORMATS_TELLING_SPLITS
    return suffix_of(path) in _MAY_TELL_SPLITS
