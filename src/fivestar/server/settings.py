"""Settings of the server."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Limits(BaseModel):
    """Limits per request, and lengths of the queues."""

    model_config = ConfigDict(frozen=True)

    top: int = Field(1000, ge=1)
    batch: int = Field(1000, ge=1)
    body_bytes: int = Field(1 << 20, ge=1)
    seconds: float = Field(30.0, gt=0)
    # Queued queries, and queued requests that are not batched.
    queued_queries: int = Field(4096, ge=1)
    queued_requests: int = Field(64, ge=1)


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
    # Shared counters of several workers.
    metrics_file: Path | None = None

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
            return frozenset(self.allowed_hosts)
        return frozenset(LOOPBACK) if self.is_local else None
