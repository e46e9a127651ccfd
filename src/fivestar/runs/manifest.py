"""The manifest of a run: the hashes of its files, by which a run is verified before it is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from fivestar.errors import DamagedRun, SourceNotFound
from fivestar.files import check_plain_folder, file_hash
from fivestar.graph.reading import is_graph_folder

MANIFEST = "manifest.json"
# A detached signature of the manifest (docs/reliability.md).
SIGNATURE = "manifest.json.sig"
FORMAT = "fivestar-run"
VERSION = 1


def verified_files(folder: Path, unused: Collection[str] = ()) -> dict[str, str]:
    """Verify all files that the manifest of a run lists, and return their hashes by name.

    Args:
        folder: The folder of the run.
        unused: Names of files that are not read, so their content is not verified.

    Raises:
        SourceNotFound: There is no such folder.
        DamagedRun: A file is missing or has changed, or training has not ended.
    """
    files = listed_files(folder)
    for name, digest in files.items():
        file = folder / name
        if name not in unused and file_hash(file) != digest:
            raise DamagedRun(f"{file}: has changed since it was written; restore it or train again")
    return files


def listed_files(folder: Path) -> dict[str, str]:
    """Return the hashes of the files that the manifest of a run lists, by name.

    Raises:
        SourceNotFound: There is no such folder.
        DamagedRun: A file is missing, or training has not ended.
    """
    if not folder.is_dir():
        what = f"{folder} is a file" if folder.exists() else f"no folder {folder}"
        raise SourceNotFound(f"{what}; give the folder of a trained model")
    if not (folder / "settings.toml").exists():
        _refuse_other_folder(folder)
    check_plain_folder(folder)
    path = folder / MANIFEST
    if not path.is_file():
        advice = f"its training has not ended: resume it with fivestar.resume('{folder}')"
        raise DamagedRun(f"{folder}: has no manifest.json; {advice}")
    try:
        files = read_manifest(path.read_bytes(), str(path))
    except OSError as error:
        raise DamagedRun(f"{path}: is not the manifest of a run ({error})") from error
    for name in files:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise DamagedRun(f"{path}: names a file outside of the folder: {name!r}")
        if not file.is_file():
            raise DamagedRun(f"{file}: is missing; restore it or train again")
    return files


def read_manifest(content: bytes, where: str) -> dict[str, str]:
    """Return the hashes of the files of a run by name.

    Args:
        content: The content of manifest.json.
        where: Where it is, for the message.

    Raises:
        DamagedRun: It is not the manifest of a run, or that of another version.
    """
    try:
        manifest = json.loads(content)
        files = {str(name): str(digest) for name, digest in dict(manifest["files"]).items()}
        kind, version = manifest["format"], manifest["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedRun(f"{where}: is not the manifest of a run ({error})") from error
    if kind != FORMAT or version != VERSION:
        raise DamagedRun(
            f"{where}: {kind} of version {version!r}, this fivestar reads {FORMAT} {VERSION}"
        )
    return files


def run_version(folder: Path) -> str:
    """Return a short hash of the manifest of a run, which has the hashes of its files.

    Raises:
        DamagedRun: There is no manifest.
    """
    try:
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise DamagedRun(f"{folder}: has no {MANIFEST} ({error.strerror})") from error


def _refuse_other_folder(folder: Path) -> None:
    """Say what to do with a graph that is given instead of a run.

    Raises:
        SourceNotFound: The folder holds a graph, or nothing of a run.
    """
    if is_graph_folder(folder):
        raise SourceNotFound(
            f"{folder} is a graph, not a trained model: train one with fivestar.train('{folder}')"
        )
    if not (folder / MANIFEST).exists():
        raise SourceNotFound(
            f"{folder} is not the folder of a trained model: it has no manifest.json"
        )
