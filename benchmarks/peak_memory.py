"""The resident memory of this process, and its peak, in bytes (Linux)."""

from __future__ import annotations

from pathlib import Path


def resident() -> int:
    """The memory now."""
    return _status("VmRSS")


def peak() -> int:
    """The largest since `forget_peak`. Not ru_maxrss: that counts what the parent had, too."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Let the peak count from here."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
