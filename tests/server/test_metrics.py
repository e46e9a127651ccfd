"""Metrics of one worker, and of several that share a file."""

from __future__ import annotations

from fivestar.server.metrics import Metrics


def value(text, line):
    (found,) = [x.rsplit(" ", 1)[1] for x in text.splitlines() if x.startswith(line + " ")]
    return float(found)


def test_one_worker():
    metrics = Metrics(["/a", "/b"])
    for route, status, seconds in (("/a", 200, 0.0005), ("/a", 200, 0.3), ("/c", 418, 99.0)):
        metrics.begin()
        metrics.end(route, status, seconds)
    metrics.begin()
    metrics.count_batch(7)
    text = metrics.text()
    assert value(text, 'fivestar_requests_total{route="/a",status="200"}') == 2
    assert value(text, 'fivestar_requests_total{route="other",status="other"}') == 1
    assert value(text, 'fivestar_request_duration_seconds_bucket{route="/a",le="0.001"}') == 1
    assert value(text, 'fivestar_request_duration_seconds_bucket{route="/a",le="0.5"}') == 2
    assert value(text, 'fivestar_request_duration_seconds_bucket{route="other",le="10.0"}') == 0
    assert value(text, 'fivestar_request_duration_seconds_bucket{route="other",le="+Inf"}') == 1
    assert value(text, 'fivestar_request_duration_seconds_sum{route="/a"}') == 0.3005
    assert value(text, "fivestar_queries_total") == 7
    assert value(text, "fivestar_batches_total") == 1
    assert value(text, "fivestar_requests_in_progress") == 1
    assert "/b" not in text


def test_several_workers(tmp_path):
    file = tmp_path / "metrics"
    file.touch()
    workers = [Metrics(["/a"], file) for _ in range(3)]
    for times, worker in enumerate(workers, start=1):
        for _ in range(times):
            worker.begin()
            worker.end("/a", 200, 0.01)
    for worker in workers:
        assert value(worker.text(), 'fivestar_requests_total{route="/a",status="200"}') == 6
        assert value(worker.text(), "fivestar_requests_in_progress") == 0
