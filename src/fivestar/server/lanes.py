"""Lanes: threads that run one job at a time, with a bounded queue that is fair to all clients.

A job whose request has ended (the client has left, or the time is over) is cancelled: it is removed
from the queue, or the computation stops at its next `check_cancelled`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from fivestar.cancellation import cancel_when
from fivestar.server.problems import busy, too_many

P = ParamSpec("P")
T = TypeVar("T")
# Share of a queue that one client may fill.
_CLIENT_SHARE = 0.5


@dataclass(frozen=True)
class RequestContext:
    """Who sends a request, its id and span, and what to do when it has ended."""

    client: str = ""
    on_end: ExitStack = field(default_factory=ExitStack)
    request_id: str = ""
    span: Any = None


request_context: ContextVar[RequestContext] = ContextVar("request_context")


@dataclass(eq=False)
class Entry(Generic[T]):
    """The waiting items of one request, each with its estimated work."""

    client: _Client[T]
    items: deque[tuple[T, float]]
    work: float  # received so far, counted from that of the others when it came
    waiting: float  # of its items


@dataclass(eq=False)
class _Client(Generic[T]):
    name: str
    work: float
    waiting: float = 0.0
    entries: list[tuple[float, int, Entry[T]]] = field(default_factory=list)  # a heap


class FairQueue(Generic[T]):
    """A queue in which no client, and no request of a client, waits for all work of another.

    The next item is one of the client that has received the least work, and of that client's
    requests the one that has (start-time fair queueing; Goyal et al., SIGCOMM 1996).

    Args:
        max_work: work that may wait; a client may fill half of it.
    """

    def __init__(self, max_work: float) -> None:
        self.max_work = max_work
        self.waiting = 0.0
        self._clients: dict[str, _Client[T]] = {}
        self._heap: list[tuple[float, int, _Client[T]]] = []
        self._numbers = count()  # so that clients with the same work are served in turn
        self._clock = 0.0

    def push(self, client: str, items: Iterable[tuple[T, float]]) -> Entry[T]:
        """Add the items of a request, each with its estimated work.

        Raises:
            Problem: 503 if the queue is full, 429 if it is full of items of this client.
        """
        pairs = deque(items)
        work = sum(each for _, each in pairs)
        owner = self._clients.get(client)
        own = 0.0 if owner is None else owner.waiting
        # A single request is always accepted if nothing waits.
        if own and own + work > self.max_work * _CLIENT_SHARE:
            raise too_many("this client has too many requests in the queue")
        if self.waiting and self.waiting + work > self.max_work:
            raise busy("the queue is full")
        if owner is None:
            owner = self._clients[client] = _Client(client, self._clock)
            heappush(self._heap, (owner.work, next(self._numbers), owner))
        first = owner.entries[0][0] if owner.entries else 0.0
        entry = Entry(owner, pairs, first, work)
        heappush(owner.entries, (entry.work, next(self._numbers), entry))
        owner.waiting += work
        self.waiting += work
        return entry

    def pop(self) -> tuple[T, float] | None:
        """Return the next item and its work; None if nothing waits."""
        while self._heap:
            _, _, client = self._heap[0]
            while client.entries and not client.entries[0][2].items:
                heappop(client.entries)
            if not client.entries:
                heappop(self._heap)
                del self._clients[client.name]
                continue
            _, _, entry = client.entries[0]
            item, work = entry.items.popleft()
            self._clock = client.work
            client.work += work
            entry.work += work
            self._remove_work(entry, work)
            heapreplace(client.entries, (entry.work, next(self._numbers), entry))
            heapreplace(self._heap, (client.work, next(self._numbers), client))
            return item, work
        return None

    def remove(self, entry: Entry[T]) -> None:
        """Remove what still waits of a request."""
        entry.items.clear()
        self._remove_work(entry, entry.waiting)

    def _remove_work(self, entry: Entry[T], work: float) -> None:
        entry.waiting -= work
        entry.client.waiting -= work
        self.waiting -= work


@dataclass(eq=False)
class _Job:
    work: Callable[[], Any]
    result: asyncio.Future[Any]


class Lane:
    """A thread that runs one function at a time.

    Args:
        name: name of the thread.
        max_queued: number of requests that may wait.
    """

    def __init__(self, name: str, max_queued: int) -> None:
        # A new thread has the number of threads that any thread has set last; see `coarse_threads`.
        own = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(1, name, torch.set_num_threads, (own,))
        self._queue = FairQueue[_Job](max_queued)
        self._is_running = False
        self._is_closed = False

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function once its turn has come.

        If the caller is cancelled, the function is not called, or stops at its next
        `check_cancelled`; until then, the lane stays occupied.

        Raises:
            Problem: 503 or 429 if the queue is full.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _Job(partial(work, *args, **kwargs), result)
        client = request_context.get(RequestContext()).client
        entry = self._queue.push(client, [(job, 1.0)])
        self._start_next()
        try:
            return await result
        finally:
            self._queue.remove(entry)

    def close(self) -> None:
        """Stop the thread; its current call is cancelled."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_next(self) -> None:
        if self._is_running or self._is_closed or (popped := self._queue.pop()) is None:
            return
        self._is_running = True
        self._pool.submit(self._call, popped[0])

    def _call(self, job: _Job) -> None:
        outcome, failure = None, None
        try:
            with cancel_when(lambda: self._is_closed or job.result.done()):
                outcome = job.work()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the event loop is closed
            job.result.get_loop().call_soon_threadsafe(self._finish, job, outcome, failure)

    def _finish(self, job: _Job, outcome: Any, failure: BaseException | None) -> None:
        self._is_running = False
        if not job.result.done():
            if failure is None:
                job.result.set_result(outcome)
            else:
                job.result.set_exception(failure)
        self._start_next()
