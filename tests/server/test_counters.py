"""Counters tell what was counted, by however many workers."""

from __future__ import annotations

from fivestar.server.counters import Counters


def value(text, line):
    (found,) = [x.rsplit(" ", 1)[1] for x in text.splitlines() if x.startswith(line + " ")]
    return float(found)


def test_what_is_counted():
    counters = Counters(["/a", "/b"])
    for route, status, seconds in (("/a", 200, 0.0005), ("/a", 200, 0.3), ("/c", 418, 99.0)):
        counters.begin()
        counters.end(route, status, seconds)
    counters.begin()
    counters.count_batch(7)
    text = counters.text()
    assert value(text, 'fivestar_requests_total{route="/a",status="200"}') == 2
    assert value(text, 'fivestar_requests_total{route="other",status="other"}') == 1
    assert value(text, 'fivestar_request_seconds_bucket{route="/a",le="0.001"}') == 1
    assert value(text, 'fivestar_request_seconds_bucket{route="/a",le="0.5"}') == 2
    assert value(text, 'fivestar_request_seconds_bucket{route="other",le="10.0"}') == 0
    assert value(text, 'fivestar_request_seconds_bucket{route="other",le="+Inf"}') == 1
    assert value(text, 'fivestar_request_seconds_sum{route="/a"}') == 0.3005
    assert value(text, "fivestar_questions_total") == 7
    assert value(text, "fivestar_batches_total") == 1
    assert value(text, "fivestar_requests_running") == 1
    assert "/b" not in text


def test_workers_count_together(tmp_path):
    file = tmp_path / "counters"
    file.touch()
    workers = [Counters(["/a"], file) for _ in range(3)]
    for times, worker in enumerate(workers, start=1):
        for _ in range(times):
            worker.begin()
            worker.end("/a", 200, 0.01)
    for worker in workers:
        assert value(worker.text(), 'fivestar_requests_total{route="/a",status="200"}') == 6
        assert value(worker.text(), "fivestar_requests_running") == 0
