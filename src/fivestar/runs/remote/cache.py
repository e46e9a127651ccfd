"""The local cache of runs: complete and verified copies, or nothing.

<cache>/<address>/latest.json                     which copy was found last, and when
<cache>/<address>/versions/<hash>/<name>/         the run whose manifest has this hash

A copy is downloaded to a temporary folder, compared with its manifest, synced and renamed. It is
never changed, so that processes which use an older version are not disturbed by a newer one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fivestar.errors import DamagedRun, DownloadFailed, OutputError
from fivestar.files import (
    atomic_folder,
    file_hash,
    file_lock,
    make_folder,
    remove_folder,
    write_atomic,
)
from fivestar.runs.manifest import MANIFEST, SIGNATURE, verified_files
from fivestar.runs.remote.address import Address
from fivestar.runs.remote.store import (
    MAX_SIGNATURE_BYTES,
    NoNetwork,
    Store,
    Version,
    listed_files,
)

# Called with (bytes done, bytes in total).
Progress = Callable[[int, int], None]
# Called with a sentence.
Announce = Callable[[str], None]
OFFLINE = ("FIVESTAR_OFFLINE", "HF_HUB_OFFLINE")

_log = logging.getLogger("fivestar.remote")


def cache_folder() -> Path:
    """Return the folder of cached runs: `$FIVESTAR_CACHE`, else in the user's cache folder."""
    if variable := os.environ.get("FIVESTAR_CACHE"):
        return Path(variable).expanduser()
    from platformdirs import user_cache_path  # noqa: PLC0415  (30 ms to import)

    return user_cache_path("fivestar", appauthor=False) / "runs"


def cached_run(
    address: Address,
    open_store: Callable[[Address], Store],
    *,
    progress: Progress | None = None,
    announce: Announce | None = None,
) -> Path:
    """Return a verified copy of the present version of a run, from the cache if it is there.

    Without network, or with `$FIVESTAR_OFFLINE`, it is the version that was found last.
    """
    entry = _Entry(address)
    offline = next((name for name in OFFLINE if _is_set(name)), None)
    if offline is not None and not address.is_local:
        return entry.require_latest(f"${offline} forbids to download it")
    if address.is_fixed and (folder := entry.latest()) is not None:
        return folder
    store = open_store(address)
    try:
        version = store.look()
    except NoNetwork as error:
        if (folder := entry.latest()) is None:
            raise
        warnings.warn(f"{error}; using the copy of {entry.date()}", UserWarning, stacklevel=2)
        return folder
    make_folder(entry.folder)
    with file_lock(entry.folder / ".lock"):
        folder = entry.folder_of(version.manifest)
        if not _is_whole(folder):
            remove_folder(folder)
            _download(store, version, folder, address, progress, announce)
        _fetch_signature(store, version, folder)
        entry.set_latest(version)
    return folder


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").casefold() not in {"", "0", "false", "no", "off"}


class _Entry:
    """The copies of the run of one address."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.folder = cache_folder() / address.key

    def folder_of(self, manifest: bytes) -> Path:
        digest = hashlib.sha256(manifest).hexdigest()[:16]
        return self.folder / "versions" / digest / self.address.name

    def _values(self) -> dict[str, Any]:
        try:
            values = json.loads((self.folder / "latest.json").read_bytes())
            return values if isinstance(values, dict) else {}
        except (OSError, ValueError):
            return {}

    def latest(self) -> Path | None:
        """Return the copy that was found last, if there is one and it is undamaged."""
        digest = str(self._values().get("version", ""))
        if len(digest) != 16 or not digest.isalnum():
            return None
        folder = self.folder / "versions" / digest / self.address.name
        return folder if _is_whole(folder) else None

    def date(self) -> str:
        return str(self._values().get("found", "an unknown date"))

    def require_latest(self, reason: str) -> Path:
        if (folder := self.latest()) is None:
            raise DownloadFailed(
                f"{self.address}: is not in the cache {self.folder.parent}, and {reason}; load it "
                "once with network access"
            )
        return folder

    def set_latest(self, version: Version) -> None:
        values = {
            "address": str(self.address),
            "version": hashlib.sha256(version.manifest).hexdigest()[:16],
            "revision": version.revision,
            "found": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_atomic(self.folder / "latest.json", json.dumps(values, indent=1).encode())


def _is_whole(folder: Path) -> bool:
    """Return whether a copy is there and as its manifest says."""
    if not folder.is_dir():
        return False
    try:
        verified_files(folder)
    except DamagedRun:
        return False
    return True


def _download(
    store: Store,
    version: Version,
    folder: Path,
    address: Address,
    progress: Progress | None,
    announce: Announce | None,
) -> None:
    """Download a version into a new folder, which appears when it is complete and verified."""
    files = listed_files(version.manifest, str(address))
    sizes = {name: version.sizes.get(name) or 0 for name in files}
    total = sum(sizes.values()) + len(version.manifest)
    _require_room(address, total)
    announce = announce or _log.info
    announce(f"downloading {address}: {len(files) + 1} files, {in_units(total)}, to {folder}")
    done = len(version.manifest)
    make_folder(folder.parent)
    with atomic_folder(folder) as draft:
        for name, digest in files.items():
            store.download(version, name, draft)
            file = draft / name
            if file.is_symlink() or not file.is_file():
                raise DamagedRun(f"{address}: {name} is not a file")
            if file_hash(file) != digest:
                raise DamagedRun(
                    f"{address}: {name} is not the file that its manifest describes (its SHA-256 "
                    "differs); it was damaged or changed: push the run again"
                )
            done += file.stat().st_size
            if progress is not None:
                progress(done, max(total, done))
        (draft / MANIFEST).write_bytes(version.manifest)
        for leftover in draft.glob(".*"):
            shutil.rmtree(leftover, ignore_errors=True)
    announce(f"the cache of runs, {cache_folder()}, holds {in_units(cache_bytes())}")


def _fetch_signature(store: Store, version: Version, folder: Path) -> None:
    """Put the signature of the manifest, if there is one, beside it; verifying it is the user's."""
    size = version.sizes.get(SIGNATURE)
    if not size or size > MAX_SIGNATURE_BYTES or (folder / SIGNATURE).exists():
        return
    with tempfile.TemporaryDirectory(prefix="fivestar-") as draft:
        store.download(version, SIGNATURE, Path(draft))
        write_atomic(folder / SIGNATURE, (Path(draft) / SIGNATURE).read_bytes())


def _require_room(address: Address, size: int) -> None:
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OutputError(
            f"{address}: has {in_units(size)}, and {folder} has room for {in_units(free)}; free "
            "some, or set $FIVESTAR_CACHE to a folder on another disk"
        )


def cache_bytes() -> int:
    """Return the size of all cached runs."""
    return sum(path.stat().st_size for path in cache_folder().rglob("*") if path.is_file())


def in_units(size: int) -> str:
    """Return a size for people.

    >>> in_units(1_230_000)
    '1.2 MB'
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
