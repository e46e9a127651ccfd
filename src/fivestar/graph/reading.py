"""`read_graph`: any source in, a `KnowledgeGraph` out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.annotating import labelled, typed, with_annotations
from fivestar.graph.building import Encoder
from fivestar.graph.catalog import DEMO_FOLDER, DEMO_NAME, locate
from fivestar.graph.choices import (
    BadLineChoice,
    FormatName,
    HeaderChoice,
    LiteralChoice,
    TypeChoice,
)
from fivestar.graph.knowledge_graph import SPLITS, KnowledgeGraph
from fivestar.graph.readers import READERS, reader_for
from fivestar.graph.readers.annotations import find_annotations, read_annotations
from fivestar.graph.readers.base import (
    SPLIT_NAMES,
    Annotations,
    Columns,
    Progress,
    ReadOptions,
    Tally,
    TripleColumns,
    split_called,
)
from fivestar.graph.readers.compression import SUFFIXES as PACKED
from fivestar.graph.readers.dialect import counted
from fivestar.graph.readers.openke import NumberedFacts, find_openke
from fivestar.graph.report import ReadReport, SplitReport
from fivestar.graph.storage import is_saved_graph, load_graph
from fivestar.graph.suspicions import suspicions
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary


def read_graph(  # noqa: PLR0913
    source: object = None,
    *,
    delimiter: str | None = None,
    header: HeaderChoice = "auto",
    columns: Columns | None = None,
    quote: str | None = None,
    on_bad_line: BadLineChoice = "error",
    format: FormatName | None = None,  # noqa: A002  (there is no better word)
    graphs: Sequence[str] | None = None,
    literals: LiteralChoice = "drop",
    types: TypeChoice = "types",
    language: str = "en",
    name: str | None = None,
    progress: Progress | None = None,
) -> KnowledgeGraph:
    """Read a knowledge graph from wherever it is.

    Args:
        source: a file of triples (text, RDF, Parquet, Arrow, results of SPARQL), a folder of
            train/valid/test files, a folder of OpenKE or one that `save_graph` wrote, the name of a
            data set, a table (pandas, polars, pyarrow), a graph of NetworkX or rdflib, a triples
            factory of PyKEEN, an iterable of (head, relation, tail), or a mapping from split names
            to any of these. Without a source it is the embedded graph of countries and cities.
        delimiter: what separates the fields of a text file; found out if not given.
        header: whether text files begin with a header: "yes", "no", or "auto" to find out.
        columns: names or numbers (from 0) of the head, relation and tail column, in this order.
        quote: the quote character of text files, "" for none; by default `"`, and none in
            tab-separated files.
        on_bad_line: "error" stops at the first line that cannot be read; "skip" leaves such lines
            out and says how many and which in `graph.report`.
        format: what files are, where their names do not tell: "text", "nt", "nq", "ttl", "trig",
            "rdf" (RDF/XML), "jsonld", "srj", "srx" (results of SPARQL), "parquet" or "arrow"; or
            "openke", where a folder could be read in two ways.
        graphs: the IRIs of the named graphs to read, "default" for the one without a name; by
            default all.
        literals: "drop" leaves statements about literals out and counts them; "keep" makes
            literals entities, under names such as '"text"@en'.
        types: rdf:type tells "types" of entities, or is a relation as others are ("triples").
        language: which labels are preferred; then those of no language, then any.
        name: a name for the graph; by default that of its file or folder.
        progress: called with (bytes done, bytes in all) while large files are read.

    Anything legal but suspicious is a `GraphWarning`, and is kept in `graph.report.warnings`.

    >>> graph = read_graph([("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy")])
    >>> graph
    KnowledgeGraph('graph': 4 entities, 1 relations, 2 / 0 / 0 triples)
    >>> graph.entities.id_of("Rome")
    2
    """
    options = ReadOptions(
        delimiter,
        header,
        columns,
        quote,
        on_bad_line,
        progress,
        format,
        None if graphs is None else (graphs,) if isinstance(graphs, str) else tuple(graphs),
        literals,
        types,
        language,
    )
    return read_with(options, source, name)


def read_with(
    options: ReadOptions, source: object = None, name: str | None = None
) -> KnowledgeGraph:
    """The same with all options in one."""
    folder: Path | None = None
    if source is None or isinstance(source, str | os.PathLike):
        path = DEMO_FOLDER if source is None else locate(source, options.progress)
        name = name or (DEMO_NAME if path == DEMO_FOLDER else _stem(path))
        folder = path if path.is_dir() else None
        if folder is not None and is_saved_graph(folder):
            return replace(load_graph(folder), name=name)
        sources = {"train": path} if folder is None else split_files(folder, options.format)
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
    found: dict[str, Triples] = {}
    tallies: dict[str, Tally] = {}
    within: dict[str, list[TripleColumns]] = {}  # held out within the file of train
    for split in SPLITS:
        if split in sources:
            source = sources[split]
            scope = f"{split}." if len(sources) > 1 else ""
            tally = tally_for(source, f"{split} ({name})")
            reader = reader_for(source, options.format)
            pieces = reader.read(source, replace(options, blank_scope=scope), tally)
            found[split] = encoder.encode(_of_train(pieces, within))
            tallies[split] = tally
    if len(sources) > 1 and within:
        held = " and ".join(within)
        raise BadSource(
            f"{tallies['train'].source}: says itself which triples are {held}, but there are "
            "other files as well; give one or the other"
        )
    for split, held_out in within.items():
        found[split] = encoder.encode(held_out)
        tallies[split] = Tally(tallies["train"].source, tallies["train"].unit, len(found[split]))
        tallies["train"].lines -= len(found[split])
    if not len(found["train"]):
        raise BadSource(why_empty(tallies["train"]))
    distinct = {split: triples.distinct() for split, triples in found.items()}
    reports = {
        split: SplitReport.of(tallies[split], len(found[split]), len(distinct[split]))
        for split in SPLITS
        if split in found
    }
    graph = KnowledgeGraph(
        name=name,
        entities=Vocabulary("entity", encoder.entities),
        relations=Vocabulary("relation", encoder.relations),
        train=distinct["train"],
        valid=found.get("valid", Triples.of([])),
        test=found.get("test", Triples.of([])),
        report=ReadReport(reports),
    )
    told = Annotations()
    for tally in tallies.values():
        told.add(tally.annotations)
    return with_annotations(graph, told), tallies


def tally_for(source: object, otherwise: str) -> Tally:
    """A tally for a source, by its path if it has one."""
    if isinstance(source, Path | NumberedFacts):
        return Tally(str(source), "line")
    return Tally(otherwise, "row")


def _of_train(
    pieces: Iterable[TripleColumns], others: dict[str, list[TripleColumns]]
) -> Iterator[TripleColumns]:
    """The pieces for training; the others are put by, so that ids follow train, valid and test."""
    for piece in pieces:
        if piece.split == "train":
            yield piece
        elif len(piece.heads):
            others.setdefault(piece.split, []).append(piece)


def why_empty(tally: Tally) -> str:
    """What a source holds that has no triple."""
    counts = f"{tally.headers} header, {tally.blanks:,} blank, {tally.bad:,} bad"
    advice = ""
    for what, count, remedy in (
        ("of other graphs", tally.other_graphs, "--graph chooses them"),
        ("labels", tally.labels, ""),
        ("types", tally.types, "--types triples keeps them"),
        ("literals", tally.literals, "--literals keep keeps them"),
    ):
        if count:
            counts += f", {count:,} {what}"
            advice += f"; {remedy}" if remedy else ""
    return (
        f"{tally.source}: holds no triple ({counted(tally.lines, tally.unit)}: {counts}); a graph "
        f"needs at least one{advice}"
    )


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
        split = split_called(str(key))
        if split is None or split in found:
            raise BadSource(f"{key!r} is not the name of one split; use train, valid and test")
        found[split] = locate(source) if isinstance(source, str | os.PathLike) else source
    if "train" not in found:
        raise BadSource("there is no 'train' among the splits; a graph needs training triples")
    return found


def split_files(folder: Path, given: FormatName | None = None) -> dict[str, object]:
    """The file of each split in a folder."""
    endings = {
        suffix + packed
        for reader in READERS
        for suffixes in reader.formats.values()
        for suffix in suffixes
        for packed in ("", *PACKED)
    }
    numbered = find_openke(folder)
    if given == "openke" and "train" not in numbered:
        raise BadSource(f"{folder}: no train2id.txt here, so it is no folder of OpenKE")
    if given == "openke":
        return numbered
    try:
        here = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise BadSource(f"{folder}: cannot be read: {error.strerror}") from error
    found: dict[str, object] = {}
    for split, names in SPLIT_NAMES.items():
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
    if "train" not in found and "train" in numbered:
        return numbered
    if "train" not in found:
        listed = ", ".join(path.name for path in here[:8]) or "nothing"
        listed += f" and {len(here) - 8} more" if len(here) > 8 else ""
        raise BadSource(
            f"{folder}: no train.txt, train.tsv, train.nt, train.parquet … here (there is "
            f"{listed}); name the training file so, or give the path of one file"
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
            rows = list(read_annotations(path, options, tally, most_fields=3))
            columns = ([row[0] for row in rows], [row[1] for row in rows])
            descriptions = ["".join(row[2:]) for row in rows]
            changes[field] = labelled(getattr(graph, field), *columns, descriptions)
    if path := find_annotations(folder, "entity_types"):
        tally = tallies["entity_types"] = Tally(str(path))
        pairs = read_annotations(path, options, tally, most_fields=2)
        changes["types"] = typed(graph, [(name, kind) for name, kind in pairs if kind])
    return replace(graph, **changes)  # type: ignore[arg-type]
