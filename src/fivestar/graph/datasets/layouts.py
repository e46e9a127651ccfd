"""How the larger graphs are published, and how each becomes train.txt, valid.txt and test.txt.

Every function gets the downloaded file and a folder, and writes the splits (tab-separated: head,
relation, tail) and, where the download has them, entity_labels.tsv and entity_types.tsv. The result
depends on the download only, so that its checksum can be pinned. No path in an archive is followed.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from fivestar.errors import DownloadFailed
from fivestar.graph.datasets.download import MAX_EXTRACTED_BYTES, copy_limited, extract
from fivestar.graph.datasets.entries import LABELS, SPLIT_FILES, TYPES
from fivestar.graph.datasets.pickled_arrays import Arrays, read_arrays

# The test split of ogbl-wikikg2 has 598,543 × 1,000 negatives of 8 bytes.
MAX_SPLIT_BYTES = 6 << 30

Row = Sequence[str]


def _wikidata5m(download: Path, folder: Path) -> None:
    """Read a .tar.gz with wikidata5m_transductive_train.txt, _valid.txt and _test.txt."""
    names = {f"wikidata5m_transductive_{split}.txt": SPLIT_FILES[split] for split in SPLIT_FILES}
    extract(download, dict.fromkeys(names, MAX_EXTRACTED_BYTES), folder)
    for name, target in names.items():
        (folder / name).rename(folder / target)


def _hetionet(download: Path, folder: Path) -> None:
    """Read a gzipped table of edges: source, metaedge, target; a name is Type::identifier."""
    types: dict[str, str] = {}

    def edges(stream: TextIO) -> Iterator[Row]:
        lines = (line.removesuffix("\n").split("\t") for line in stream)
        _require_columns(next(lines, []), ["source", "metaedge", "target"], download)
        for row in lines:
            for name in (row[0], row[-1]):
                types.setdefault(name, name.partition("::")[0])
            yield row

    with gzip.open(download) as raw, _text(raw, MAX_EXTRACTED_BYTES, download.name) as stream:
        _write(folder / SPLIT_FILES["train"], edges(stream))
    _write(folder / TYPES, types.items(), width=2)


def _openbiolink(download: Path, folder: Path) -> None:
    """Read a zip of tables without a header: head, relation, tail, quality, 1 if true, source."""
    members = {"train": "train_sample.csv", "valid": "val_sample.csv", "test": "test_sample.csv"}

    def facts(stream: TextIO) -> Iterator[Row]:
        for line in stream:
            row = line.removesuffix("\n").split("\t")
            # Negative samples have files of their own; should one be among the facts, drop it.
            if len(row) < 5 or row[4] == "1":
                yield row[:3]

    with zipfile.ZipFile(download) as archive:
        for split, name in members.items():
            with _member(archive, f"train_test_data/{name}") as stream:
                _write(folder / SPLIT_FILES[split], facts(stream))
        with _member(archive, "graph_files/nodes.csv") as stream:
            nodes = (line.removesuffix("\n").split("\t") for line in stream)
            _write(folder / TYPES, nodes, width=2)


def _primekg(download: Path, folder: Path) -> None:
    """Read a .csv whose rows describe both nodes; a name is type::identifier."""
    columns = ["relation", "x_index", "x_id", "x_type", "x_name"]
    columns += ["y_index", "y_id", "y_type", "y_name"]
    names: dict[str, str] = {}  # by index, which is unique
    about: dict[str, tuple[str, str]] = {}

    def name_of(index: str, identifier: str, type_: str, label: str) -> str:
        if (name := names.get(index)) is None:
            name = f"{type_}::{identifier}"
            name = names[index] = f"{name}::{index}" if name in about else name
            about[name] = label, type_
        return name

    def facts(stream: TextIO) -> Iterator[Row]:
        rows = csv.reader(stream)
        header = next(rows, [])
        _require_columns(header, columns, download)
        at = [header.index(column) for column in columns]
        for row in rows:
            relation, *nodes = (row[column] for column in at)
            yield name_of(*nodes[:4]), relation, name_of(*nodes[4:])

    with download.open("rb") as raw, _text(raw, MAX_EXTRACTED_BYTES, download.name) as stream:
        _write(folder / SPLIT_FILES["train"], facts(stream))
    _write(folder / LABELS, ((name, label) for name, (label, _) in about.items()), width=2)
    _write(folder / TYPES, ((name, type_) for name, (_, type_) in about.items()), width=2)


def _ogbl_wikikg2(download: Path, folder: Path) -> None:
    """Read a zip of mapping/*.csv.gz and split/time/*.pt: Wikidata ids by number."""
    with zipfile.ZipFile(download) as archive:
        entities = _mapping(archive, "nodeidx2entityid", "node idx", "entity id")
        relations = _mapping(archive, "reltype2relid", "reltype", "rel id")
        for split, arrays in _ogb_splits(archive, "split/time", folder):
            heads, kinds, tails = _columns(arrays, len(entities), len(relations), download)
            rows = zip(
                map(entities.__getitem__, heads.tolist()),
                map(relations.__getitem__, kinds.tolist()),
                map(entities.__getitem__, tails.tolist()),
                strict=True,
            )
            _write(folder / SPLIT_FILES[split], rows)


def _ogbl_biokg(download: Path, folder: Path) -> None:
    """Read a zip of mapping/*.csv.gz and split/random/*.pt: numbers within a type of entities."""
    types = ("disease", "drug", "function", "protein", "sideeffect")
    with zipfile.ZipFile(download) as archive:
        relations = _mapping(archive, "relidx2relname", "rel idx", "rel name")
        names = {
            type_: [
                f"{type_}:{name}"
                for name in _mapping(archive, f"{type_}_entidx2name", "ent idx", "ent name")
            ]
            for type_ in types
        }
        most = max(map(len, names.values()))
        for split, arrays in _ogb_splits(archive, "split/random", folder):
            heads, kinds, tails = _columns(arrays, most, len(relations), download)
            rows = zip(
                _typed(names, arrays.get("head_type"), heads, download),
                map(relations.__getitem__, kinds.tolist()),
                _typed(names, arrays.get("tail_type"), tails, download),
                strict=True,
            )
            _write(folder / SPLIT_FILES[split], rows)
    typed = ((name, type_) for type_ in types for name in names[type_])
    _write(folder / TYPES, typed, width=2)


LAYOUTS: dict[str, Callable[[Path, Path], None]] = {
    "wikidata5m": _wikidata5m,
    "hetionet": _hetionet,
    "openbiolink": _openbiolink,
    "primekg": _primekg,
    "ogbl-wikikg2": _ogbl_wikikg2,
    "ogbl-biokg": _ogbl_biokg,
}


def convert(layout: str, download: Path, folder: Path) -> None:
    """Write the splits of a downloaded dataset.

    Args:
        layout: one of `LAYOUTS`.
        download: the downloaded file.
        folder: where train.txt, valid.txt, test.txt and the annotations are written.

    Raises:
        DownloadFailed: if the file is not in the layout.
    """
    try:
        LAYOUTS[layout](download, folder)
    except (
        *(EOFError, zipfile.BadZipFile, zlib.error, UnicodeDecodeError, csv.Error, KeyError),
        *(gzip.BadGzipFile, ValueError, IndexError, NotImplementedError),
    ) as error:
        raise DownloadFailed(
            f"{download.name}: is not in the layout of {layout} ({error})"
        ) from error


def _write(file: Path, rows: Iterable[Row], width: int = 3) -> None:
    """Write rows as tab-separated lines."""
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for row in rows:
            if len(row) != width or not row[0]:
                raise DownloadFailed(f"{file.name}: a row has other fields than expected: {row!r}")
            line = "\t".join(row)
            if line.count("\t") != width - 1 or "\n" in line or "\r" in line:
                line = "\t".join(" ".join(field.split()) for field in row)
            out.write(f"{line}\n")


def _require_columns(header: Sequence[str], columns: Sequence[str], download: Path) -> None:
    if missing := [column for column in columns if column not in header]:
        raise DownloadFailed(f"{download.name}: has no column {', '.join(missing)}")


@contextmanager
def _text(raw: IO[bytes] | gzip.GzipFile, max_bytes: int, name: str) -> Iterator[TextIO]:
    """Yield the lines of a stream that must not be longer than expected."""
    with io.TextIOWrapper(
        io.BufferedReader(_Limited(raw, max_bytes, name)), "utf-8", newline="\n"
    ) as text:
        yield text


class _Limited(io.RawIOBase):
    """A stream that fails when it yields too much."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, max_bytes: int, name: str) -> None:
        self._stream, self._left, self._name = stream, max_bytes, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        self._left -= len(chunk)
        if self._left < 0:
            raise DownloadFailed(f"{self._name}: unpacks to more than expected")
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _find(archive: zipfile.ZipFile, ending: str) -> zipfile.ZipInfo:
    """Return the only member whose path ends so."""
    members = [item for item in archive.infolist() if f"/{item.filename}".endswith(f"/{ending}")]
    if len(members) != 1:
        how_many = "several" if members else "no"
        raise DownloadFailed(f"the archive contains {how_many} {ending}")
    return members[0]


@contextmanager
def _member(archive: zipfile.ZipFile, ending: str) -> Iterator[TextIO]:
    member = _find(archive, ending)
    with archive.open(member) as raw, _text(raw, MAX_EXTRACTED_BYTES, member.filename) as stream:
        yield stream


def _mapping(archive: zipfile.ZipFile, name: str, number: str, value: str) -> list[str]:
    """Return the names of a gzipped table of numbers and names, in the order of the numbers."""
    member = _find(archive, f"mapping/{name}.csv.gz")
    with (
        archive.open(member) as packed,
        gzip.open(packed) as raw,
        _text(raw, MAX_EXTRACTED_BYTES, member.filename) as stream,
    ):
        rows = csv.reader(stream)
        header = next(rows, [])
        _require_columns(header, [number, value], Path(member.filename))
        at, to = header.index(number), header.index(value)
        names = {int(row[at]): row[to] for row in rows}
    if names.keys() != set(range(len(names))):
        raise DownloadFailed(f"{member.filename}: its numbers are not 0 to {len(names) - 1:,}")
    return [names[index] for index in range(len(names))]


def _ogb_splits(
    archive: zipfile.ZipFile, ending: str, folder: Path
) -> Iterator[tuple[str, Arrays]]:
    """Yield the arrays of each split; only one of them, unpacked, is on the disk at a time."""
    for split in SPLIT_FILES:
        member = _find(archive, f"{ending}/{split}.pt")
        file = folder / f"{split}.pt"
        with archive.open(member) as packed:
            copy_limited(packed, file, MAX_SPLIT_BYTES, member.filename)
        arrays = read_arrays(file)
        file.unlink()
        yield split, arrays


def _columns(
    arrays: Arrays, num_entities: int, num_relations: int, download: Path
) -> tuple[NDArray[np.int64], ...]:
    """Return heads, relations and tails, as numbers that are in range."""
    columns = []
    for name, size in (("head", num_entities), ("relation", num_relations), ("tail", num_entities)):
        column = arrays.get(name)
        if not isinstance(column, np.ndarray):
            raise DownloadFailed(f"{download.name}: a split has no array {name!r}")
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < size:
            raise DownloadFailed(f"{download.name}: a {name} has a number without a name")
        columns.append(column)
    if len({len(column) for column in columns}) != 1:
        raise DownloadFailed(f"{download.name}: head, relation and tail differ in length")
    return tuple(columns)


def _typed(
    names: dict[str, list[str]],
    types: NDArray[np.int64] | list[str] | None,
    ids: NDArray[np.int64],
    download: Path,
) -> list[str]:
    """Return the names of entities that are numbered within their type."""
    if not isinstance(types, list) or len(types) != len(ids):
        raise DownloadFailed(f"{download.name}: a split has no types of its entities")
    return [names[type_][at] for type_, at in zip(types, ids.tolist(), strict=True)]
