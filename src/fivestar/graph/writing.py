"""A graph as a folder of text files that any tool reads, and that reads back to the same graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import OutputError
from fivestar.graph.folders import new_folder
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers.dialect import header_columns
from fivestar.graph.vocabulary import NAME_TYPE, Vocabulary

_ROWS_AT_ONCE = 1_000_000
_HEADER = ("head", "relation", "tail")


def write_graph(graph: KnowledgeGraph, folder: str | os.PathLike[str]) -> Path:
    """Write train, valid and test as text to a new folder, with labels and types beside them.

    Tab-separated and unquoted, as the published benchmarks are; comma-separated and quoted where a
    name holds a tab.
    """
    tabbed = any(_holds(vocabulary, "\t") for vocabulary in (graph.entities, graph.relations))
    for vocabulary in (graph.entities, graph.relations):
        for mark in ("\n", "\r", "\0"):
            if _holds(vocabulary, mark):
                raise OutputError(
                    f"an {vocabulary.kind} name holds {mark!r}, which no text format keeps; "
                    "use save_graph"
                )
    delimiter, quote, ending = (",", '"', "csv") if tabbed else ("\t", "", "tsv")
    with new_folder(folder) as draft:
        for split, triples in graph.splits.items():
            if len(triples):
                table = graph.named(triples)
                _write_triples(draft / f"{split}.{ending}", table, delimiter, quote)
        _write_labels(draft / "entity_labels.tsv", graph.entities)
        _write_labels(draft / "relation_labels.tsv", graph.relations)
        if graph.types is not None:
            names = graph.entities.names_of(graph.types.entities)
            kinds = graph.types.vocabulary.names_of(graph.types.types)
            rows = zip(names, kinds, strict=True)
            _write_lines(draft / "entity_types.tsv", map("\t".join, rows))
    return Path(folder)


def _write_triples(path: Path, table: pa.Table, delimiter: str, quote: str) -> None:
    first = [column[0].as_py() for column in table.columns]
    lines: list[str] = []
    # A first triple that looks like a header must not be taken for one.
    if header_columns(first) is not None:
        lines.append(delimiter.join(_HEADER))
    columns = [_quoted(column, delimiter, quote) for column in table.columns]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(delimiter, NAME_TYPE))
    with path.open("w", encoding="utf-8", newline="") as file:
        # Readers drop one byte order mark at the beginning of a file.
        if first[0].startswith("\ufeff") and not lines:
            file.write("\ufeff")
        file.writelines(line + "\n" for line in lines)
        for start in range(0, len(joined), _ROWS_AT_ONCE):
            file.write("\n".join(joined.slice(start, _ROWS_AT_ONCE).to_pylist()) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _quoted(column: pa.ChunkedArray, delimiter: str, quote: str) -> pa.ChunkedArray:
    if not quote:
        return column
    needs = pc.match_substring_regex(column, f"[\t{delimiter}{quote}]")
    doubled = pc.replace_substring(column, quote, quote * 2)
    around, nothing = pa.scalar(quote, column.type), pa.scalar("", column.type)
    wrapped = pc.binary_join_element_wise(around, doubled, around, nothing)
    return pc.if_else(needs, wrapped, column)


def _write_labels(path: Path, vocabulary: Vocabulary) -> None:
    if vocabulary.labels is None:
        return
    rows = []
    for number, name in enumerate(vocabulary):
        label = vocabulary.labels[number].as_py()
        if label is not None:
            description = vocabulary.description_of(number)
            rows.append("\t".join([name, label] + ([description] if description else [])))
    _write_lines(path, rows)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def _holds(vocabulary: Vocabulary, mark: str) -> bool:
    return bool(pc.any(pc.match_substring(vocabulary.names, mark)).as_py())
