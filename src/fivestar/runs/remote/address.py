"""Addresses of runs: hf://owner/name@revision, s3://bucket/path, gs://bucket/path, file:///path."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from fivestar.errors import SourceNotFound

SCHEMES = ("hf", "s3", "gs", "file", "memory")
_MEANT = re.compile(rf"({'|'.join(SCHEMES)}):/")
_HUB = re.compile(r"(?P<path>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)
_STORE = re.compile(r"[^\s?#@:*\[\]{}\\\x00-\x1f]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Address:
    """Where a run is.

    Attributes:
        scheme: one of `SCHEMES`.
        path: owner/name on the Hub; bucket and path elsewhere.
        revision: branch, tag or commit on the Hub; None: its main branch.
    """

    scheme: str
    path: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" + (f"@{self.revision}" if self.revision else "")

    @staticmethod
    def is_meant(text: str) -> bool:
        """Return whether a text is an address, valid or not, and no path."""
        return _MEANT.match(text) is not None

    @property
    def name(self) -> str:
        """The last part of the path, as the name of a folder."""
        last = _UNSAFE.sub("-", self.path.rstrip("/").rpartition("/")[2]).strip(".-")
        return last[:80] or "run"

    @property
    def key(self) -> str:
        """A name for the folder of the cache, unique for the address."""
        digest = hashlib.sha256(str(self).encode()).hexdigest()[:12]
        readable = _UNSAFE.sub("-", f"{self.scheme}-{self.path}").strip(".-")[:60]
        return f"{readable}-{digest}"

    @property
    def is_local(self) -> bool:
        """Whether it is reached without a network of ours: a folder, perhaps a shared one."""
        return self.scheme in {"file", "memory"}

    @property
    def is_fixed(self) -> bool:
        """Whether it names a commit, whose content never changes."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None


def parse_address(text: str) -> Address:
    """Return the parts of an address.

    >>> parse_address("hf://owner/name@v1").revision
    'v1'

    Raises:
        SourceNotFound: it is not an address of a run.
    """
    scheme, separator, path = text.partition("://")
    if not separator or scheme not in SCHEMES:
        # A Path joins the slashes.
        hint = "; pass it as a string, not as a Path" if Address.is_meant(text) else ""
        raise SourceNotFound(
            f"{redact(text)!r} is not the address of a run{hint}: write hf://owner/name, "
            "s3://bucket/path, gs://bucket/path or file:///path"
        )
    if scheme == "hf":
        if (match := _HUB.fullmatch(path)) is None or ".." in path:
            raise SourceNotFound(
                f"{redact(text)!r} is not an address on the Hugging Face Hub: write "
                "hf://owner/name or hf://owner/name@revision"
            )
        return Address("hf", match["path"], match["revision"])
    if scheme == "file":
        if not path.strip("/") or not path.isprintable() or ".." in path.split("/"):
            raise SourceNotFound(f"{text!r} is not the address of a folder: write file:///path")
        # The same folder has the same copy in the cache, wherever the process runs.
        return Address(scheme, Path(path).absolute().as_posix())
    if "@" in path:
        raise SourceNotFound(
            f"an address of {scheme} has no '@': credentials do not belong in it; give them as "
            "environment variables or in the configuration of the store"
        )
    if _STORE.fullmatch(path) is None or ".." in path.split("/") or not path.strip("/"):
        raise SourceNotFound(
            f"{redact(text)!r} is not an address of {scheme}: write {scheme}://bucket/path, "
            "without blanks, '..' or any of ?#:*[]{}\\"
        )
    return Address(scheme, path.rstrip("/"))


_SECRETS = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}")
_QUERY = re.compile(r"(https?://[^\s?'\"<>]+)\?[^\s'\"<>]*")
_USER = re.compile(r"(\w+://)[^\s/@]+@")


def redact(text: str, *secrets: str | None) -> str:
    """Return a text without what may be a secret.

    Args:
        text: a message of a library or server.
        *secrets: known secrets.

    >>> redact("GET https://x.org/a?X-Amz-Signature=abc failed for hf_abcdefghijkl")
    'GET https://x.org/a failed for ***'
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return _SECRETS.sub("***", _USER.sub(r"\1***@", _QUERY.sub(r"\1", text)))
