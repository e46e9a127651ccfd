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

from fivestar.errors import DamagedDataset, DownloadFailed, OutputError
from fivestar.files import file_hash, file_lock
from fivestar.graph.datasets.download import download, extract
from fivestar.graph.datasets.entries import (
    LABELS,
    SPLIT_FILES,
    TYPES,
    Dataset,
    Source,
    SplitFile,
)
from fivestar.graph.datasets.pins import Pin, wrong_counts

__all__ = ["Dataset", "Source", "SplitFile", "fetch", "find_dataset", "load_catalog", "verify"]

# Called with (bytes done, bytes in total).
Progress = Callable[[int, int], None]
# Maximum size of a download of unknown size.
MAX_ARCHIVE_BYTES = 64 << 20
OFFLINE = "FIVESTAR_OFFLINE"
MIRROR = "FIVESTAR_MIRROR"
_FILES = {*SPLIT_FILES.values(), LABELS, TYPES}

_log = logging.getLogger("fivestar.datasets")


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
        DamagedDataset: if a file is missing or has another checksum. Where no checksum is
            published, it is compared with that of the first download, or counted.
    """
    for split, published in dataset.splits.items():
        file = folder / SPLIT_FILES[split]
        if not file.is_file() or not published.matches(file):
            problem = "differs from the published file" if file.is_file() else "is missing"
            raise DamagedDataset(f"{file} {problem}; remove {folder} and download it again")
    if dataset.is_hashed:
        return
    pin = Pin(dataset, folder.parent)
    found = pin.difference(folder) if pin.files else wrong_counts(dataset, folder)
    if found:
        raise DamagedDataset(f"{folder}: {found}; remove the folder and download it again")
    if not pin.files:  # the files were copied here by hand
        pin.write(folder, {})


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
            if source.file is not None:
                _fetch_file(dataset, source, draft, progress)
            elif source.archive is not None:
                _fetch_archive(dataset, source, draft, progress)
            else:
                _fetch_files(dataset, source, draft, progress)
        except DownloadFailed as error:
            problems.append(str(error))
            continue
        for file in draft.iterdir():
            if file.name not in _FILES:
                file.unlink()
        draft.rename(target)
        for leftover in target.parent.glob(f".{dataset.name}-*.part"):
            shutil.rmtree(leftover, ignore_errors=True)
        return
    reasons = "\n  ".join(problems)
    names = ", ".join(SPLIT_FILES[split] for split in dataset.splits)
    raise DownloadFailed(
        f"{dataset.name} cannot be downloaded:\n  {reasons}\nTry again later (partial downloads "
        f"are resumed), pass mirror='URL' or set ${MIRROR}, or copy {names} to {target}"
    )


def _fetch_files(dataset: Dataset, source: Source, draft: Path, progress: Progress | None) -> None:
    limit = dataset.max_bytes or MAX_ARCHIVE_BYTES
    sizes = {split: published.bytes or limit for split, published in dataset.splits.items()}
    total, done = sum(sizes.values()), 0
    for split, published in dataset.splits.items():
        file = draft / SPLIT_FILES[split]
        if not file.exists():
            part = file.with_suffix(".part")
            is_resumed = part.exists()
            url = f"{source.folder}/{file.name}"

            def report(received: int, _: int | None, before: int = done) -> None:
                if progress is not None:
                    progress(before + received, total)

            download(url, part, sizes[split], report)
            if is_resumed and not published.matches(part):
                part.unlink()  # the resumed part may have been wrong
                download(url, part, sizes[split], report)
            _require_published(part, published, url)
            part.rename(file)
        done += sizes[split]
    is_verified = all(published.hashed_by for published in dataset.splits.values())
    _require_pinned(dataset, draft, {}, is_verified=is_verified)


def _fetch_archive(
    dataset: Dataset, source: Source, draft: Path, progress: Progress | None
) -> None:
    archive, url = draft / "archive.part", source.url
    download(url, archive, source.bytes or MAX_ARCHIVE_BYTES, _reporter(progress))
    sizes = {
        SPLIT_FILES[split]: published.bytes or MAX_ARCHIVE_BYTES
        for split, published in dataset.splits.items()
    }
    try:
        extract(archive, sizes, draft)
        for split, published in dataset.splits.items():
            _require_published(draft / SPLIT_FILES[split], published, url)
    except DownloadFailed as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise DownloadFailed(f"{url}: {error}") from error


def _fetch_file(dataset: Dataset, source: Source, draft: Path, progress: Progress | None) -> None:
    """Download a file in the layout of the dataset, verify it, and write the splits."""
    from fivestar.graph.datasets.layouts import convert  # noqa: PLC0415  (slow to import)

    file, url = draft / f"{dataset.name}.part", source.url
    # A size that nothing confirms is not a limit.
    size = source.bytes if source.hashed_by else None
    limit = size or dataset.max_bytes or MAX_ARCHIVE_BYTES
    is_resumed = file.exists()
    download(url, file, limit, _reporter(progress))
    if is_resumed and not source.matches(file):
        file.unlink()
        download(url, file, limit, _reporter(progress))
    _require_published(file, source, url)
    pin, digest = Pin(dataset, draft.parent), file_hash(file)
    if pin.downloads.get(url, digest) != digest:
        file.unlink()
        raise DownloadFailed(
            f"{url}: is not the file of the first download; if its publisher has replaced it, and "
            f"you trust that, remove {pin.path}"
        )
    _log.info("converting %s", dataset.name)
    try:
        convert(dataset.layout or "", file, draft)
        _require_pinned(dataset, draft, {url: digest}, is_verified=source.hashed_by is not None)
    except DownloadFailed as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise DownloadFailed(f"{url}: {error}") from error


def _require_pinned(
    dataset: Dataset, draft: Path, downloads: dict[str, str], *, is_verified: bool
) -> None:
    """Compare what was downloaded with the first download, or count it and pin it.

    Args:
        dataset: an entry of the catalog.
        draft: the folder with the splits, beside the pins.
        downloads: the checksums of what they were made of.
        is_verified: whether a published checksum has been verified, so that nothing is counted.
    """
    if dataset.is_hashed:
        return
    pin = Pin(dataset, draft.parent)
    if pin.files:
        problem = pin.difference(draft)
    else:
        problem = None if is_verified else wrong_counts(dataset, draft)
    if problem:
        raise DownloadFailed(problem)
    pin.write(draft, downloads)


def _reporter(progress: Progress | None) -> Callable[[int, int | None], None]:
    def report(received: int, total: int | None) -> None:
        if progress is not None:
            progress(received, total or received)

    return report


def _require_published(file: Path, published: SplitFile | Source, url: str) -> None:
    if not published.matches(file):
        file.unlink()
        kind = "SHA-256" if published.hashed_by == "sha256" else "MD5"
        raise DownloadFailed(f"{url}: not the published file (its {kind} differs)")
