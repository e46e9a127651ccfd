"""Request batching: matrix products on one worker thread, slower requests on another.

A worker with a full queue rejects new work at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import ParamSpec, TypeVar

import numpy as np

from fivestar.evaluation.topk import Which
from fivestar.models.scoring import BATCH_SIZE
from fivestar.prediction.predictions import Prediction, QueryIds
from fivestar.prediction.trained_model import TrainedModel
from fivestar.server.metrics import Metrics
from fivestar.server.problems import busy

# Queries for more answers than this are batched separately, so that others need not wait for them.
_LARGE_TOP = 100

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A thread that runs one function at a time, with a bounded queue."""

    def __init__(self, name: str, max_queued: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._max_queued = max_queued
        self._queued = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function once its turn has come."""
        if self._queued >= self._max_queued:
            raise busy(f"{self._queued} requests are queued already")
        self._queued += 1
        try:
            future = self._pool.submit(work, *args, **kwargs)
            return await asyncio.wrap_future(future)
        finally:
            self._queued -= 1

    def close(self) -> None:
        """Stop the thread after its current call."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class BatchedQuery:
    """A query by ids, −1 for the missing slot, and which answers to return."""

    ids: QueryIds
    top: int
    which: Which
    types: tuple[str, ...]


class Batcher:
    """Answers all queued queries together: while one batch is scored, the next one fills.

    There is no delay: a single query is answered at once.
    """

    def __init__(
        self, model: TrainedModel, worker: Worker, max_queued: int, metrics: Metrics
    ) -> None:
        self._model = model
        self._worker = worker
        self._max_queued = max_queued
        self._metrics = metrics
        self._queue: list[tuple[BatchedQuery, asyncio.Future[list[Prediction]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def predict(self, queries: list[BatchedQuery]) -> list[list[Prediction]]:
        """Return the answers to each query."""
        if len(self._queue) + len(queries) > self._max_queued:
            raise busy(f"{len(self._queue)} queries are queued already")
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in queries]
        self._queue += zip(queries, futures, strict=True)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._process_queue())
        return list(await asyncio.gather(*futures))

    async def _process_queue(self) -> None:
        while self._queue:
            batch, self._queue = self._queue[:BATCH_SIZE], self._queue[BATCH_SIZE:]
            # Skip clients that have disconnected.
            batch = [(query, future) for query, future in batch if not future.done()]
            try:
                results = await self._worker.run(self._predict, [query for query, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answers in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(answers)

    def _predict(self, queries: list[BatchedQuery]) -> list[list[Prediction]]:
        """Score all queries with the same filter in one matrix product."""
        self._metrics.count_batch(len(queries))

        def key(row: int) -> tuple[Which, tuple[str, ...], bool]:
            query = queries[row]
            return query.which, query.types, query.top > _LARGE_TOP

        results: dict[int, list[Prediction]] = {}
        for (which, types, _), group in groupby(sorted(range(len(queries)), key=key), key=key):
            rows = list(group)
            ids = np.array([queries[row].ids for row in rows])
            top = max(queries[row].top for row in rows)
            answers = self._model.predict_ids(ids, top, which, types)
            for row, best in zip(rows, answers, strict=True):
                results[row] = best[: queries[row].top]
        return [results[row] for row in range(len(queries))]
