"""The clock of trainings and searches: wall time, or the CPU time of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_read: Callable[[], float] = time.monotonic


def now() -> float:
    """Return the seconds on the clock; only differences mean something."""
    return _read()


@contextmanager
def cpu_time() -> Iterator[None]:
    """Count the CPU time of this process within the context.

    With one thread it is the wall time on an idle machine, however busy this one is.
    """
    global _read  # noqa: PLW0603
    before, _read = _read, time.process_time
    try:
        yield
    finally:
        _read = before
