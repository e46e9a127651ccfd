"""Readers, one module per format or family. The first reader that accepts a source reads it."""

from __future__ import annotations

from pathlib import Path

from fivestar.errors import BadSource, SettingsError
from fivestar.graph.choices import FormatName
from fivestar.graph.readers.base import SPLIT_NAMES, Reader
from fivestar.graph.readers.columnar import ColumnarReader
from fivestar.graph.readers.delimited import DelimitedReader
from fivestar.graph.readers.frames import FrameReader, IterableReader
from fivestar.graph.readers.objects import (
    NetworkXReader,
    OxigraphReader,
    PykeenReader,
    RdflibReader,
)
from fivestar.graph.readers.openke import OpenKEReader, find_openke
from fivestar.graph.readers.rdf import RdfReader, SparqlReader
from fivestar.graph.readers.registered import RegisteredReader
from fivestar.graph.readers.streams import COMPRESSED

# The order matters. The text reader accepts every file that no other reader knows by its extension;
# tables and NetworkX graphs are iterable too, so they come before iterables.
READERS: tuple[Reader, ...] = (
    RdfReader(),
    ColumnarReader(),
    SparqlReader(),
    RegisteredReader(),
    DelimitedReader(),
    OpenKEReader(),
    NetworkXReader(),
    RdflibReader(),
    OxigraphReader(),
    PykeenReader(),
    FrameReader(),
    IterableReader(),
)
BUILT_IN_EXTENSIONS = frozenset(
    extension.removeprefix(".")
    for reader in READERS
    if not isinstance(reader, RegisteredReader)
    for extensions in reader.formats.values()
    for extension in extensions
)


def reader_for(source: object, file_format: FormatName | None = None) -> Reader:
    """Return the reader of a source.

    Args:
        source: a path, table, iterable or graph of another library.
        file_format: the format of a file; by default it follows from its name.

    Raises:
        BadSource: if no reader accepts the source.
        SettingsError: if a format is given and the source is not a file.
    """
    if file_format is not None and isinstance(source, Path):
        return next(reader for reader in READERS if file_format in reader.formats)
    if file_format not in (None, "openke"):
        raise SettingsError(
            f"format={file_format!r} is for files; {type(source).__name__} has no format"
        )
    for reader in READERS:
        if reader.accepts(source):
            return reader
    raise BadSource(
        f"cannot read a graph from {type(source).__name__}; pass a path, a table or an iterable of "
        "(head, relation, tail)"
    )


def split_files(folder: Path, file_format: FormatName | None = None) -> dict[str, object]:
    """Return the source of each split in a folder.

    Args:
        folder: a folder with train, valid and test files, or a folder of OpenKE.
        file_format: "openke" if the folder could be read in both ways.

    Raises:
        BadSource: if there is no training file, or two files of one split.
    """
    openke = find_openke(folder)
    if file_format == "openke":
        if "train" not in openke:
            raise BadSource(f"{folder}: has no train2id.txt, so it is not a folder of OpenKE")
        return openke
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise BadSource(f"{folder}: cannot be read: {error.strerror}") from error
    endings = {
        suffix + compression
        for reader in READERS
        for suffixes in reader.formats.values()
        for suffix in suffixes
        for compression in ("", *COMPRESSED)
    }
    splits: dict[str, object] = {}
    for split, names in SPLIT_NAMES.items():
        candidates = {name + ending for name in names for ending in endings}
        matches = [path for path in files if path.name.casefold() in candidates]
        if len(matches) > 1:
            raise BadSource(
                f"{folder}: {' and '.join(path.name for path in matches)} are both the {split} "
                "split; keep one"
            )
        if matches:
            splits[split] = matches[0]
    if "train" not in splits and "train" in openke:
        return openke
    if "train" not in splits:
        listed = ", ".join(path.name for path in files[:8]) or "no files"
        listed += f" and {len(files) - 8} more" if len(files) > 8 else ""
        raise BadSource(
            f"{folder}: has no train.txt, train.tsv, train.nt, train.parquet … (it contains "
            f"{listed}); rename the training file, or pass the path of one file"
        )
    return splits
