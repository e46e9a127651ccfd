"""A published graph into the folder of data sets: verified, whole, and by one process at a time."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fivestar.errors import DamagedDataset, DownloadFailed, OutputError
from fivestar.files import file_lock
from fivestar.graph.datasets.archives import unpack
from fivestar.graph.datasets.entries import SPLIT_FILES, Dataset, Source, SplitFile
from fivestar.graph.datasets.transfer import transfer

# Called with (bytes done, bytes in all).
Progress = Callable[[int, int], None]
# Bytes of a packed archive; those of the catalog have a tenth of it.
MOST_PACKED = 64 << 20
OFFLINE = "FIVESTAR_OFFLINE"
MIRROR = "FIVESTAR_MIRROR"

_log = logging.getLogger("fivestar.datasets")


def fetch(
    dataset: Dataset, folder: Path, mirror: str | None = None, progress: Progress | None = None
) -> Path:
    """The folder of a published graph, fetched if it is not there.

    `mirror` is an address with a folder for each data set, asked first; `$FIVESTAR_MIRROR` is
    another one. With `$FIVESTAR_OFFLINE` nothing is fetched.
    """
    target = folder / dataset.name
    if target.is_dir():
        return target
    if os.environ.get(OFFLINE):
        raise DownloadFailed(
            f"{dataset.name} is not in {folder}, and ${OFFLINE} forbids to fetch it; copy its "
            "train.txt, valid.txt and test.txt there"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / f".{dataset.name}.lock"):
            if not target.is_dir():  # somebody else may have fetched it meanwhile
                _fetch(dataset, target, _sources(dataset, mirror), progress)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    return target


def check(dataset: Dataset, folder: Path) -> None:
    """Refuse files that are not those that were published."""
    for split, published in dataset.splits.items():
        file = folder / SPLIT_FILES[split]
        if not file.is_file():
            raise DamagedDataset(
                f"{file} is missing; remove {folder} and fetch it anew: "
                f"fivestar datasets get {dataset.name}"
            )
        if not _is_published(file, published):
            raise DamagedDataset(
                f"{file} is not as published; remove {folder} and fetch it anew: "
                f"fivestar datasets get {dataset.name}"
            )


def _sources(dataset: Dataset, mirror: str | None) -> list[Source]:
    mirrors = [each for each in (mirror, os.environ.get(MIRROR)) if each]
    near = [Source(folder=f"{each.rstrip('/')}/{dataset.name}") for each in mirrors]
    return [*near, *dataset.sources]


def _fetch(
    dataset: Dataset, target: Path, sources: list[Source], progress: Progress | None
) -> None:
    """Try all sources; what has come of one is kept for the next time, but not for another."""
    problems = []
    for source in sources:
        key = hashlib.sha256(source.address.encode()).hexdigest()[:12]
        draft = target.with_name(f".{dataset.name}-{key}.part")
        draft.mkdir(exist_ok=True)
        _log.info("fetching %s from %s", dataset.name, source.address)
        try:
            if source.archive is None:
                _by_file(dataset, source, draft, progress)
            else:
                _by_archive(dataset, source, draft, progress)
        except DownloadFailed as error:
            problems.append(str(error))
            continue
        for file in draft.iterdir():
            if file.name not in SPLIT_FILES.values():
                file.unlink()
        draft.rename(target)
        for rest in target.parent.glob(f".{dataset.name}-*.part"):
            shutil.rmtree(rest, ignore_errors=True)
        return
    told = "\n  ".join(problems)
    raise DownloadFailed(
        f"{dataset.name} cannot be fetched:\n  {told}\nTry again later (what has come is kept), "
        f"name another place with --mirror or ${MIRROR}, or put train.txt, valid.txt and test.txt "
        f"into {target}"
    )


def _by_file(dataset: Dataset, source: Source, draft: Path, progress: Progress | None) -> None:
    whole, done = sum(split.bytes for split in dataset.splits.values()), 0
    for split, published in dataset.splits.items():
        file = draft / SPLIT_FILES[split]
        if not file.exists():
            part = file.with_suffix(".part")
            is_resumed = part.exists()
            address = f"{source.folder}/{file.name}"

            def arrived(here: int, _: int | None, before: int = done) -> None:
                if progress is not None:
                    progress(before + here, whole)

            transfer(address, part, published.bytes, arrived)
            if is_resumed and not _is_published(part, published):
                part.unlink()  # the part that was here may have been wrong
                transfer(address, part, published.bytes, arrived)
            _verify(part, published, address)
            part.rename(file)
        done += published.bytes


def _by_archive(dataset: Dataset, source: Source, draft: Path, progress: Progress | None) -> None:
    packed, address = draft / "archive.part", source.address

    def arrived(here: int, whole: int | None) -> None:
        if progress is not None:
            progress(here, whole or here)

    transfer(address, packed, MOST_PACKED, arrived)
    wanted = {SPLIT_FILES[split]: published.bytes for split, published in dataset.splits.items()}
    try:
        unpack(packed, wanted, draft)
        for split, published in dataset.splits.items():
            _verify(draft / SPLIT_FILES[split], published, address)
    except DownloadFailed as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise DownloadFailed(f"{address}: {error}") from error


def _verify(file: Path, published: SplitFile, address: str) -> None:
    if not _is_published(file, published):
        file.unlink()
        raise DownloadFailed(f"{address}: not the published file (its SHA-256 differs)")


def _is_published(file: Path, published: SplitFile) -> bool:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == published.sha256
