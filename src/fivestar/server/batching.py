"""Request batching: queries of all clients are scored together, in batches of bounded work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np

from fivestar.cancellation import cancel_when
from fivestar.evaluation.topk import Which
from fivestar.models.scoring import BATCH_SIZE
from fivestar.prediction.predictions import Prediction, QueryIds
from fivestar.prediction.trained_model import TrainedModel
from fivestar.server.lanes import Entry, FairQueue, Lane, RequestContext, request_context
from fivestar.server.metrics import Metrics

# Queries for more answers than this are batched separately, so that others need not wait for them.
_LARGE_TOP = 100
# Estimated work of a batch (see `cost`), about 0.03 s on one core: others wait at most so long.
BATCH_WORK = 5e8
# A few queries are scored together in any case: each would read the whole table.
_MIN_ROWS = 8
# How long to wait for more queries after a batch: a share of the time that it took, and seconds.
_WAIT_SHARE = 0.5
_MAX_WAIT = 0.02

T = TypeVar("T")
Render = Callable[[QueryIds, list[Prediction]], T]
Trace = Callable[[int, list[Any]], AbstractContextManager[None]]


@dataclass(frozen=True)
class BatchedQuery:
    """A query by ids, −1 for the missing slot, and which answers to return."""

    ids: QueryIds
    top: int
    which: Which
    types: tuple[str, ...]


@dataclass(eq=False)
class _Request(Generic[T]):
    results: list[T | None]
    missing: int
    done: asyncio.Future[None]
    span: Any


@dataclass(eq=False)
class _Row:
    request: _Request[Any]
    position: int
    query: BatchedQuery


class Batcher(Generic[T]):
    """Answers queued queries together: while one batch is scored, the next one fills.

    A batch reads the whole table of candidates, so one of 32 queries takes little longer than one
    of 16. Clients that send their next query when they have received an answer all do so right
    after a batch; so the next one waits until as many requests have come, for a part of the time
    that the last batch took at most. A query that comes later is answered at once.

    Requests take turns (see `FairQueue`), so that a request with many queries delays the others by
    one batch only. If all requests of a batch have ended, it stops.

    Args:
        model: the model.
        lane: where batches are scored.
        max_work: estimated work that may wait.
        metrics: counts batches.
        render: returns the result of a query from its answers; called in the lane.
        trace: makes a span of a batch from the number of its queries and the spans of its requests.
    """

    def __init__(
        self,
        model: TrainedModel,
        lane: Lane,
        max_work: float,
        metrics: Metrics,
        render: Render[T],
        trace: Trace | None = None,
    ) -> None:
        self._model = model
        self._lane = lane
        self._metrics = metrics
        self._render = render
        self._trace = trace or (lambda _, __: nullcontext())
        self._queue = FairQueue[_Row](max_work)
        self._task: asyncio.Task[None] | None = None
        self._pending: set[_Request[T]] = set()
        # Requests that may come soon after a batch, and until when to wait for them.
        self._expected = 0
        self._wait_until = 0.0
        self._all_came: asyncio.Future[None] | None = None

    async def predict(self, queries: list[BatchedQuery], work: list[float]) -> list[T]:
        """Return the result of each query, given their estimated work.

        Raises:
            Problem: 503 or 429 if the queue is full.
        """
        loop = asyncio.get_running_loop()
        context = request_context.get(RequestContext())
        request = _Request[T](
            [None] * len(queries), len(queries), loop.create_future(), context.span
        )
        rows = [_Row(request, position, query) for position, query in enumerate(queries)]
        entry: Entry[_Row] = self._queue.push(context.client, zip(rows, work, strict=True))
        self._pending.add(request)
        if self._all_came is not None and len(self._pending) >= self._expected:
            _resolve(self._all_came)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._process_queue())
        try:
            await request.done
        finally:
            self._queue.remove(entry)
            self._pending.discard(request)
        return request.results  # type: ignore[return-value]

    async def _process_queue(self) -> None:
        request_context.set(RequestContext("batches"))
        while True:
            await self._wait_for_more()
            if not (rows := self._next_batch()):
                return
            started = time.monotonic()
            try:
                results = await self._lane.run(self._predict, rows)
            except Exception as error:
                for row in rows:
                    if not row.request.done.done():
                        row.request.done.set_exception(error)
                continue
            ended = time.monotonic()
            self._expected = len(self._pending)
            self._wait_until = ended + min(_MAX_WAIT, _WAIT_SHARE * (ended - started))
            self._return(rows, results)

    async def _wait_for_more(self) -> None:
        """Wait until as many requests as before have come, or until it would take too long."""
        seconds = self._wait_until - time.monotonic()
        if seconds <= 0 or len(self._pending) >= self._expected:
            return
        loop = asyncio.get_running_loop()
        self._all_came = loop.create_future()
        timer = loop.call_later(seconds, _resolve, self._all_came)
        await self._all_came
        timer.cancel()
        self._all_came = None

    def _return(self, rows: list[_Row], results: list[T]) -> None:
        for row, result in zip(rows, results, strict=True):
            request = row.request
            request.results[row.position] = result
            request.missing -= 1
            if not request.missing:
                self._pending.discard(request)
                _resolve(request.done)

    def _next_batch(self) -> list[_Row]:
        rows: list[_Row] = []
        total = 0.0
        while len(rows) < BATCH_SIZE and (len(rows) < _MIN_ROWS or total < BATCH_WORK):
            popped = self._queue.pop()
            if popped is None:
                break
            row, work = popped
            if not row.request.done.done():
                rows.append(row)
                total += work
        return rows

    def _predict(self, rows: list[_Row]) -> list[T]:
        """Score all queries with the same filter in one matrix product."""
        self._metrics.count_batch(len(rows))

        def key(at: int) -> tuple[Which, tuple[str, ...], bool]:
            query = rows[at].query
            return query.which, query.types, query.top > _LARGE_TOP

        results: dict[int, T] = {}
        with (
            self._trace(len(rows), [row.request.span for row in rows]),
            cancel_when(lambda: all(row.request.done.done() for row in rows)),
        ):
            for (which, types, _), group in groupby(sorted(range(len(rows)), key=key), key=key):
                chosen = list(group)
                ids = np.array([rows[at].query.ids for at in chosen])
                top = max(rows[at].query.top for at in chosen)
                answers = self._model.predict_ids(ids, top, which, types)
                for at, best in zip(chosen, answers, strict=True):
                    query = rows[at].query
                    results[at] = self._render(query.ids, best[: query.top])
        return [results[at] for at in range(len(rows))]


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
