"""Work waits for its turn, only so much of it, and questions that wait are answered together."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fivestar.prediction.predictions import Prediction
from fivestar.server.counters import Counters
from fivestar.server.lanes import Asked, Batcher, Lane
from fivestar.server.problems import Problem


class Slow:
    """Answers with the question itself, once it is let go."""

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


def asked(head, top=2, which="all", types=()):
    return Asked((head, 0, -1), top, which, types)


async def until_all_wait():
    for _ in range(5):
        await asyncio.sleep(0.01)


def batcher(slow, most=100):
    return Batcher(slow, Lane("test", 10), most, Counters([]))


def test_those_who_wait_are_answered_together():
    async def work():
        slow = Slow()
        one = batcher(slow)
        first = asyncio.create_task(one.answer([asked(0)]))
        await until_all_wait()
        others = [asyncio.create_task(one.answer([asked(n, 1 + n % 3)])) for n in range(1, 30)]
        apart = asyncio.create_task(one.answer([asked(99, which="new"), asked(98, top=500)]))
        await until_all_wait()
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


def test_whoever_went_away_is_not_answered():
    async def work():
        slow = Slow()
        one = batcher(slow)
        tasks = [asyncio.create_task(one.answer([asked(n)])) for n in range(1)]
        await until_all_wait()
        tasks += [asyncio.create_task(one.answer([asked(n)])) for n in range(1, 5)]
        await until_all_wait()
        for task in tasks[1:4]:
            task.cancel()
        await until_all_wait()
        slow.go.set()
        assert [answer.id for answer in (await tasks[4])[0]] == ["4", "4"]
        return [count for count, *_ in slow.batches]

    assert asyncio.run(work()) == [1, 1]


def test_too_many_are_refused_and_an_error_reaches_all():
    async def work():
        slow = Slow()
        one = batcher(slow, most=3)
        first = asyncio.create_task(one.answer([asked(0)]))
        await until_all_wait()
        waiting = [asyncio.create_task(one.answer([asked(n)])) for n in (12, 1313, 14)]
        await until_all_wait()
        with pytest.raises(Problem, match="3 questions are waiting") as refused:
            await one.answer([asked(15)])
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "1"})
        slow.go.set()
        await first
        for each in waiting:
            with pytest.raises(ValueError, match="thirteen"):
                await each
        # And it goes on.
        assert len((await one.answer([asked(1)]))[0]) == 2

    asyncio.run(work())


def test_a_full_lane():
    async def work():
        go = threading.Event()
        lane = Lane("test", 2)
        two = [asyncio.create_task(lane.do(go.wait, 10)) for _ in range(2)]
        await until_all_wait()
        with pytest.raises(Problem, match="2 requests are waiting"):
            await lane.do(print)
        go.set()
        assert await asyncio.gather(*two) == [True, True]
        assert await lane.do(lambda: 3) == 3
        lane.close()

    asyncio.run(work())
