"""Saved graphs: a folder of Parquet tables and a manifest with their hashes.

Nothing is pickled. A graph is written under a temporary name and renamed when it is complete;
before it is read (by memory-map), it is checked against the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fivestar.errors import DamagedGraph
from fivestar.files import atomic_folder, sync_file
from fivestar.graph.arrow import from_arrow, to_arrow
from fivestar.graph.knowledge_graph import SPLITS, EntityTypes, KnowledgeGraph
from fivestar.graph.report import ReadReport
from fivestar.graph.triples import FactWeights, Ids, Triples
from fivestar.graph.vocabulary import Vocabulary

MANIFEST = "manifest.json"
FORMAT = "fivestar-graph"
VERSION = 1
_MAX_MANIFEST_BYTES = 64 << 20


def save_graph(graph: KnowledgeGraph, folder: str | os.PathLike[str]) -> Path:
    """Save a graph to a new folder.

    Args:
        graph: the graph.
        folder: the folder; it must not exist.

    Returns:
        The folder.

    Raises:
        OutputError: if the folder exists or cannot be written.

    >>> import tempfile, fivestar
    >>> graph = fivestar.read_graph([("a", "next", "b")])
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     load_graph(save_graph(graph, f"{parent}/saved")) == graph
    True
    """
    with atomic_folder(folder) as draft:
        files = {name: _write_table(draft / name, table) for name, table in _tables(graph).items()}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": graph.name,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "files": files,
            "report": graph.report.as_json(),
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        (draft / MANIFEST).write_bytes(text.encode())
        sync_file(draft / MANIFEST)
    return Path(folder)


def is_saved_graph(folder: Path) -> bool:
    """Return whether a folder is a saved graph."""
    return (folder / MANIFEST).is_file()


def load_graph(folder: str | os.PathLike[str], *, verify: bool = True) -> KnowledgeGraph:
    """Load a graph that `save_graph` wrote.

    Args:
        folder: The folder of the graph.
        verify: Verify the hashes of its files; not needed if that has just been done.

    Returns:
        The graph.

    Raises:
        DamagedGraph: A file is missing, has changed, or is of another version.
    """
    path = Path(folder)
    manifest = _read_manifest(path)
    try:
        tables = {
            name: _read_table(path, name, entry, verify=verify)
            for name, entry in manifest["files"].items()
        }
        entities = _vocabulary("entity", tables["entities.parquet"])
        relations = _vocabulary("relation", tables["relations.parquet"])
        splits = {
            split: _triples(tables[f"{split}.parquet"], len(entities), len(relations))
            for split in SPLITS
        }
        return KnowledgeGraph(
            name=str(manifest["name"]),
            entities=entities,
            relations=relations,
            types=_types(tables, len(entities)),
            negatives=_triples(tables["negatives.parquet"], len(entities), len(relations))
            if "negatives.parquet" in tables
            else None,
            report=ReadReport.from_json(manifest["report"]),
            **splits,
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        OSError,
        MemoryError,
        pa.ArrowException,
    ) as error:
        raise DamagedGraph(
            f"{path}: not a graph of this version ({type(error).__name__}: {error}); "
            "read it again from its source"
        ) from error


def _tables(graph: KnowledgeGraph) -> dict[str, pa.Table]:
    tables = {
        "entities.parquet": _vocabulary_table(graph.entities),
        "relations.parquet": _vocabulary_table(graph.relations),
    }
    parts = dict(graph.splits)
    if graph.negatives is not None:
        parts["negatives"] = graph.negatives
    for split, triples in parts.items():
        columns: dict[str, npt.NDArray[Any]] = {
            "head": triples.heads,
            "relation": triples.relations,
            "tail": triples.tails,
        }
        if triples.weights is not None:
            columns["weight"] = triples.weights
        tables[f"{split}.parquet"] = _table(columns)
    if graph.types is not None:
        tables["type_names.parquet"] = _vocabulary_table(graph.types.vocabulary)
        tables["types.parquet"] = _table(
            {"entity": graph.types.entities, "type": graph.types.types}
        )
    return tables


def _table(columns: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    return pa.table({title: to_arrow(column) for title, column in columns.items()})


def _vocabulary_table(vocabulary: Vocabulary) -> pa.Table:
    columns = {
        "name": vocabulary.names,
        "label": vocabulary.labels,
        "description": vocabulary.descriptions,
    }
    return pa.table({title: column for title, column in columns.items() if column is not None})


def _write_table(path: Path, table: pa.Table) -> dict[str, Any]:
    pq.write_table(table, path, compression="zstd")
    with path.open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"rows": table.num_rows, "bytes": path.stat().st_size, "sha256": digest}


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise DamagedGraph(f"{path}: too large to be a manifest")
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise DamagedGraph(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedGraph(f"{path}: is not JSON ({error}); read the graph again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DamagedGraph(f"{path}: is not the manifest of a saved graph")
    if manifest.get("version") != VERSION:
        raise DamagedGraph(
            f"{path}: version {manifest.get('version')!r} is not supported, only "
            f"{VERSION}; use the fivestar that wrote it, or read the graph again"
        )
    if not isinstance(manifest.get("files"), dict):
        raise DamagedGraph(f"{path}: lists no files; read the graph again")
    return manifest


def _read_table(folder: Path, name: str, entry: Mapping[str, Any], *, verify: bool) -> pa.Table:
    if Path(name).name != name:
        raise DamagedGraph(f"{folder / MANIFEST}: refers to a file outside of the folder: {name!r}")
    path = folder / name
    try:
        with path.open("rb") as file:
            if verify and hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                raise DamagedGraph(
                    f"{path}: has changed since it was written; read the graph again"
                )
    except OSError as error:
        raise DamagedGraph(f"{path}: cannot be read: {error.strerror}") from error
    # Not mapped: a file that is truncated meanwhile would end the process. Not `read_table`, which
    # imports pandas.
    with pq.ParquetFile(path, memory_map=False) as file:
        return file.read()


def _vocabulary(kind: str, table: pa.Table) -> Vocabulary:
    columns = {title: table[title].combine_chunks() for title in table.column_names}
    if columns["name"].null_count:
        raise ValueError("missing names")
    return Vocabulary(kind, columns["name"], columns.get("label"), columns.get("description"))


def _triples(table: pa.Table, entities: int, relations: int) -> Triples:
    return Triples(
        _ids(table["head"], entities),
        _ids(table["relation"], relations),
        _ids(table["tail"], entities),
        weights=_weights(table["weight"]) if "weight" in table.column_names else None,
    )


def _types(tables: Mapping[str, pa.Table], entities: int) -> EntityTypes | None:
    if "types.parquet" not in tables:
        return None
    vocabulary = _vocabulary("type", tables["type_names.parquet"])
    table = tables["types.parquet"]
    return EntityTypes(
        vocabulary, _ids(table["entity"], entities), _ids(table["type"], len(vocabulary))
    )


def _weights(column: pa.ChunkedArray) -> FactWeights:
    parts = [from_arrow(chunk) for chunk in column.chunks if not chunk.null_count]
    weights = np.concatenate(parts) if parts else np.empty(0)
    if len(weights) != len(column) or weights.dtype != np.float64:
        raise ValueError("missing weights")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("weights that are not finite numbers of at least 0")
    return weights


def _ids(column: pa.ChunkedArray, count: int) -> Ids:
    parts = [from_arrow(chunk) for chunk in column.chunks if not chunk.null_count]
    ids = np.concatenate(parts) if parts else np.empty(0, np.int32)
    if len(ids) != len(column):
        raise ValueError("missing ids")
    if len(ids) and not (ids.dtype == np.int32 and ids.min() >= 0 and ids.max() < count):
        raise ValueError(f"ids that are not between 0 and {count}")
    return np.asarray(ids, dtype=np.int32)
