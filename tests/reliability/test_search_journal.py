"""The journal of a search survives killed processes, and damage is reported."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
from itertools import count
from types import SimpleNamespace

import optuna
import pytest
from tests.graphs import people_graph

from fivestar.errors import DamagedRun, FivestarError, OutputError
from fivestar.runs.settings import make_settings
from fivestar.training.search.journal import Journal
from fivestar.training.search.space import Space
from fivestar.training.search.study import Search
from fivestar.training.search.trials import Plan

SPACE = Space("two", {"training.lr": (0.03, 0.1, 0.3), "training.reg_weight": (0.01, 0.1)})
WATCHER = SimpleNamespace(begins=lambda *_: (lambda _: None, lambda _: None), ended=lambda _: None)


def search(storage, trials=2):
    training = {"epochs": 1, "evaluate_every": 1, "batch_size": 50, "threads": 1}
    base = make_settings({"model": {"dim": 2}, "training": training})
    return Search(Plan(people_graph(), base, SPACE, trials, pruner="none"), storage)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The journal of a search of two trials."""
    path = tmp_path_factory.mktemp("journal") / "study"
    search(path).run(WATCHER)
    return path.read_bytes()


def test_a_search_continues_wherever_its_journal_was_cut_off(complete, tmp_path):
    lines = complete.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    for number, start in enumerate(starts):
        path = tmp_path / f"study-{number}"
        path.write_bytes(complete[: start + number * 7 % len(lines[number])])
        again = search(path)
        if number % 5 == 0:  # each trains up to two models
            again.run(WATCHER)
            assert [tried.state for tried in again.tried()] == ["complete"] * 2
        assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_line_is_not_appended_to_a_part_of_another(tmp_path):
    path = tmp_path / "journal"
    one, two = (Journal(path, optuna) for _ in range(2))
    one.append_logs([{"n": 1}, {"n": 2}])
    with path.open("ab") as file:
        file.write(b'{"n": 3, "te')  # another process, killed within a line
    assert [*one.read_logs(0)] == [{"n": 1}, {"n": 2}]
    two.append_logs([{"n": 4}])
    for journal in (one, two):
        assert [*journal.read_logs(0)] == [{"n": 1}, {"n": 2}, {"n": 4}]


def test_a_failed_sync_ends_a_search_that_then_continues(complete, tmp_path, monkeypatch):
    sync = os.fsync
    for number in range(complete.count(b"\n")):
        calls = count()

        def failing_sync(descriptor, calls=calls, number=number):
            sync(descriptor)
            if next(calls) == number:  # the line is written, but the disk reports an error
                raise OSError(errno.EIO, "Input/output error")

        path = tmp_path / f"study-{number}"
        with monkeypatch.context() as patched, contextlib.suppress(OutputError):
            patched.setattr("fivestar.training.search.journal.os.fsync", failing_sync)
            search(path).run(WATCHER)
        again = search(path)
        again.run(WATCHER)
        assert [tried.state for tried in again.tried()] == ["complete"] * 2


def damaged(content, rng):
    lines = content.splitlines(keepends=True)
    number = rng.randrange(len(lines) - 1)
    kind = rng.choice(("remove", "noise", "flip", "value", "twice", "swap"))
    if kind == "remove":
        lines.pop(number)
    elif kind == "noise":
        lines[number] = rng.randbytes(len(lines[number]))
    elif kind == "flip":
        line = bytearray(lines[number])
        line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
        lines[number] = bytes(line)
    elif kind == "value":
        entry = json.loads(lines[number])
        entry[rng.choice([*entry])] = rng.choice((None, -1, "x", [], {}, 1e999, 10**30))
        lines[number] = json.dumps(entry).encode() + b"\n"
    elif kind == "twice":
        lines.insert(number, lines[number])
    else:
        lines[number], lines[number + 1] = lines[number + 1], lines[number]
    return b"".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_journal_is_read_or_refused(complete, tmp_path, seed):
    rng, refused = random.Random(seed), 0  # noqa: S311
    for number in range(100):
        path = tmp_path / f"study-{number}"
        path.write_bytes(damaged(complete, rng))
        try:
            search(path).best()
        except FivestarError:
            refused += 1
    assert refused


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "study"
    path.write_text("head\trelation\ttail\n" * 3)
    with pytest.raises(DamagedRun, match="move it away"):
        search(path)
