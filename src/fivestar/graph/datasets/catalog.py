"""The catalog of benchmark datasets (`datasets.toml`), and verified downloads of them."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fivestar.errors import DamagedDataset, DownloadFailed, OutputError
from fivestar.files import file_lock
from fivestar.graph.datasets.download import download, extract

# Called with (bytes done, bytes in total).
Progress = Callable[[int, int], None]
SPLIT_FILES = {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"}
# Maximum size of an archive, ten times that of the largest in the catalog.
MAX_ARCHIVE_BYTES = 64 << 20
OFFLINE = "FIVESTAR_OFFLINE"
MIRROR = "FIVESTAR_MIRROR"

_log = logging.getLogger("fivestar.datasets")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SplitFile(_Entry):
    """The published file of a split."""

    lines: int
    bytes: int
    sha256: str

    def matches(self, file: Path) -> bool:
        """Return whether a file has the published checksum."""
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == self.sha256


class Source(_Entry):
    """Where a dataset is published: the URL of a folder of files, or of an archive."""

    folder: str | None = None
    archive: str | None = None

    @property
    def url(self) -> str:
        """The URL of the folder or archive."""
        return self.folder or self.archive or ""


class Dataset(_Entry):
    """A benchmark dataset."""

    name: str
    title: str
    license: str
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
        """Return all fields as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


@cache
def load_catalog() -> dict[str, Dataset]:
    """Return all benchmark datasets by name."""
    text = Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **entry) for name, entry in tomllib.loads(text).items()}


def find_dataset(name: str) -> Dataset | None:
    """Return a dataset by name, ignoring case and punctuation; None if there is no such.

    >>> find_dataset("FB15k237").name
    'fb15k-237'
    """
    key = _letters(name)
    return next((d for d in load_catalog().values() if _letters(d.name) == key), None)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def fetch(
    dataset: Dataset, folder: Path, mirror: str | None = None, progress: Progress | None = None
) -> Path:
    """Return the folder of a dataset, and download it if necessary.

    Several processes may call this at once: one of them downloads. With `$FIVESTAR_OFFLINE`
    nothing is downloaded.

    Args:
        dataset: an entry of the catalog.
        folder: the folder of all datasets.
        mirror: the URL of a folder with one folder per dataset, tried first; `$FIVESTAR_MIRROR` is
            tried next.
        progress: called with (bytes done, bytes in total).

    Returns:
        The folder with train.txt, valid.txt and test.txt.

    Raises:
        DownloadFailed: if no source has the published files, or downloads are forbidden.
        OutputError: if the folder cannot be written.
    """
    target = folder / dataset.name
    if target.is_dir():
        return target
    if os.environ.get(OFFLINE):
        raise DownloadFailed(
            f"{dataset.name} is not in {folder}, and ${OFFLINE} forbids to download it; copy its "
            "train.txt, valid.txt and test.txt there"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / f".{dataset.name}.lock"):
            if not target.is_dir():  # another process may have downloaded it meanwhile
                _fetch(dataset, target, _sources(dataset, mirror), progress)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    return target


def verify(dataset: Dataset, folder: Path) -> None:
    """Check that the files of a dataset are the published ones.

    Args:
        dataset: an entry of the catalog.
        folder: the folder with its files.

    Raises:
        DamagedDataset: if a file is missing or has another checksum.
    """
    for split, published in dataset.splits.items():
        file = folder / SPLIT_FILES[split]
        if not file.is_file() or not published.matches(file):
            problem = "differs from the published file" if file.is_file() else "is missing"
            raise DamagedDataset(f"{file} {problem}; remove {folder} and download it again")


def _sources(dataset: Dataset, mirror: str | None) -> list[Source]:
    mirrors = [url for url in (mirror, os.environ.get(MIRROR)) if url]
    mirrored = [Source(folder=f"{url.rstrip('/')}/{dataset.name}") for url in mirrors]
    return [*mirrored, *dataset.sources]


def _fetch(
    dataset: Dataset, target: Path, sources: list[Source], progress: Progress | None
) -> None:
    """Try all sources; a partial download is resumed next time, but not from another source."""
    problems = []
    for source in sources:
        key = hashlib.sha256(source.url.encode()).hexdigest()[:12]
        draft = target.with_name(f".{dataset.name}-{key}.part")
        draft.mkdir(exist_ok=True)
        _log.info("downloading %s from %s", dataset.name, source.url)
        try:
            if source.archive is None:
                _fetch_files(dataset, source, draft, progress)
            else:
                _fetch_archive(dataset, source, draft, progress)
        except DownloadFailed as error:
            problems.append(str(error))
            continue
        for file in draft.iterdir():
            if file.name not in SPLIT_FILES.values():
                file.unlink()
        draft.rename(target)
        for leftover in target.parent.glob(f".{dataset.name}-*.part"):
            shutil.rmtree(leftover, ignore_errors=True)
        return
    reasons = "\n  ".join(problems)
    raise DownloadFailed(
        f"{dataset.name} cannot be downloaded:\n  {reasons}\nTry again later (partial downloads "
        f"are resumed), pass mirror='URL' or set ${MIRROR}, or copy train.txt, valid.txt "
        f"and test.txt to {target}"
    )


def _fetch_files(dataset: Dataset, source: Source, draft: Path, progress: Progress | None) -> None:
    total, done = sum(split.bytes for split in dataset.splits.values()), 0
    for split, published in dataset.splits.items():
        file = draft / SPLIT_FILES[split]
        if not file.exists():
            part = file.with_suffix(".part")
            is_resumed = part.exists()
            url = f"{source.folder}/{file.name}"

            def report(received: int, _: int | None, before: int = done) -> None:
                if progress is not None:
                    progress(before + received, total)

            download(url, part, published.bytes, report)
            if is_resumed and not published.matches(part):
                part.unlink()  # the resumed part may have been wrong
                download(url, part, published.bytes, report)
            _require_published(part, published, url)
            part.rename(file)
        done += published.bytes


def _fetch_archive(
    dataset: Dataset, source: Source, draft: Path, progress: Progress | None
) -> None:
    archive, url = draft / "archive.part", source.url

    def report(received: int, total: int | None) -> None:
        if progress is not None:
            progress(received, total or received)

    download(url, archive, MAX_ARCHIVE_BYTES, report)
    sizes = {SPLIT_FILES[split]: published.bytes for split, published in dataset.splits.items()}
    try:
        extract(archive, sizes, draft)
        for split, published in dataset.splits.items():
            _require_published(draft / SPLIT_FILES[split], published, url)
    except DownloadFailed as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise DownloadFailed(f"{url}: {error}") from error


def _require_published(file: Path, published: SplitFile, url: str) -> None:
    if not published.matches(file):
        file.unlink()
        raise DownloadFailed(f"{url}: not the published file (its SHA-256 differs)")
