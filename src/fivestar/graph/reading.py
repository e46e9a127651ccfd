"""`read_graph`: read any source into a `KnowledgeGraph`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fivestar.errors import BadSource, GraphWarning, SettingsError
from fivestar.graph.annotations import with_annotation_files, with_annotations
from fivestar.graph.checks import suspicious_findings
from fivestar.graph.choices import (
    BadLineChoice,
    FormatName,
    HeaderChoice,
    LiteralChoice,
    TypeChoice,
)
from fivestar.graph.datasets import DEMO_FOLDER, DEMO_NAME, locate
from fivestar.graph.encoding import Encoder
from fivestar.graph.knowledge_graph import SPLITS, KnowledgeGraph
from fivestar.graph.readers import reader_for, split_files
from fivestar.graph.readers.base import (
    Annotations,
    Columns,
    Progress,
    ReadOptions,
    Tally,
    TripleColumns,
    plural,
    split_named,
)
from fivestar.graph.readers.openke import NumberedFacts
from fivestar.graph.readers.streams import COMPRESSED
from fivestar.graph.report import ReadReport, SplitReport
from fivestar.graph.storage import is_saved_graph, load_graph
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
    weight: str | int | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> KnowledgeGraph:
    """Read a knowledge graph.

    Args:
        source: a file of triples (text, RDF, Parquet, Arrow, SPARQL results), a folder with
            train/valid/test files, a folder of OpenKE or of `save_graph`, the name of a dataset, a
            table (pandas, polars, pyarrow), a graph of NetworkX or rdflib, a triples factory of
            PyKEEN, an iterable of (head, relation, tail), or a mapping from split names to any of
            these. By default the bundled demo graph of countries and cities.
        delimiter: the delimiter of text files; detected by default.
        header: whether text files have a header: "yes", "no", or "auto" to detect it.
        columns: names or numbers (from 0) of the head, relation and tail column, in this order.
        quote: the quote character of text files, "" for none; by default `"`, and none in
            tab-separated files.
        on_bad_line: "error" raises an error at the first bad line; "skip" skips bad lines and lists
            them in `graph.report`.
        format: the format of files, if their names do not show it: "text", "nt", "nq", "ttl",
            "trig", "rdf" (RDF/XML), "jsonld", "srj", "srx" (SPARQL results), "parquet" or "arrow";
            or "openke", if a folder could be read in two ways.
        graphs: IRIs of the named graphs to read, "default" for the default graph; by default all.
        literals: "drop" skips statements about literals and counts them; "keep" makes literals
            entities, with names such as '"text"@en'.
        types: read rdf:type as "types" of entities, or as a relation ("triples").
        language: the preferred language of labels; then labels without a language, then any.
        weight: the name or number (from 0) of the column with the weights of facts; of an edge
            attribute (NetworkX), or the IRI of a property of annotated or reified statements (RDF).
            A fact of weight w counts like w copies of it in training; of a fact that is repeated
            with other weights, the largest counts. By default facts have no weights.
        name: the name of the graph; by default that of its file or folder.
        progress: called with (bytes done, bytes in total) while large files are read.

    Returns:
        The graph. Suspicious findings are issued as `fivestar.errors.GraphWarning` and listed in
        `graph.report.warnings`.

    Raises:
        SourceNotFound: if there is no such file, folder or dataset.
        BadSource: if the source cannot be read; `fivestar.errors.BadLine` if it is a single line.
        SettingsError: if an argument is invalid.
        MissingExtra: if the format needs an optional dependency.

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
        weight=weight,
    )
    return read_with(options, source, name)


def read_with(
    options: ReadOptions, source: object = None, name: str | None = None
) -> KnowledgeGraph:
    """Read a knowledge graph, with all options in one object; see `read_graph`."""
    folder: Path | None = None
    if source is None or isinstance(source, str | os.PathLike):
        path = DEMO_FOLDER if source is None else locate(source, options.progress)
        name = name or (DEMO_NAME if path == DEMO_FOLDER else _stem(path))
        folder = path if path.is_dir() else None
        if folder is not None and (folder / "settings.toml").is_file():
            raise BadSource(
                f"{folder} is the folder of a trained model, not a graph; its graph is "
                f"{folder / 'graph'}"
            )
        if folder is not None and is_saved_graph(folder):
            if options.weight is not None:
                raise SettingsError(
                    f"weight={options.weight!r}: {folder} is a saved graph, which has the weights "
                    "that it was saved with; omit weight"
                )
            return replace(load_graph(folder), name=name)
        sources = {"train": path} if folder is None else split_files(folder, options.format)
    elif isinstance(source, Mapping):
        sources = _split_sources(source)
    else:
        sources = {"train": source}
    graph, tallies = _build(sources, options, name or "graph")
    if folder is not None:
        graph = with_annotation_files(graph, folder, options, tallies)
    findings = tuple(suspicious_findings(graph, tallies))
    for message in findings:
        warnings.warn(message, GraphWarning, stacklevel=3)
    return replace(graph, report=replace(graph.report, warnings=findings))


