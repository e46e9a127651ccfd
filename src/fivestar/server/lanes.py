"""Where work waits for its turn: matrix products in one lane, slower requests in another.

Everything of a lane runs on threads of its own, and a lane that is full refuses more at once.
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
from fivestar.prediction.predictions import Prediction
from fivestar.prediction.trained_model import TrainedModel
from fivestar.server.counters import Counters
from fivestar.server.problems import busy

# Whoever wants more answers than this does not make others wait for theirs to be named.
_MANY = 100

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """A thread that does one thing after the other, and so many that may wait for it."""

    def __init__(self, name: str, most_waiting: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._most = most_waiting
        self._waiting = 0

    async def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of some work, once it is its turn."""
        if self._waiting >= self._most:
            raise busy(f"{self._waiting} requests are waiting already")
        self._waiting += 1
        try:
            future = self._pool.submit(work, *args, **kwargs)
            return await asyncio.wrap_future(future)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let go of the thread when it has done what it is doing."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Asked:
    """A question by ids, −1 for the open slot, and what answers are wanted."""

    numbers: tuple[int, int, int]
    top: int
    which: Which
    types: tuple[str, ...]


class Batcher:
    """Answers all questions that wait, together: while one product runs, the next fills.

    There is no delay: a lone question is answered at once.
    """

    def __init__(
        self, predictor: TrainedModel, lane: Lane, most_waiting: int, counters: Counters
    ) -> None:
        self._predictor = predictor
        self._lane = lane
        self._most = most_waiting
        self._counters = counters
        self._waiting: list[tuple[Asked, asyncio.Future[list[Prediction]]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def answer(self, questions: list[Asked]) -> list[list[Prediction]]:
        """The answers to each question."""
        if len(self._waiting) + len(questions) > self._most:
            raise busy(f"{len(self._waiting)} questions are waiting already")
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in questions]
        self._waiting += zip(questions, futures, strict=True)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        return list(await asyncio.gather(*futures))

    async def _work(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:BATCH_SIZE], self._waiting[BATCH_SIZE:]
            # Whoever has gone away meanwhile needs no answer.
            some = [(asked, future) for asked, future in some if not future.done()]
            try:
                found = await self._lane.do(self._together, [asked for asked, _ in some])
            except Exception as error:
                for _, future in some:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answers in zip(some, found, strict=True):
                if not future.done():
                    future.set_result(answers)

    def _together(self, questions: list[Asked]) -> list[list[Prediction]]:
        """One product for all that want the same kind of answers."""
        self._counters.count_batch(len(questions))

        def kind(place: int) -> tuple[Which, tuple[str, ...], bool]:
            asked = questions[place]
            return asked.which, asked.types, asked.top > _MANY

        found: dict[int, list[Prediction]] = {}
        for (which, types, _), group in groupby(sorted(range(len(questions)), key=kind), key=kind):
            places = list(group)
            numbers = np.array([questions[place].numbers for place in places])
            top = max(questions[place].top for place in places)
            answers = self._predictor.predict_ids(numbers, top, which, types)
            for place, best in zip(places, answers, strict=True):
                found[place] = best[: questions[place].top]
        return [found[place] for place in range(len(questions))]
