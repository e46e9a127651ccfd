"""Queues are bounded, and queued queries are answered in one batch."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fivestar.prediction.predictions import Prediction
from fivestar.server.batching import BatchedQuery, Batcher, Worker
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem


class Slow:
    """Answers with the query itself, once released."""

    def __init__(self):
        self.go = threading.Event()
        self.batches = []

    def predict_ids(self, numbers, top, which, types):
        self.go.wait(10)
        self.batches.append((len(numbers), top, which, types))
        if (numbers == 1313).any():
            raise ValueError("thirteen")
        return [
            [Prediction(at + 1, str(row[0]), "", 0.0, None, None) for at in range(top)]
            for row in numbers
        ]


def query(head, top=2, which="all", types=()):
    return BatchedQuery((head, 0, -1), top, which, types)


async def until_all_are_queued():
    for _ in range(5):
        await asyncio.sleep(0.01)


def batcher(slow, most=100):
    return Batcher(slow, Worker("test", 10), most, Metrics([]))


def test_queued_queries_are_answered_together():
    async def work():
        slow = Slow()
        one = batcher(slow)
        first = asyncio.create_task(one.predict([query(0)]))
        await until_all_are_queued()
        others = [asyncio.create_task(one.predict([query(n, 1 + n % 3)])) for n in range(1, 30)]
        apart = asyncio.create_task(one.predict([query(99, which="new"), query(98, top=500)]))
        await until_all_are_queued()
        slow.go.set()
        assert [answer.id for answer in (await first)[0]] == ["0", "0"]
        for n, other in enumerate(others, start=1):
            ((*answers,),) = await other
            assert [answer.id for answer in answers] == [str(n)] * (1 + n % 3)
        new, many = await apart
        assert (len(new), len(many)) == (2, 500)
        return slow.batches

    assert asyncio.run(work()) == [
        (1, 2, "all", ()),
        (29, 3, "all", ()),
        (1, 500, "all", ()),
        (1, 2, "new", ()),
    ]


def test_disconnected_clients_are_skipped():
    async def work():
        slow = Slow()
        one = batcher(slow)
        tasks = [asyncio.create_task(one.predict([query(n)])) for n in range(1)]
        await until_all_are_queued()
        tasks += [asyncio.create_task(one.predict([query(n)])) for n in range(1, 5)]
        await until_all_are_queued()
        for task in tasks[1:4]:
            task.cancel()
        await until_all_are_queued()
        slow.go.set()
        assert [answer.id for answer in (await tasks[4])[0]] == ["4", "4"]
        return [count for count, *_ in slow.batches]

    assert asyncio.run(work()) == [1, 1]


def test_overload_is_rejected_and_errors_reach_all():
    async def work():
        slow = Slow()
        one = batcher(slow, most=3)
        first = asyncio.create_task(one.predict([query(0)]))
        await until_all_are_queued()
        waiting = [asyncio.create_task(one.predict([query(n)])) for n in (12, 1313, 14)]
        await until_all_are_queued()
        with pytest.raises(Problem, match="3 queries are queued") as refused:
            await one.predict([query(15)])
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        slow.go.set()
        await first
        for each in waiting:
            with pytest.raises(ValueError, match="thirteen"):
                await each
        # And it goes on.
        assert len((await one.predict([query(1)]))[0]) == 2

    asyncio.run(work())


def test_a_full_worker_rejects_requests():
    async def work():
        go = threading.Event()
        worker = Worker("test", 2)
        two = [asyncio.create_task(worker.run(go.wait, 10)) for _ in range(2)]
        await until_all_are_queued()
        with pytest.raises(Problem, match="2 requests are queued"):
            await worker.run(print)
        go.set()
        assert await asyncio.gather(*two) == [True, True]
        assert await worker.run(lambda: 3) == 3
        worker.close()

    asyncio.run(work())
