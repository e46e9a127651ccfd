"""The entries of the catalog (`datasets.toml`)."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

SPLIT_FILES = {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SplitFile(_Entry):
    """The file of a split as it was published."""

    lines: int
    bytes: int
    sha256: str


class Source(_Entry):
    """Where it can be had: a folder of files, or an archive that holds them."""

    folder: str | None = None
    archive: str | None = None

    @property
    def address(self) -> str:
        """The address of the folder or archive."""
        return self.folder or self.archive or ""


class Dataset(_Entry):
    """A published graph."""

    name: str
    title: str
    licence: str
    citation: str
    entities: int
    relations: int
    sources: tuple[Source, ...]
    train: SplitFile
    valid: SplitFile
    test: SplitFile

    @property
    def splits(self) -> dict[str, SplitFile]:
        """The files by split."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return self.model_dump(mode="json", exclude_none=True)


@cache
def datasets() -> dict[str, Dataset]:
    """All published graphs by name."""
    text = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


def find_dataset(name: str) -> Dataset | None:
    """A published graph by its name as people write it: WN18RR, fb15k237, NELL-995_h100."""
    wanted = _letters(name)
    return next((d for d in datasets().values() if _letters(d.name) == wanted), None)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()
