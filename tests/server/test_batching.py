"""Queued queries are answered in one batch; lanes are bounded, fair, and stop what has ended."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from fivestar.cancellation import check_cancelled
from fivestar.prediction.predictions import Prediction
from fivestar.server.batching import BATCH_WORK, BatchedQuery, Batcher
from fivestar.server.lanes import FairQueue, Lane, RequestContext, request_context
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem


class Slow:
    """Answers with the query itself, once released."""

    def __init__(self):
        self.go = threading.Event()
        self.stopped = threading.Event()
        self.batches = []

    def predict_ids(self, numbers, top, which, types):
        while not self.go.wait(0.01):
            try:
                check_cancelled()
            except Exception:
                self.stopped.set()
                raise
        self.batches.append((len(numbers), top, which, types))
        if (numbers == 1313).any():
            raise ValueError("thirteen")
        return [
            [Prediction(at + 1, str(row[0]), "", 0.0, None, None, "new") for at in range(top)]
            for row in numbers
        ]


def query(head, top=2, which="all", types=()):
    return BatchedQuery((head, 0, -1), top, which, types)


async def until_all_are_queued():
    for _ in range(5):
        await asyncio.sleep(0.01)


def batcher(slow, most=100):
    return Batcher(slow, Lane("test", 10), most, Metrics([]), lambda _, answers: answers)


def ask(one, *queries, work=1.0, client=""):
    """Start a request of a client."""

    async def send():
        request_context.set(RequestContext(client))
        return await one.predict(list(queries), [work] * len(queries))

    return asyncio.create_task(send())


def test_queued_queries_are_answered_together():
    async def work():
        slow = Slow()
        one = batcher(slow)
        first = ask(one, query(0))
        await until_all_are_queued()
        others = [ask(one, query(n, 1 + n % 3)) for n in range(1, 30)]
        apart = ask(one, query(99, which="new"), query(98, top=500))
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
        tasks = [ask(one, query(0))]
        await until_all_are_queued()
        tasks += [ask(one, query(n)) for n in range(1, 5)]
        await until_all_are_queued()
        for task in tasks[1:4]:
            task.cancel()
        await until_all_are_queued()
        slow.go.set()
        assert [answer.id for answer in (await tasks[4])[0]] == ["4", "4"]
        return [count for count, *_ in slow.batches]

    assert asyncio.run(work()) == [1, 1]


def test_a_batch_that_nobody_waits_for_stops():
    async def work():
        slow = Slow()
        one = batcher(slow)
        task = ask(one, query(0), query(1))
        await until_all_are_queued()
        task.cancel()
        assert await asyncio.to_thread(slow.stopped.wait, 10)
        slow.go.set()
        assert len(await ask(one, query(2))) == 1
        return [count for count, *_ in slow.batches]

    assert asyncio.run(work()) == [1]


def test_a_request_of_many_queries_does_not_delay_others():
    async def work():
        slow = Slow()
        one = batcher(slow, most=100 * BATCH_WORK)
        huge = ask(one, *(query(n) for n in range(20)), work=BATCH_WORK, client="rude")
        await until_all_are_queued()
        small = ask(one, query(99), client="polite")
        again = ask(one, query(98), client="rude")
        await until_all_are_queued()
        slow.go.set()
        await small
        await again
        assert not huge.done()
        batches = len(slow.batches)
        await huge
        return batches

    # The batch that was running, one with the query of the other client, one with its own.
    assert asyncio.run(work()) <= 4


def test_overload_is_rejected_and_errors_reach_all():
    async def work():
        slow = Slow()
        one = batcher(slow, most=3)
        first = ask(one, query(0))
        await until_all_are_queued()
        waiting = [ask(one, query(n), client=str(n)) for n in (12, 1313, 14)]
        await until_all_are_queued()
        with pytest.raises(Problem, match="the queue is full") as refused:
            await ask(one, query(15))
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        with pytest.raises(Problem, match="this client") as refused:
            await ask(one, query(15), client="12")
        assert (refused.value.status_code, refused.value.code) == (429, "too-many-requests")
        slow.go.set()
        await first
        for each in waiting:
            with pytest.raises(ValueError, match="thirteen"):
                await each
        # And it goes on.
        assert len((await ask(one, query(1)))[0]) == 2

    asyncio.run(work())


def test_a_full_lane_rejects_requests():
    async def work():
        go = threading.Event()
        lane = Lane("test", 2)
        tasks = []
        for client in "abc":  # one runs, two wait
            request_context.set(RequestContext(client))
            tasks.append(asyncio.create_task(lane.run(go.wait, 10)))
        await until_all_are_queued()
        request_context.set(RequestContext("d"))
        with pytest.raises(Problem, match="the queue is full"):
            await lane.run(print)
        go.set()
        assert await asyncio.gather(*tasks) == [True, True, True]
        assert await lane.run(lambda: 3) == 3
        lane.close()

    asyncio.run(work())


def test_a_cancelled_job_keeps_its_lane_until_it_stops():
    async def work():
        begun, go, ended = (threading.Event() for _ in range(3))

        def job():
            begun.set()
            go.wait(10)
            ended.set()
            check_cancelled()
            raise AssertionError("it was not cancelled")

        lane = Lane("test", 10)
        task = asyncio.create_task(lane.run(job))
        assert await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        after = asyncio.create_task(lane.run(ended.is_set))
        await until_all_are_queued()
        assert not after.done()
        go.set()
        assert await after
        lane.close()

    asyncio.run(work())


def test_a_fair_queue_serves_equal_work():
    queue = FairQueue(1e9)
    queue.push("rude", [(("rude", n), 4.0) for n in range(100)])
    queue.push("rude", [(("rude again", n), 4.0) for n in range(100)])
    queue.push("polite", [(("polite", n), 1.0) for n in range(100)])
    order = [queue.pop()[0][0] for _ in range(60)]
    work = {name: order.count(name) for name in ("rude", "rude again", "polite")}
    assert abs(4 * (work["rude"] + work["rude again"]) - work["polite"]) <= 4
    assert abs(work["rude"] - work["rude again"]) <= 1
    late = queue.push("late", [("late", 1.0)])
    assert "late" in [queue.pop()[0] for _ in range(3)]
    queue.remove(late)
    while queue.pop() is not None:
        pass
    assert queue.waiting == pytest.approx(0)


def test_a_batch_waits_for_the_requests_that_follow_the_last_one():
    """Clients that answer at once share the next batch, though the first of them comes early."""

    async def work():
        slow = Slow()
        slow.go.set()
        one = batcher(slow)
        one._expected, one._wait_until = 3, time.monotonic() + 10
        first = ask(one, query(1))
        await until_all_are_queued()
        assert not slow.batches
        await asyncio.gather(first, ask(one, query(2)), ask(one, query(3)))
        # Nobody else comes: it waits no longer than the window.
        one._expected, one._wait_until = 3, time.monotonic() + 0.02
        await ask(one, query(4))
        # Nor after the window.
        one._expected, one._wait_until = 3, time.monotonic() - 1
        await ask(one, query(5))
        return [count for count, *_ in slow.batches], one._pending

    assert asyncio.run(work()) == ([3, 1, 1], set())
