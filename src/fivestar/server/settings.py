"""What a server serves, to whom, and how much of it at once."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Limits(BaseModel):
    """How much one request may ask for, and how many may wait."""

    model_config = ConfigDict(frozen=True)

    top: int = Field(1000, ge=1)
    batch: int = Field(1000, ge=1)
    body_bytes: int = Field(1 << 20, ge=1)
    seconds: float = Field(30.0, gt=0)
    # Questions that wait for their matrix product, and slower requests that wait for their turn.
    waiting: int = Field(4096, ge=1)
    slow_waiting: int = Field(64, ge=1)


class ServerSettings(BaseModel):
    """Everything a worker needs to know; workers are new processes, so it must go through JSON."""

    model_config = ConfigDict(frozen=True)

    runs: list[Path] = Field(min_length=1)
    host: str = "127.0.0.1"
    workers: int = Field(1, ge=1)
    token_file: Path | None = None
    cors_origins: list[str] = []
    allowed_hosts: list[str] = []
    limits: Limits = Limits()
    # Where all workers count, if there are several.
    counters: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def hosts(self) -> frozenset[str] | None:
        """The names that requests may call us by; None: any.

        A page of a stranger can make its own name point to this machine, so a server that is meant
        for this machine only must be called by its own name.
        """
        if self.allowed_hosts:
            return frozenset(self.allowed_hosts)
        return frozenset(LOOPBACK) if self.is_local else None
