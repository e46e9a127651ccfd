"""Settings of the server."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fivestar.errors import SettingsError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MIN_TOKEN_LENGTH = 16
_HOST = re.compile(r"(?P<name>[a-z0-9_.-]+|\[(?P<ipv6>[0-9a-f:.]+)\])(?::[0-9]*)?")


def host_name(header: str) -> str | None:
    """Return the name or address in a Host header, in lower case; None if it is malformed.

    >>> host_name("LocalHost:8005"), host_name("[::1]:80"), host_name("[127.0.0.1].evil.com")
    ('localhost', '::1', None)
    """
    match = _HOST.fullmatch(header.lower())
    if match is None:
        return None
    if match["ipv6"] is None:
        return match["name"]
    try:
        return str(ipaddress.IPv6Address(match["ipv6"]))
    except ValueError:
        return None


def allowed_host(given: str) -> str:
    """Return a host as `host_name` does; refuse what no Host header can match.

    Raises:
        SettingsError: it is no host name or address.
    """
    header = f"[{given}]" if given.count(":") > 1 and "[" not in given else given
    name = None if re.search(r":[0-9]*$", header) else host_name(header)
    if name is None:
        raise SettingsError(
            f"allowed_hosts: {given!r} is no host name; give it without scheme and port, as in "
            "graphs.example"
        )
    return name


def read_token(file: Path) -> bytes:
    """Read the token from a file; a short one is refused."""
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{file}: cannot read the token ({error.strerror})") from error
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or b"\n" in token:
        raise SettingsError(
            f"{file}: a token is one line of at least {_MIN_TOKEN_LENGTH} ASCII characters; create "
            f"one with: python -c 'import secrets; print(secrets.token_urlsafe())' > {file}"
        )
    return token


class Limits(BaseModel):
    """Limits per request, and lengths of the queues."""

    model_config = ConfigDict(frozen=True)

    top: int = Field(1000, ge=1)
    batch: int = Field(1000, ge=1)
    body_bytes: int = Field(1 << 20, ge=1)
    seconds: float = Field(30.0, gt=0)
    # Answers per request, and estimated multiply-adds (see `cost`).
    answers: int = Field(100_000, ge=1)
    work: float = Field(1e11, gt=0)
    # Of the heads of requests, which are limited before the token is checked.
    header_bytes: int = Field(65_536, ge=1024)
    header_seconds: float = Field(10.0, gt=0)
    # Open connections per client address and worker process.
    client_connections: int = Field(256, ge=1)
    # Queued requests per lane, and bytes of cached responses per run.
    queued_requests: int = Field(64, ge=1)
    # Entities that requests may add to a run.
    folded_in: int = Field(10_000, ge=1)
    cache_bytes: int = Field(32 << 20, ge=0)
    # Size of a table of candidates up to which each worker has a copy for faster products.
    packed_bytes: int = Field(256 << 20, ge=0)

    @property
    def queued_work(self) -> float:
        """Return the estimated work that may wait, in multiply-adds."""
        return 4 * self.work

    @property
    def unsent_answers(self) -> int:
        """Return the number of answers of all requests in progress."""
        return 10 * self.answers


# Limits for a model that is not served: nothing is cached or copied.
NO_MEMORY = Limits(cache_bytes=0, packed_bytes=0)


class ServerSettings(BaseModel):
    """Everything a worker process needs; passed to it as JSON."""

    model_config = ConfigDict(frozen=True)

    runs: list[Path] = Field(min_length=1)
    host: str = "127.0.0.1"
    workers: int = Field(1, ge=1)
    token_file: Path | None = None
    cors_origins: list[str] = []
    allowed_hosts: list[str] = []
    limits: Limits = Limits()
    # Seconds between two looks for new versions of the runs; 0: never.
    reload_interval: float = Field(0.0, ge=0)
    # Whether requests may add new entities.
    fold_in: bool = False
    log_format: Literal["text", "json"] = "text"
    trace: bool = False
    # Copies of the weights that nobody changes, one per run (see `weights`).
    weights: list[Path] = []
    # Shared counters of several workers.
    metrics_file: Path | None = None
    # Where workers that serve leave a file named after their process id.
    started_folder: Path | None = None

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can connect."""
        return self.host in LOOPBACK

    def hosts(self) -> frozenset[str] | None:
        """Return the accepted Host headers; None for any.

        A foreign page can make its own host name resolve to this machine (DNS rebinding), so a
        local server accepts only local names.
        """
        if self.allowed_hosts:
            return frozenset(map(allowed_host, self.allowed_hosts))
        return frozenset(LOOPBACK) if self.is_local else None
