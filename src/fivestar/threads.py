"""Coarse worker threads: each runs torch operators on its own part of the work, on one core.

Torch splits every operator over OpenMP threads that meet at its end. Where operators are small,
because their tiles stay in the cache, they meet hundreds of times per second, and each time all of
them wait for a thread whose core another process uses. `run_parts` splits the work once instead:
each thread runs its parts alone, and the caller waits once, for all of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from itertools import pairwise
from typing import Generic, TypeVar

import torch

T = TypeVar("T")

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_local = threading.local()


def num_workers(device: torch.device) -> int:
    """Return the number of workers for work on a device that this thread may use.

    On a CPU as many as torch's operators use in this thread; elsewhere one.
    """
    if device.type != "cpu":
        return 1
    workers: int = getattr(_local, "workers", 0) or torch.get_num_threads()
    return workers


@contextmanager
def coarse_threads() -> Iterator[None]:
    """Let `run_parts` alone use several threads: operators of this thread use one each.

    For work whose operators are small. Nested contexts have no effect. Torch gives a thread that is
    started meanwhile one thread as well, unless it sets another number itself.
    """
    if getattr(_local, "workers", 0):
        yield
        return
    before = _local.workers = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _local.workers = 0
        torch.set_num_threads(before)


@contextmanager
def _one_worker() -> Iterator[None]:
    before = getattr(_local, "workers", 0)
    _local.workers = 1
    try:
        yield
    finally:
        _local.workers = before


# Parts per worker: if a core is busy, its worker takes fewer of them.
_PARTS_PER_WORKER = 4
# Numbers per part at least, so that the work is worth waiting for a thread.
_MIN_NUMBERS = 1 << 18


def split_work(count: int, numbers: int, device: torch.device) -> list[slice]:
    """Split tiles or rows into parts for `run_parts`, as many as the work is worth.

    The parts depend on nothing but the arguments and the number of workers, and so do sums over
    parts.

    Args:
        count: number of tiles or rows.
        numbers: how many numbers are computed in all.
        device: where the work is done.

    Returns:
        Slices that cover all of them; a single one if there is one worker.
    """
    workers = num_workers(device)
    if workers == 1:
        return [slice(0, count)]
    parts = min(_PARTS_PER_WORKER * workers, numbers // _MIN_NUMBERS)
    return split_evenly(count, max(1, parts))


def run_parts(parts: Sequence[Callable[[], T]], device: torch.device) -> list[T]:
    """Run parts of some work in several threads, each part in one.

    The calling thread and its helpers take one part after the other, so a helper whose core is busy
    takes fewer, and one that does not get to run is not waited for. Which thread runs a part is not
    determined: parts must write to disjoint tensors.

    Args:
        parts: functions without arguments; they see the context variables and the grad mode of
            the caller.
        device: where the work is done; `num_workers` of it run at a time. A single part, or all
            parts if there is one worker, run as any other code of the calling thread.

    Returns:
        The results, in the order of the parts.

    Raises:
        BaseException: the first error in the order of the parts, after all of them have ended.
    """
    workers = min(num_workers(device), len(parts))
    if workers <= 1:
        return [part() for part in parts]
    work = _Work(parts)
    with coarse_threads():
        pool = _pool(num_workers(device) - 1)
        helpers = [pool.submit(copy_context().run, work.run) for _ in range(workers - 1)]
        try:
            work.run()
        finally:  # nobody may write to the caller's tensors any more, whatever has ended the work
            work.stop()
            for helper in helpers:
                helper.cancel()
            wait(helpers)
    return work.outcome()


class _Work(Generic[T]):
    """Parts that several threads take, one after the other."""

    def __init__(self, parts: Sequence[Callable[[], T]]) -> None:
        self._parts = parts
        self._is_grad_enabled = torch.is_grad_enabled()
        self._next = 0
        self._lock = threading.Lock()
        self._results: dict[int, T] = {}
        self._errors: dict[int, BaseException] = {}

    def run(self) -> None:
        """Take parts until none is left; work within a part is not split again."""
        with torch.set_grad_enabled(self._is_grad_enabled), _one_worker():
            while (number := self._take()) < len(self._parts):
                try:
                    self._results[number] = self._parts[number]()
                except BaseException as error:
                    self._errors[number] = error
                    self.stop()

    def stop(self) -> None:
        """Let nobody take another part."""
        with self._lock:
            self._next = len(self._parts)

    def outcome(self) -> list[T]:
        """Return the results; raise the first error instead if there is one."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(len(self._parts))]

    def _take(self) -> int:
        with self._lock:
            self._next += 1
            return self._next - 1


def split_evenly(count: int, parts: int) -> list[slice]:
    """Return slices of nearly equal length that cover `count` items, none of them empty.

    >>> split_evenly(5, 2), split_evenly(2, 8)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None), slice(1, 2, None)])
    """
    parts = min(parts, count)
    ends = [-(-count * number // parts) for number in range(parts + 1)] if parts else []
    return [slice(first, last) for first, last in pairwise(ends)]


def _pool(workers: int) -> ThreadPoolExecutor:
    """Return the pool of this many threads; each pool is made once per process."""
    with _lock:
        if workers not in _pools:
            before = torch.get_num_threads()
            pool = ThreadPoolExecutor(workers, "fivestar-worker")
            barrier = threading.Barrier(workers)
            wait([pool.submit(_start_worker, barrier) for _ in range(workers)])
            # The last number that any thread has set is that of new threads.
            torch.set_num_threads(before)
            _pools[workers] = pool
        return _pools[workers]


def _start_worker(barrier: threading.Barrier) -> None:
    """Let operators of this thread use one thread."""
    torch.get_num_threads()  # torch initializes the number of a thread when it is first needed
    torch.set_num_threads(1)
    barrier.wait()  # so that every thread of the pool comes here once


def _forget_pools() -> None:
    """Make new pools in a forked process, which has none of the threads of its parent."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
