"""Runs on the Hugging Face Hub and in object stores: `push` them, and load them from a local cache.

A run is addressed by `hf://owner/name`, `s3://bucket/path`, `gs://bucket/path`, or any folder by
`file://`. What is loaded is compared with the hashes of its manifest before it is used.
"""

from __future__ import annotations

import os
from pathlib import Path

from fivestar.runs.remote.address import Address, parse_address
from fivestar.runs.remote.cache import Announce, Progress, cached_run
from fivestar.runs.remote.store import Pushed, open_store, push_run

__all__ = ["Pushed", "locate_run", "push"]


def push(
    folder: str | os.PathLike[str],
    address: str,
    *,
    private: bool = False,
    existing: str = "fail",
    license: str | None = None,  # noqa: A002  (the Hub's word)
    message: str | None = None,
) -> Pushed:
    """Publish a trained run on the Hugging Face Hub or in an object store.

    Only the files that the manifest lists are published: the model, its graph, its settings, its
    metrics and its model card, not checkpoints. On the Hub they are one commit. In an object store
    the manifest is written last, so that a push that did not end is no run.

    Args:
        folder: the folder of the run.
        address: `hf://owner/name`, or `hf://owner/name@branch`; `s3://bucket/path`,
            `gs://bucket/path` or `file:///path`.
        private: create the repository of the Hub as a private one.
        existing: `fail` if another run is at an address of an object store, or `replace` it. On the
            Hub it remains in the history.
        license: the license to name in the model card: an identifier of the Hub, such as
            cc-by-4.0. The folder stays as it is.
        message: the message of the commit on the Hub.

    Returns:
        Where the run is now, the number of its files and their size.

    Raises:
        SourceNotFound: there is no such folder.
        DamagedRun: a file has changed, or training has not ended.
        OutputError: the run cannot be written there.
        MissingExtra: the package for this kind of address is not installed.
    """
    target = parse_address(address)
    return push_run(
        Path(folder),
        target,
        private=private,
        existing=existing,
        license=license,
        message=message,
    )


def locate_run(
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    announce: Announce | None = None,
) -> Path:
    """Return the folder of a run; that of an address is downloaded, if it is not in the cache.

    Args:
        folder: a folder, or the address of a run.
        progress: called with (bytes done, bytes in total) during a download.
        announce: called with what is downloaded, from where, to where and how large it is.

    Raises:
        SourceNotFound: there is nothing at the address, or no run.
        DownloadFailed: it cannot be read, or there is no network and no copy in the cache.
        DamagedRun: a file is not the one that the manifest describes.
    """
    if (address := _as_address(folder)) is None:
        return Path(folder)
    return cached_run(address, open_store, progress=progress, announce=announce)


def _as_address(folder: str | os.PathLike[str]) -> Address | None:
    text = os.fspath(folder)
    if not isinstance(text, str) or ":/" not in text:
        return None
    return parse_address(text) if Address.is_meant(text) else None
