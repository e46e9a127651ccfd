"""Datasets without a published checksum: counted at first, and pinned for later downloads.

A pin is a file in the user's folder of datasets. It holds the SHA-256 of what was downloaded and of
the splits made of it, and outlives the dataset: if the dataset is removed and downloaded again, it
has the same files, or there is an error.
"""

from __future__ import annotations

import json
from pathlib import Path

from fivestar.errors import DamagedDataset
from fivestar.files import file_hash, make_folder, write_atomic
from fivestar.graph.datasets.entries import SPLIT_FILES, Dataset
from fivestar.version import __version__


class Pin:
    """What was found at the first download of a dataset."""

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        self.path = folder / ".pins" / f"{dataset.name}.json"
        self.downloads: dict[str, str] = {}
        self.files: dict[str, str] = {}
        if not self.path.exists():
            return
        try:
            values = json.loads(self.path.read_bytes())
            self.downloads = {str(url): str(digest) for url, digest in values["downloads"].items()}
            self.files = {str(name): str(digest) for name, digest in values["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedDataset(
                f"{self.path}: is not a pin ({error}); remove it to trust the next download"
            ) from error

    def difference(self, folder: Path) -> str | None:
        """Return which file of a folder differs from the pinned ones, or None."""
        for name, digest in self.files.items():
            file = folder / name
            if not file.is_file():
                return f"{name} is missing"
            if file_hash(file) != digest:
                return f"{name} differs from the file of the first download (pinned in {self.path})"
        return None

    def write(self, folder: Path, downloads: dict[str, str]) -> None:
        """Pin the files of a folder, and the downloads they were made of."""
        self.downloads |= downloads
        self.files = {
            name: file_hash(folder / name)
            for name in SPLIT_FILES.values()
            if (folder / name).is_file()
        }
        content = {"fivestar": __version__, "downloads": self.downloads, "files": self.files}
        make_folder(self.path.parent)
        write_atomic(self.path, json.dumps(content, indent=1).encode())


def wrong_counts(dataset: Dataset, folder: Path) -> str | None:
    """Return which count of a dataset differs from the published one, or None.

    Args:
        dataset: the entry of the catalog.
        folder: the folder with its splits, tab-separated.
    """
    import pyarrow as pa  # noqa: PLC0415  (slow to import)

    entities: set[str] = set()
    relations: set[str] = set()
    for split, published in dataset.splits.items():
        file = folder / SPLIT_FILES[split]
        if not file.is_file():
            return f"{file.name} is missing"
        try:
            lines = _count(file, entities, relations)
        except pa.ArrowInvalid as error:
            return f"{file.name} is not tab-separated ({error})"
        if lines != published.lines:
            return f"{split} has {lines:,} facts where {published.lines:,} are published"
    for what, found, expected in (
        ("entities", len(entities), dataset.entities),
        ("relations", len(relations), dataset.relations),
    ):
        if found != expected:
            return f"there are {found:,} {what} where {expected:,} are published"
    return None


def _count(file: Path, entities: set[str], relations: set[str]) -> int:
    """Return the number of lines, and add the names to the sets."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import)
    import pyarrow.csv  # noqa: PLC0415

    columns = ["head", "relation", "tail"]
    if not file.stat().st_size:
        return 0
    reader = pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(column_names=columns, block_size=16 << 20),
        parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
        ),
    )
    lines = 0
    for batch in reader:
        lines += batch.num_rows
        for name, names in (("head", entities), ("relation", relations), ("tail", entities)):
            names.update(batch.column(name).unique().to_pylist())
    return lines
