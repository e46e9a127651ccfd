"""Runs on the Hugging Face Hub, through huggingface_hub."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fivestar.errors import (
    DamagedRun,
    DownloadFailed,
    FivestarError,
    OutputError,
    SourceNotFound,
)
from fivestar.extras import require
from fivestar.runs.manifest import MANIFEST, SIGNATURE
from fivestar.runs.remote.address import Address, redact
from fivestar.runs.remote.store import (
    MAX_MANIFEST_BYTES,
    NoNetwork,
    Pushed,
    Version,
    listed_files,
)
from fivestar.version import __version__

_LOGIN = "log in with `hf auth login`, or set $HF_TOKEN"


class Hub:
    """A repository of models that holds one run."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.hub = require("huggingface_hub", "hub", "hf://")
        self.api = self.hub.HfApi(
            endpoint=os.environ.get("HF_ENDPOINT") or None,
            library_name="fivestar-kge",
            library_version=__version__,
        )

    def look(self) -> Version:
        """Return the present version; all its files are read at the same commit."""
        with self._errors():
            info = self.api.model_info(
                self.address.path, revision=self.address.revision, files_metadata=True
            )
        sizes = {file.rfilename: file.size for file in info.siblings or []}
        if MANIFEST not in sizes:
            raise SourceNotFound(
                f"{self.address}: is not a run of fivestar: it has no manifest.json"
            )
        if (sizes[MANIFEST] or 0) > MAX_MANIFEST_BYTES:
            raise DamagedRun(f"{self.address}: its manifest.json is too large for a run")
        manifest = self._manifest(str(info.sha))
        missing = listed_files(manifest, str(self.address)).keys() - sizes.keys()
        if missing:
            raise DamagedRun(f"{self.address}: {min(missing)} is missing; push the run again")
        return Version(str(info.sha), manifest, sizes)

    def download(self, version: Version, name: str, folder: Path) -> None:
        """Write a file of a version to a folder."""
        with self._errors(name):
            self.api.hf_hub_download(
                self.address.path, name, revision=version.revision, local_dir=folder
            )

    def push(
        self, folder: Path, files: Mapping[str, Path], *, private: bool, existing: str, message: str
    ) -> Pushed:
        """Write the files in one commit, which also removes those of a former run."""
        del folder, existing  # a former run remains in the history
        path, revision = self.address.path, self.address.revision
        if self.address.is_fixed:
            raise OutputError(f"{self.address}: a commit cannot be changed; name a branch")
        with self._errors():
            self.api.create_repo(path, private=private or None, exist_ok=True)
            if revision is not None:
                self.api.create_branch(path, branch=revision, exist_ok=True)
            before = self.api.model_info(path, revision=revision)
        present = {file.rfilename for file in before.siblings or []}
        size = sum(file.stat().st_size for file in files.values())
        done = Pushed(str(self.address), len(files), size, str(before.sha), is_new=False)
        old = self._manifest(str(before.sha)) if MANIFEST in present else b""
        is_same = old == files[MANIFEST].read_bytes() and files.keys() <= present
        if is_same and SIGNATURE not in files:
            return done
        operations: list[Any] = [
            self.hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(file))
            for name, file in files.items()
        ]
        operations += [
            self.hub.CommitOperationDelete(path_in_repo=name)
            for name in sorted((self._former_files(old) & present) - files.keys())
        ]
        with self._errors(), warnings.catch_warnings():
            # The graph of a run is a data file, and belongs to it.
            warnings.filterwarnings("ignore", "It seems that you are about to commit a data file")
            commit = self.api.create_commit(
                path, operations, commit_message=message, revision=revision
            )
        return replace(done, revision=commit.oid, is_new=commit.oid != done.revision)

    def _former_files(self, manifest: bytes) -> set[str]:
        """Return the files of the run that a repository holds, which a new run replaces."""
        try:
            return {*listed_files(manifest, str(self.address)), SIGNATURE}
        except DamagedRun:  # none, or not one of ours
            return set()

    def _manifest(self, commit: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="fivestar-") as folder, self._errors(MANIFEST):
            file = self.api.hf_hub_download(
                self.address.path, MANIFEST, revision=commit, local_dir=folder
            )
            return Path(file).read_bytes()

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        """Turn the errors of the Hub into ours, without secrets; no bars where nobody looks."""
        bars = self.hub.utils
        has_bars = not bars.are_progress_bars_disabled()
        try:
            if has_bars and not sys.stderr.isatty():
                bars.disable_progress_bars()
            yield
        except FivestarError:
            raise
        except Exception as error:
            raise self._explained(error, name) from None
        finally:
            if has_bars:
                bars.enable_progress_bars()

    def _explained(self, error: Exception, name: str) -> FivestarError:
        errors, path = self.hub.errors, self.address.path
        where = f"{self.address}/{name}" if name else str(self.address)
        error = _origin(error)
        status = getattr(getattr(error, "response", None), "status_code", None)
        kind: type[FivestarError] = DownloadFailed
        if isinstance(error, errors.GatedRepoError):
            text = f"not allowed: ask for access on its page, and {_LOGIN}"
        elif isinstance(error, errors.RevisionNotFoundError):
            kind, text = SourceNotFound, f"{path} has no revision {self.address.revision!r}"
        elif isinstance(error, errors.RepositoryNotFoundError):
            kind = SourceNotFound
            text = f"there is no repository {path}, or you may not see it; check the name"
            text += f"; if it is private, {_LOGIN}"
        elif status in {401, 403}:
            text = f"not allowed; {_LOGIN}, with a token that may do this"
        elif status is None and _is_connection_error(error):
            kind, text = NoNetwork, "the Hub does not respond; check the network"
        else:
            found = redact(" ".join(str(error).split()), self.hub.get_token())
            text = found[:300] or type(error).__name__
        return kind(f"{where}: {text}")


def _origin(error: Exception) -> Exception:
    """Return what caused an error: an answer of the server, or the first error of all."""
    while getattr(error, "response", None) is None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _is_connection_error(error: Exception) -> bool:
    """Return whether an error is one of the connection, of httpx or of the system."""
    names = {kind.__name__ for kind in type(error).__mro__}
    is_known = names & {"ConnectError", "TimeoutException", "NetworkError", "TransportError"}
    return bool(is_known) or isinstance(error, ConnectionError | TimeoutError)
