"""Runs in object stores (s3://, gs://) and shared folders (file://), through fsspec."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

# The package that fsspec needs for a scheme, and the extra that installs it.
_PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs")}
# Errors of botocore, aiohttp and google-auth, by name: they are not imported here.
_DENIED = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *(
        "DefaultCredentialsError",
        "RefreshError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    ),
}
_UNREACHABLE = {
    *("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError"),
    *("ConnectionClosedError", "ClientConnectorError", "ClientConnectorDNSError", "TransportError"),
    *("ServerDisconnectedError", "ClientOSError", "ConnectionTimeoutError", "HTTPClientError"),
}
_SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


class ObjectStore:
    """A folder of an object store that holds one run."""

    def __init__(self, address: Address) -> None:
        self.address = address
        if address.scheme in _PACKAGES:
            require(*_PACKAGES[address.scheme], f"{address.scheme}://")
        fsspec = require("fsspec", "s3", f"{address.scheme}://")
        options: dict[str, Any] = {"auto_mkdir": True} if address.scheme == "file" else {}
        with self._errors():
            # Not one of before: its credentials and listings may be out of date.
            self.files = fsspec.filesystem(address.scheme, skip_instance_cache=True, **options)

    def look(self) -> Version:
        """Return the present version."""
        manifest = self._read_manifest()
        if manifest is None:
            raise SourceNotFound(
                f"{self.address}: there is no run: it has no manifest.json; check the address, or, "
                "if a push to it did not end, push the run again"
            )
        sizes = {}
        for name in listed_files(manifest, str(self.address)):
            with self._errors(name):
                sizes[name] = self.files.info(self._path(name))["size"]
        with self._errors():
            if self.files.exists(self._path(SIGNATURE)):
                sizes[SIGNATURE] = self.files.info(self._path(SIGNATURE))["size"]
        return Version(None, manifest, sizes)

    def download(self, version: Version, name: str, folder: Path) -> None:
        """Write a file of a version to a folder."""
        del version
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._errors(name):
            self.files.get_file(self._path(name), str(target))

    def push(
        self, folder: Path, files: Mapping[str, Path], *, private: bool, existing: str, message: str
    ) -> Pushed:
        """Write the files, the manifest last.

        A run that is replaced loses its manifest first: a reader finds the old run, none, or the
        new one, and never a mixture.
        """
        del folder, private, message
        size = sum(file.stat().st_size for file in files.values())
        done = Pushed(str(self.address), len(files), size)
        old = self._read_manifest()
        new = files[MANIFEST].read_bytes()
        if old == new:
            with self._errors():
                if SIGNATURE in files:
                    self.files.put_file(str(files[SIGNATURE]), self._path(SIGNATURE))
            return Pushed(done.address, done.files, done.bytes, is_new=False)
        if old is not None and existing == "fail":
            raise OutputError(
                f"{self.address}: another run is there; pass existing='replace' to replace it, or "
                "choose another address"
            )
        with self._errors():
            if old is not None:
                self.files.rm_file(self._path(MANIFEST))
            for name, file in files.items():
                self.files.put_file(str(file), self._path(name))
        if old is not None:
            self._remove_leftovers(old, files)
        return done

    def _remove_leftovers(self, manifest: bytes, files: Mapping[str, Path]) -> None:
        """Remove the files of a former run that the new one does not have."""
        try:
            names = {*listed_files(manifest, str(self.address)), SIGNATURE} - files.keys()
        except DamagedRun:
            return
        with self._errors():
            for name in sorted(names):
                if self.files.exists(self._path(name)):
                    self.files.rm_file(self._path(name))

    def _read_manifest(self) -> bytes | None:
        path = self._path(MANIFEST)
        with self._errors():
            try:
                if self.files.info(path)["size"] > MAX_MANIFEST_BYTES:
                    raise DamagedRun(f"{self.address}: its manifest.json is too large for a run")
                content: bytes = self.files.cat_file(path)
            except FileNotFoundError:
                return None
        return content

    def _path(self, name: str) -> str:
        return f"{self.address.path}/{name}"

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        """Turn the errors of the store into ours, without secrets."""
        where = f"{self.address}/{name}" if name else str(self.address)
        try:
            yield
        except FivestarError:
            raise
        except FileNotFoundError:
            if name:
                raise DamagedRun(f"{where}: is missing; push the run again") from None
            raise SourceNotFound(f"{where}: there is no such bucket or folder") from None
        except Exception as error:
            raise self._explained(error, where) from None

    def _explained(self, error: Exception, where: str) -> FivestarError:
        kind, status = type(error).__name__, _status(error)
        if isinstance(error, PermissionError) or kind in _DENIED or status in {401, 403}:
            return DownloadFailed(
                f"{where}: not allowed; check the address and your credentials for "
                f"{self.address.scheme}"
            )
        unreachable = isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError)
        if unreachable or kind in _UNREACHABLE:
            return NoNetwork(f"{where}: the store does not respond; check the network")
        secrets = [os.environ.get(variable) for variable in _SECRET_VARIABLES]
        text = redact(" ".join(str(error).split()), *secrets)[:300]
        return DownloadFailed(f"{where}: {text or kind} ({kind})")


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, where it has one."""
    code = str(getattr(error, "code", getattr(error, "status", "")))
    return int(code) if code.isdecimal() else None
