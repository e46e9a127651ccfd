"""Prometheus metrics; several worker processes share one memory-mapped file.

Each worker counts in a row of its own, without locks, and reports the sum over all rows, so
counters do not depend on which worker answers. A restarted worker takes a new row.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fivestar.files import file_lock

# Histogram buckets: upper bounds of request durations in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# The same of the number of queries per batch.
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_STATUSES = (200, 304, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 501, 503, 504)
_OTHER = "other"
# Rows of the file: workers, including those that have exited.
_MAX_WORKERS = 1024


class Metrics:
    """Requests by route and status, request durations, and batch sizes."""

    def __init__(self, routes: Sequence[str], file: Path | None = None) -> None:
        self._routes = {route: row for row, route in enumerate([*routes, _OTHER])}
        self._statuses = {status: column for column, status in enumerate([*_STATUSES, 0])}
        num_statuses = len(self._routes) * len(self._statuses)
        num_buckets = len(self._routes) * (len(_BUCKETS) + 1)
        # Requests, durations and sum of seconds per route, batch sizes, then: queries, reloads that
        # succeeded and failed, folded-in entities, requests in progress.
        self._shape = (num_statuses, num_buckets, len(self._routes), len(_BATCH_SIZES) + 1, 5)
        self._table = _table(sum(self._shape), file)
        self._own = self._table[_claim_row(file)]
        self._requests, self._times, self._seconds, self._batches, self._rest = self._parts(
            self._own
        )
        # Requests are counted on the event loop, batches on a worker thread.
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Count a request that starts."""
        with self._lock:
            self._own[-1] += 1

    def end(self, route: str | None, status: int, seconds: float) -> None:
        """Count a request that ends."""
        row = self._routes.get(route or _OTHER, self._routes[_OTHER])
        column = self._statuses.get(status, self._statuses[0])
        bucket = bisect_left(_BUCKETS, seconds)
        with self._lock:
            self._requests[row, column] += 1
            self._times[row, bucket] += 1
            self._seconds[row] += seconds
            self._own[-1] -= 1

    def count_batch(self, queries: int) -> None:
        """Count a batch of queries."""
        with self._lock:
            self._rest[0] += queries
            self._batches[bisect_left(_BATCH_SIZES, queries)] += 1

    def count_reload(self, *, succeeded: bool) -> None:
        """Count an attempt to load a new version of a run."""
        with self._lock:
            self._rest[1 if succeeded else 2] += 1

    def count_folded_in(self, entities: int) -> None:
        """Count new entities."""
        with self._lock:
            self._rest[3] += entities

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        requests, times, seconds, batches, rest = self._parts(self._table.sum(axis=0))
        lines = _head("requests_total", "counter", "Requests by route and status.")
        for route, row in self._routes.items():
            for status, column in self._statuses.items():
                if count := requests[row, column]:
                    labels = f'route="{route}",status="{status or _OTHER}"'
                    lines.append(f"fivestar_requests_total{{{labels}}} {count:.0f}")
        lines += _head("request_duration_seconds", "histogram", "Request duration.")
        for route, row in self._routes.items():
            if not times[row].any():
                continue
            cumulative = np.cumsum(times[row])
            name = "fivestar_request_duration_seconds"
            for end, count in zip([*_BUCKETS, "+Inf"], cumulative, strict=True):
                labels = f'route="{route}",le="{end}"'
                lines.append(f"{name}_bucket{{{labels}}} {count:.0f}")
            lines.append(f'{name}_sum{{route="{route}"}} {seconds[row]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {cumulative[-1]:.0f}')
        for name, kind, help_text, value in (
            ("queries_total", "counter", "Queries answered.", rest[0]),
            ("batches_total", "counter", "Batches of queries.", batches.sum()),
            ("folded_in_entities_total", "counter", "Entities added by fold-in.", rest[3]),
            ("requests_in_progress", "gauge", "Requests in progress.", rest[4]),
        ):
            lines += [*_head(name, kind, help_text), f"fivestar_{name} {value:.0f}"]
        lines += _head("batch_size", "histogram", "Queries per batch.")
        cumulative = np.cumsum(batches)
        for end, count in zip([*_BATCH_SIZES, "+Inf"], cumulative, strict=True):
            lines.append(f'fivestar_batch_size_bucket{{le="{end}"}} {count:.0f}')
        lines.append(f"fivestar_batch_size_sum {rest[0]:.0f}")
        lines.append(f"fivestar_batch_size_count {cumulative[-1]:.0f}")
        lines += _head("run_reloads_total", "counter", "New versions of runs by result.")
        for result, count in (("loaded", rest[1]), ("failed", rest[2])):
            lines.append(f'fivestar_run_reloads_total{{result="{result}"}} {count:.0f}')
        return "\n".join(lines) + "\n"

    def _parts(self, row: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        requests, times, *rest = np.split(row, np.cumsum(self._shape[:-1]))
        routes = len(self._routes)
        return [requests.reshape(routes, -1), times.reshape(routes, -1), *rest]


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP fivestar_{name} {help_text}", f"# TYPE fivestar_{name} {kind}"]


def _table(width: int, file: Path | None) -> npt.NDArray[np.float64]:
    if file is None:
        return np.zeros((1, width))
    with file_lock(file.with_suffix(".lock")), file.open("a+b") as opened:
        opened.truncate(_MAX_WORKERS * width * 8)  # sparse: takes no disk space
    return np.memmap(file, np.float64, "r+", shape=(_MAX_WORKERS, width))


def _claim_row(file: Path | None) -> int:
    """Return the next free row."""
    if file is None:
        return 0
    with file_lock(file.with_suffix(".lock")), file.with_suffix(".rows").open("ab") as claims:
        claims.write(b".")
        claims.flush()
        return (claims.tell() - 1) % _MAX_WORKERS
