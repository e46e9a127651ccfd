"""Layouts of the map are computed once, outlive their requests, and are saved with the run."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import time
from functools import partial

import httpx
import numpy as np
import pytest
from tests.server.serving import serving

import fivestar
from fivestar.analysis.tsne import project
from fivestar.runs.manifest import verified_files
from fivestar.runs.run import CACHE, save_run
from fivestar.server.background import Background, map_methods, saved_projection
from fivestar.server.settings import Limits, ServerSettings

ROWS = np.random.default_rng(0).normal(size=(20, 4))


class Projection:
    """Counts how often it is called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, rows, seed):
        self.calls += 1
        return rows[:, :2] + seed


def test_points_are_saved_and_loaded(tmp_path):
    projection = Projection()
    first = saved_projection(ROWS, 0, tmp_path, projection)
    again = saved_projection(ROWS, 0, tmp_path, projection)
    assert projection.calls == 1
    assert np.array_equal(first, again)
    # Other embeddings and another seed have other points.
    saved_projection(ROWS, 1, tmp_path, projection)
    saved_projection(ROWS + 1, 0, tmp_path, projection)
    assert projection.calls == 3
    assert len(list((tmp_path / "cache").iterdir())) == 3


@pytest.mark.parametrize("damage", ["text", "shape", "nan", "large"])
def test_damaged_points_are_computed_again(tmp_path, damage):
    projection = Projection()
    expected = saved_projection(ROWS, 0, tmp_path, projection)
    (path,) = (tmp_path / "cache").iterdir()
    if damage == "text":
        path.write_text("not an array")
    else:
        content = {
            "shape": expected[:5],
            "nan": expected * np.nan,
            "large": np.zeros((100_000, 2)),
        }[damage]
        np.save(path, content)
    assert np.array_equal(saved_projection(ROWS, 0, tmp_path, projection), expected)
    assert projection.calls == 2
    assert np.array_equal(np.load(path), expected)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    projection = Projection()
    for _ in range(2):
        assert len(saved_projection(ROWS, 0, tmp_path, projection)) == 20
    assert projection.calls == 2


def test_methods_depend_on_what_is_installed(monkeypatch):
    assert map_methods() == ["pca", "tsne"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert map_methods() == ["pca"]


def test_a_computation_outlives_its_request():
    calls = []

    async def requests():
        work, finish = Background(patience=0.2), asyncio.Event()

        async def compute():
            calls.append("start")
            await finish.wait()
            return "result"

        assert await work.run("key", compute) is None
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work.run("key", compute), 0.001)
        finish.set()
        # Both wait for the one that is still running.
        assert await asyncio.gather(*(work.run("key", compute) for _ in range(2))) == ["result"] * 2
        assert calls == ["start"]
        assert await work.run("key", compute) == "result"
        assert calls == ["start"] * 2

    asyncio.run(requests())


def test_only_a_few_computations_outlive_their_requests():
    done = []

    async def compute(number):
        await asyncio.sleep(0.05)
        done.append(number)

    async def requests():
        work = Background(patience=5)
        waiting = [
            asyncio.create_task(work.run(number, partial(compute, number))) for number in range(6)
        ]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        await asyncio.sleep(0.2)

    asyncio.run(requests())
    assert done == [0, 1, 2, 3]


def test_a_failure_is_not_kept():
    async def fail():
        raise ValueError("once")

    async def succeed():
        return "result"

    async def requests():
        work = Background(patience=5)
        with pytest.raises(ValueError, match="once"):
            await work.run("key", fail)
        assert await work.run("key", succeed) == "result"

    asyncio.run(requests())


def test_map_is_there_later_and_after_a_restart(served_runs, tmp_path, monkeypatch):
    """A request does not wait for the layout; the saved one does not change the run."""
    folder = tmp_path / "run"
    shutil.copytree(served_runs[0], folder, ignore=shutil.ignore_patterns("cache"))
    calls = []

    def slow(rows, seed):
        calls.append(len(rows))
        time.sleep(1.0)
        return project(rows[:, :8], seed)

    monkeypatch.setattr(saved_projection, "__defaults__", (slow,))
    query = {"method": "tsne", "limit": 30}
    settings = ServerSettings(runs=[folder], limits=Limits(seconds=0.5))
    with serving(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
        first = client.get("/api/map", params=query)
        assert (first.status_code, first.json()) == (202, {"run": "run", "status": "running"})
        # Others are answered meanwhile.
        assert client.get("/api/map", params={"method": "pca", "limit": 30}).status_code == 200
        for _ in range(100):
            found = client.get("/api/map", params=query)
            if found.status_code == 200:
                break
        assert len(found.json()["points"]) == 30
    assert calls == [30]
    assert CACHE in {path.name for path in folder.iterdir()}
    fivestar.load(folder)  # its manifest is intact
    with serving(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
        again = client.get("/api/map", params=query)
        assert again.json()["points"] == found.json()["points"]
    assert calls == [30]


def test_manifest_of_a_resumed_run_does_not_list_layouts(tmp_path):
    facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    run = fivestar.train(facts, dim=2, epochs=1, out=tmp_path / "run")
    saved_projection(ROWS, 0, tmp_path / "run", Projection())
    save_run(run, tmp_path / "run")
    assert not any("cache" in name for name in verified_files(tmp_path / "run"))
