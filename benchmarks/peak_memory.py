"""Resident memory of this process and its peak, in bytes (Linux)."""

from __future__ import annotations

from pathlib import Path


def resident() -> int:
    """Return the current resident memory."""
    return _status("VmRSS")


def peak() -> int:
    """Return the peak since `reset_peak`; ru_maxrss would include that of the parent."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Reset the peak to the current memory."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
