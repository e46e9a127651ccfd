"""Cancel a computation from another thread: long loops call `check_cancelled` between batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fivestar.errors import Cancelled

_is_cancelled: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


@contextmanager
def cancel_when(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Cancel the computations of a block once a function returns true.

    Args:
        is_cancelled: called often, from the thread that computes; an enclosing block counts, too.

    >>> with cancel_when(lambda: True):
    ...     check_cancelled()
    Traceback (most recent call last):
    fivestar.errors.Cancelled: cancelled
    """
    outer = _is_cancelled.get()
    token = _is_cancelled.set(is_cancelled if outer is None else lambda: is_cancelled() or outer())
    try:
        yield
    finally:
        _is_cancelled.reset(token)


def check_cancelled() -> None:
    """Stop if nobody waits for the result any more.

    Raises:
        Cancelled: a function given to `cancel_when` returns true.
    """
    is_cancelled = _is_cancelled.get()
    if is_cancelled is not None and is_cancelled():
        raise Cancelled("cancelled")