def is_graph_folder(folder: Path) -> bool:
    """Return whether a folder looks like a graph: saved, or with files of splits."""
    try:
        return (folder / "entities.parquet").is_file() or bool(split_files(folder))
    except BadSource:
        return False


def _stem(path: Path) -> str:
    name = path.resolve().name
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).stem if path.is_file() else name


def _split_sources(mapping: Mapping[object, object]) -> dict[str, object]:
    """Return the sources of a mapping by split."""
    sources: dict[str, object] = {}
    for key, source in mapping.items():
        split = split_named(str(key))
        if split is None or split in sources:
            raise BadSource(f"{key!r} is not the name of one split; use train, valid and test")
        sources[split] = locate(source) if isinstance(source, str | os.PathLike) else source
    if "train" not in sources:
        raise BadSource("there is no 'train' among the splits; a graph needs training triples")
    return sources


def _build(
    sources: Mapping[str, object], options: ReadOptions, name: str
) -> tuple[KnowledgeGraph, dict[str, Tally]]:
    encoder = Encoder()
    splits, tallies = _encode_splits(encoder, sources, options, name)
    distinct = {split: triples.distinct() for split, triples in splits.items()}
    reports = {
        split: SplitReport.of(tallies[split], len(splits[split]), len(distinct[split]))
        for split in SPLITS
        if split in splits
    }
    graph = KnowledgeGraph(
        name=name,
        entities=Vocabulary("entity", encoder.entities),
        relations=Vocabulary("relation", encoder.relations),
        train=distinct["train"],
        valid=splits.get("valid", Triples.of([])),
        test=splits.get("test", Triples.of([])),
        report=ReadReport(reports),
    )
    annotations = Annotations()
    for tally in tallies.values():
        annotations.add(tally.annotations)
    return with_annotations(graph, annotations), tallies


def _encode_splits(
    encoder: Encoder, sources: Mapping[str, object], options: ReadOptions, name: str
) -> tuple[dict[str, Triples], dict[str, Tally]]:
    """Return the triples, with duplicates, and the tally of each split."""
    splits: dict[str, Triples] = {}
    tallies: dict[str, Tally] = {}
    held_out: dict[str, list[TripleColumns]] = {}  # pieces of valid and test in the train source
    for split in SPLITS:
        if split in sources:
            source = sources[split]
            scope = f"{split}." if len(sources) > 1 else ""
            tally = make_tally(source, f"{split} ({name})")
            reader = reader_for(source, options.format)
            pieces = reader.read(source, replace(options, blank_scope=scope), tally)
            splits[split] = encoder.encode(_train_pieces(pieces, held_out))
            tallies[split] = tally
    if len(sources) > 1 and held_out:
        raise BadSource(
            f"{tallies['train'].source}: contains the triples of {' and '.join(held_out)}, but "
            "there are other files as well; pass one or the other"
        )
    for split, pieces_of_split in held_out.items():
        splits[split] = encoder.encode(pieces_of_split)
        tallies[split] = Tally(tallies["train"].source, tallies["train"].unit, len(splits[split]))
        tallies["train"].lines -= len(splits[split])
    if not len(splits["train"]):
        raise BadSource(describe_empty(tallies["train"]))
    return splits, tallies


def _train_pieces(
    pieces: Iterable[TripleColumns], held_out: dict[str, list[TripleColumns]]
) -> Iterator[TripleColumns]:
    """Yield the pieces of train; set the others aside, so that ids follow train, valid, test."""
    for piece in pieces:
        if piece.split == "train":
            yield piece
        elif len(piece.heads):
            held_out.setdefault(piece.split, []).append(piece)


def make_tally(source: object, name: str) -> Tally:
    """Return an empty tally, named by the path of a source or else by `name`."""
    if isinstance(source, Path | NumberedFacts):
        return Tally(str(source), "line")
    return Tally(name, "row")


def describe_empty(tally: Tally) -> str:
    """Return an error message about a source without triples: what it contains instead."""
    counts = f"{tally.headers} header, {tally.blanks:,} blank, {tally.bad:,} bad"
    advice = ""
    for what, count, remedy in (
        ("of other graphs", tally.other_graphs, "select them with graphs=['IRI']"),
        ("labels", tally.labels, ""),
        ("types", tally.types, "keep them with types='triples'"),
        ("literals", tally.literals, "keep them with literals='keep'"),
    ):
        if count:
            counts += f", {count:,} {what}"
            advice += f"; {remedy}" if remedy else ""
    return (
        f"{tally.source}: contains no triple ({plural(tally.lines, tally.unit)}: {counts}); a "
        f"graph needs at least one{advice}"
    )
