"""What a server has done so far, for Prometheus; several workers count in one file.

Whichever worker is asked tells the sum, so figures do not jump between workers. Each counts in a
row of its own, so nobody waits for anybody; a worker that is started anew takes a new row.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fivestar.files import file_lock

# Upper ends of how long requests take, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STATUSES = (200, 304, 400, 401, 404, 405, 409, 413, 415, 422, 500, 501, 503, 504)
_OTHER = "other"
# Workers that can have counted in one file, those that ended included.
_ROWS = 1024


class Counters:
    """Requests by route and status, how long they took, and how questions were batched."""

    def __init__(self, routes: Sequence[str], file: Path | None = None) -> None:
        self._routes = {route: place for place, route in enumerate([*routes, _OTHER])}
        self._statuses = {status: place for place, status in enumerate([*_STATUSES, 0])}
        by_status = len(self._routes) * len(self._statuses)
        by_time = len(self._routes) * (len(_BUCKETS) + 1)
        # Requests, durations, sum of seconds by route, then: questions, batches, running.
        self._shape = (by_status, by_time, len(self._routes), 3)
        self._table = _table(sum(self._shape), file)
        self._own = self._table[_claim(file)]
        # Routes are counted on the event loop, batches on a thread.
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A request has come."""
        with self._lock:
            self._own[-1] += 1

    def end(self, route: str | None, status: int, seconds: float) -> None:
        """It has been answered."""
        where = self._routes.get(route or _OTHER, self._routes[_OTHER])
        which = self._statuses.get(status, self._statuses[0])
        slot = int(np.searchsorted(_BUCKETS, seconds))
        requests, times, seconds_sum, _ = self._parts(self._own)
        with self._lock:
            requests[where, which] += 1
            times[where, slot] += 1
            seconds_sum[where] += seconds
            self._own[-1] -= 1

    def count_batch(self, questions: int) -> None:
        """So many questions have been answered together."""
        with self._lock:
            self._own[-3] += questions
            self._own[-2] += 1

    def text(self) -> str:
        """Everything so far, in the text format of Prometheus."""
        requests, times, seconds, rest = self._parts(self._table.sum(axis=0))
        lines = _head("requests_total", "counter", "Requests by route and status.")
        for route, where in self._routes.items():
            for status, which in self._statuses.items():
                if count := requests[where, which]:
                    labels = f'route="{route}",status="{status or _OTHER}"'
                    lines.append(f"fivestar_requests_total{{{labels}}} {count:.0f}")
        lines += _head("request_seconds", "histogram", "How long requests took.")
        for route, where in self._routes.items():
            if not times[where].any():
                continue
            so_far = np.cumsum(times[where])
            for end, count in zip([*_BUCKETS, "+Inf"], so_far, strict=True):
                labels = f'route="{route}",le="{end}"'
                lines.append(f"fivestar_request_seconds_bucket{{{labels}}} {count:.0f}")
            lines.append(f'fivestar_request_seconds_sum{{route="{route}"}} {seconds[where]:.6f}')
            lines.append(f'fivestar_request_seconds_count{{route="{route}"}} {so_far[-1]:.0f}')
        for name, kind, what, value in (
            ("questions_total", "counter", "Questions answered.", rest[0]),
            ("batches_total", "counter", "Batches they were answered in.", rest[1]),
            ("requests_running", "gauge", "Requests that are being answered.", rest[2]),
        ):
            lines += [*_head(name, kind, what), f"fivestar_{name} {value:.0f}"]
        return "\n".join(lines) + "\n"

    def _parts(self, row: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        requests, times, seconds, rest = np.split(row, np.cumsum(self._shape[:-1]))
        routes = len(self._routes)
        return [requests.reshape(routes, -1), times.reshape(routes, -1), seconds, rest]


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP fivestar_{name} {what}", f"# TYPE fivestar_{name} {kind}"]


def _table(width: int, file: Path | None) -> npt.NDArray[np.float64]:
    if file is None:
        return np.zeros((1, width))
    with file_lock(file.with_suffix(".lock")), file.open("a+b") as opened:
        opened.truncate(_ROWS * width * 8)  # a file with a hole takes no room
    return np.memmap(file, np.float64, "r+", shape=(_ROWS, width))


def _claim(file: Path | None) -> int:
    """The next row that nobody has."""
    if file is None:
        return 0
    with file_lock(file.with_suffix(".lock")), file.with_suffix(".rows").open("ab") as claims:
        claims.write(b".")
        claims.flush()
        return (claims.tell() - 1) % _ROWS
