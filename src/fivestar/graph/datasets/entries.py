"""The entries of the catalog: what is known of each dataset, and how a file is compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from fivestar.files import file_hash

SPLIT_FILES = {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
LABELS, TYPES = "entity_labels.tsv", "entity_types.tsv"


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Published(_Entry):
    """A published file, with what is known of its content."""

    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def hashed_by(self) -> Literal["sha256", "md5"] | None:
        """The kind of the published checksum, if there is one."""
        return "sha256" if self.sha256 else "md5" if self.md5 else None

    def matches(self, file: Path) -> bool:
        """Return whether a file has the published checksum; without one, any file does."""
        kind = self.hashed_by
        return kind is None or file_hash(file, kind) == getattr(self, kind)


class SplitFile(_Published):
    """The file of a split."""

    lines: int


class Source(_Published):
    """Where a dataset is published.

    A folder with train.txt, valid.txt and test.txt; an archive with files of these names; or a file
    in the layout of the dataset. Size and checksum are those of that file.
    """

    folder: str | None = None
    archive: str | None = None
    file: str | None = None

    @property
    def url(self) -> str:
        """The URL of the folder, archive or file."""
        return self.folder or self.archive or self.file or ""


class Dataset(_Entry):
    """A benchmark dataset.

    Attributes:
        layout: how a `file` of the sources is read (see `layouts`).
        max_bytes: the maximum size of a download whose exact size is not known.
        note: what could not be confirmed.
    """

    name: str
    title: str
    license: str
    citation: str
    entities: int
    relations: int
    sources: tuple[Source, ...]
    train: SplitFile
    valid: SplitFile | None = None
    test: SplitFile | None = None
    layout: str | None = None
    max_bytes: int | None = None
    note: str | None = None

    @property
    def splits(self) -> dict[str, SplitFile]:
        """The files by split; only those that are published."""
        files = {"train": self.train, "valid": self.valid, "test": self.test}
        return {split: file for split, file in files.items() if file is not None}

    @property
    def download_bytes(self) -> int | None:
        """The size of the download, where it is known."""
        sizes = [split.bytes for split in self.splits.values()]
        known = sum(size for size in sizes if size) if all(sizes) else None
        return next((source.bytes for source in self.sources if source.bytes), None) or known

    @property
    def verification(self) -> Literal["sha256", "md5", "counts"]:
        """What a first download is compared with."""
        kinds = {split.hashed_by for split in self.splits.values()}
        if None in kinds:
            kinds = {source.hashed_by for source in self.sources}
        return "counts" if None in kinds or not kinds else "md5" if "md5" in kinds else "sha256"

    @property
    def is_hashed(self) -> bool:
        """Whether the catalog knows the SHA-256 of every split, so that none has to be pinned."""
        return all(split.sha256 for split in self.splits.values())

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)
