"""Computations that outlive the request that started them, and a cache of layouts on disk."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import io
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fivestar.analysis.tsne import Points, project_in_process
from fivestar.errors import OutputError
from fivestar.files import make_folder, write_atomic
from fivestar.runs.run import CACHE

T = TypeVar("T")
# Computations that may outlive their requests at a time.
_MAX_TASKS = 4


class Background:
    """Runs each computation once, for any number of requests.

    A request waits for it for a while. If it is not done by then, or the client has left, it
    continues, and a later request gets the result. This holds for a few computations at a time;
    further ones end with their requests, so that nobody can leave much work behind.

    Args:
        patience: seconds that a request waits.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Return the result of the computation of a key; None if it is still running."""
        task = self._tasks.get(key)
        if task is None and len(self._tasks) >= _MAX_TASKS:
            return await start()
        if task is None:
            task = self._tasks[key] = asyncio.create_task(start())
            task.add_done_callback(lambda done: self._forget(key, done))
        done, _ = await asyncio.wait({task}, timeout=self._patience)
        return task.result() if done else None

    def _forget(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # nobody may wait for it any more; the next request tries again


def map_methods() -> list[str]:
    """Return the methods that can lay out a map here: t-SNE needs scikit-learn."""
    return ["pca", *(["tsne"] if importlib.util.find_spec("sklearn") else [])]


def saved_projection(
    rows: Points,
    seed: int,
    folder: Path | None,
    project: Callable[[Points, int], Points] = project_in_process,
) -> Points:
    """Project rows (n, D) to points (n, 2) by t-SNE, or load the points from the folder of a run.

    Args:
        rows: the embeddings.
        seed: the seed of t-SNE.
        folder: the folder of the run. If it can be written, the points are saved there; None: they
            are not.
        project: computes the t-SNE of rows with a seed.

    Returns:
        The points.
    """
    if folder is None:
        return project(rows, seed)
    digest = hashlib.sha256(f"{rows.shape} {seed}".encode())
    digest.update(np.ascontiguousarray(rows, np.float32).tobytes())
    path = folder / CACHE / f"tsne-{digest.hexdigest()[:24]}.npy"
    if (points := _load(path, len(rows))) is not None:
        return points
    points = project(rows, seed)
    buffer = io.BytesIO()
    np.save(buffer, points, allow_pickle=False)
    with suppress(OutputError):  # the folder is read-only: the cache in memory has it
        make_folder(path.parent)
        write_atomic(path, buffer.getvalue())
    return points


def _load(path: Path, count: int) -> Points | None:
    """Return saved points; None if there are none, or they are damaged."""
    with suppress(OSError, ValueError):
        if path.stat().st_size > 1000 + 16 * count:
            return None
        points = np.load(path, allow_pickle=False)
        if points.shape == (count, 2) and points.dtype == np.float64 and np.isfinite(points).all():
            return np.array(points)
    return None
