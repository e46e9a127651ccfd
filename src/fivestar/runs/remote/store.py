"""What a store of runs does, and how a run gets there."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fivestar.errors import DamagedRun, DownloadFailed, OutputError, SettingsError
from fivestar.runs.manifest import MANIFEST, SIGNATURE, read_manifest, verified_files
from fivestar.runs.remote.address import Address

# Of the manifest of a run: it lists a few files, or a few hundred snapshots.
MAX_MANIFEST_BYTES = 16 << 20
MAX_SIGNATURE_BYTES = 1 << 16
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]{0,59}")


class NoNetwork(DownloadFailed):
    """A store does not respond; a copy in the cache may be used."""


@dataclass(frozen=True)
class Version:
    """One state of a run in a store.

    Attributes:
        revision: the commit, where the store has commits.
        manifest: the content of manifest.json.
        sizes: the size of each file in bytes, where the store tells it.
    """

    revision: str | None
    manifest: bytes
    sizes: Mapping[str, int | None]


@dataclass(frozen=True)
class Pushed:
    """A run in a store.

    Attributes:
        address: where it is.
        files: the number of its files.
        bytes: their size.
        revision: the commit on the Hub.
        is_new: whether it was not there before.
    """

    address: str
    files: int
    bytes: int
    revision: str | None = None
    is_new: bool = True


class Store(Protocol):
    """A place for one run."""

    def look(self) -> Version:
        """Return the present version.

        Raises:
            SourceNotFound: there is no run.
            NoNetwork: the store does not respond.
            DownloadFailed: it cannot be read.
        """
        ...

    def download(self, version: Version, name: str, folder: Path) -> None:
        """Write a file of a version to a folder, under its name."""
        ...

    def push(
        self, folder: Path, files: Mapping[str, Path], *, private: bool, existing: str, message: str
    ) -> Pushed:
        """Write files by name; manifest.json is one of them, the last."""
        ...


def open_store(address: Address) -> Store:
    """Return the store of an address.

    Raises:
        MissingExtra: its package is not installed.
    """
    if address.scheme == "hf":
        from fivestar.runs.remote.hub import Hub  # noqa: PLC0415  (needs an extra)

        return Hub(address)
    from fivestar.runs.remote.object_store import ObjectStore  # noqa: PLC0415  (needs an extra)

    return ObjectStore(address)


def push_run(
    folder: Path,
    address: Address,
    *,
    private: bool,
    existing: str,
    license: str | None,  # noqa: A002  (the Hub's word)
    message: str | None,
) -> Pushed:
    """Verify a run and write it to a store; see `fivestar.push`."""
    if existing not in {"fail", "replace"}:
        raise SettingsError(f"existing={existing!r}: choose 'fail' or 'replace'")
    if private and address.scheme != "hf":
        raise SettingsError("private: only repositories of the Hub have it; use the store's own")
    names = sorted(verified_files(folder))
    check_names(names, str(folder))
    signature = [SIGNATURE] if (folder / SIGNATURE).is_file() else []
    files = {name: folder / name for name in (*names, *signature, MANIFEST)}
    text = message or f"Upload {folder.resolve().name}"
    with tempfile.TemporaryDirectory(prefix="fivestar-") as draft:
        if license is not None:
            files |= _with_license(files, license, Path(draft))
        try:
            return open_store(address).push(
                folder, files, private=private, existing=existing, message=text
            )
        except DownloadFailed as error:
            raise OutputError(str(error)) from None


def _with_license(files: Mapping[str, Path], name: str, draft: Path) -> dict[str, Path]:
    """Write a model card that names a license, and the manifest of the run with this card."""
    if _LICENSE.fullmatch(name) is None:
        raise SettingsError(
            f"license={name!r}: give an identifier of the Hub, such as cc-by-4.0, mit or other"
        )
    if SIGNATURE in files:
        raise SettingsError(
            "license: it changes the model card and so the manifest, whose signature would no "
            "longer be valid; push without it"
        )
    lines = files["README.md"].read_text(encoding="utf-8").split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        raise OutputError(f"{files['README.md']}: has no front matter; save the run again")
    top = [line for line in lines[1 : lines.index("---", 1)] if not line.startswith("license:")]
    rest = lines[lines.index("---", 1) :]
    card = "\n".join(["---", f"license: {name}", *top, *rest]).encode()
    manifest = json.loads(files[MANIFEST].read_bytes())
    manifest["files"]["README.md"] = hashlib.sha256(card).hexdigest()
    contents = {"README.md": card, MANIFEST: json.dumps(manifest, indent=1).encode()}
    for file, content in contents.items():
        (draft / file).write_bytes(content)
    return {file: draft / file for file in contents}


def check_names(names: list[str], where: str) -> None:
    """Refuse names that would leave the folder, or that some system cannot have.

    Args:
        names: the names of the files of a run, with slashes.
        where: the run, for the message.

    Raises:
        DamagedRun: there is such a name.
    """
    seen: set[str] = set()
    for name in names:
        parts = name.split("/")
        is_safe = (
            0 < len(name) <= 200
            and name.isprintable()
            and not any(sign in name for sign in '\\:*?"<>|')
            and all(part and part[0] != "." and part[-1] not in ". " for part in parts)
            and name.casefold() not in seen
            and name not in {MANIFEST, SIGNATURE}
        )
        if not is_safe:
            raise DamagedRun(f"{where}: its manifest names a file that is refused: {name[:80]!r}")
        seen.add(name.casefold())
    folders = {name.rpartition("/")[0].casefold() for name in names} - {""}
    if clash := seen & folders:
        raise DamagedRun(f"{where}: its manifest has a file and a folder {min(clash)!r}")


def listed_files(manifest: bytes, where: str) -> dict[str, str]:
    """Return the hashes of a manifest by name, all of them safe.

    Raises:
        DamagedRun: it is not the manifest of a run, or names files that are refused.
    """
    files = read_manifest(manifest, where)
    check_names(list(files), where)
    return files
