"""What operators rely on: metrics, request ids, logs and traces."""

from __future__ import annotations

import json
import logging
import logging.config
import re
import sys

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from tests.server.serving import running

from fivestar.errors import MissingExtra
from fivestar.server import app as app_module
from fivestar.server.logs import JsonFormatter, log_config, request_id_of
from fivestar.server.metrics import Metrics
from fivestar.server.serve import serve
from fivestar.server.settings import ServerSettings
from fivestar.server.tracing import Tracer

GOOD = {"head": "Lyon", "relation": "in_country"}
TAILS = "/api/predict/tails"


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_histograms_per_endpoint(client):
    for _ in range(3):
        client.post(TAILS, json=GOOD)
    client.get("/api/relations")
    found = families(client.get("/metrics").text)
    durations = found["fivestar_request_duration_seconds"]
    assert durations.type == "histogram"
    for route in (TAILS, "/api/relations"):
        samples = [each for each in durations.samples if each.labels["route"] == route]
        buckets = [each for each in samples if each.name.endswith("_bucket")]
        counts = [each.value for each in buckets]
        assert counts == sorted(counts)
        assert [float(each.labels["le"]) for each in buckets] == sorted(
            float(each.labels["le"]) for each in buckets
        )
        (count,) = [each.value for each in samples if each.name.endswith("_count")]
        assert buckets[-1].labels["le"] == "+Inf"
        assert count == counts[-1] >= 1
        requests = [
            each.value
            for each in found["fivestar_requests"].samples
            if each.labels["route"] == route
        ]
        assert sum(requests) == count
        (seconds,) = [each.value for each in samples if each.name.endswith("_sum")]
        assert seconds > 0


def test_batch_sizes_and_counters_of_changes():
    metrics = Metrics(["/a"])
    for size in (1, 3, 3, 1000):
        metrics.count_batch(size)
    metrics.count_reload(succeeded=True)
    metrics.count_reload(succeeded=False)
    metrics.count_reload(succeeded=False)
    metrics.count_folded_in(7)
    found = families(metrics.text())
    sizes = found["fivestar_batch_size"]
    assert sizes.type == "histogram"
    by_end = {each.labels.get("le", each.name): each.value for each in sizes.samples}
    assert [by_end[end] for end in ("1", "2", "4", "512", "+Inf")] == [1, 1, 3, 3, 4]
    assert (by_end["fivestar_batch_size_sum"], by_end["fivestar_batch_size_count"]) == (1007, 4)
    reloads = {e.labels["result"]: e.value for e in found["fivestar_run_reloads"].samples}
    assert reloads == {"loaded": 1, "failed": 2}
    assert found["fivestar_folded_in_entities"].samples[0].value == 7
    assert found["fivestar_batches"].samples[0].value == 4


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [("job-17", True), ("a" * 128, True), ("a" * 129, False), ("a b", False), ('"', False)],
)
def test_request_ids(client, sent, is_kept):
    for path in ("/health", "/nothing", TAILS):
        returned = client.get(path, headers={"x-request-id": sent}).headers["x-request-id"]
        assert (returned == sent) == is_kept
        assert is_kept or re.fullmatch("[0-9a-f]{16}", returned)


def test_new_request_ids_differ(client):
    ids = {client.get("/health").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5
    assert request_id_of("ä".encode()) != "ä"


@pytest.fixture
def logged():
    """Collect the lines that loggers write in a format, with the configuration of the server."""

    def configure(log_format, **more):
        logging.config.dictConfig(log_config(log_format, **more))

    yield configure
    for name in ("fivestar.access", "fivestar.server", "uvicorn", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def test_json_logs(client, logged, capsys):
    logged("json", log_requests=True)
    client.post(TAILS, json=GOOD, headers={"x-request-id": "job-1"})
    client.get("/api/entity?name=Atlantis%0A", headers={"x-request-id": "job-2"})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_id = {line["request_id"]: line for line in lines if line["logger"] == "fivestar.access"}
    one, two = by_id["job-1"], by_id["job-2"]
    assert (one["method"], one["path"], one["route"], one["status"]) == ("POST", TAILS, TAILS, 200)
    assert 0 < one["seconds"] < 60
    assert (one["level"], one["logger"], one["client"]) == ("info", "fivestar.access", "127.0.0.1")
    assert (two["status"], two["path"]) == (404, "/api/entity?name=Atlantis%0A")


def test_text_logs_have_the_request_id(client, logged, capsys):
    logged("text", log_requests=True)
    client.get("/health", headers={"x-request-id": "job-3"})
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "job-3" in line]
    assert re.fullmatch(r'127\.0\.0\.1 - "GET /health HTTP/1\.1" 200 [\d.]+ ms job-3', line)
    logged("text", log_requests=False)
    client.get("/health", headers={"x-request-id": "job-4"})
    assert "job-4" not in capsys.readouterr().out


def test_an_exception_is_one_json_line():
    try:
        int("two\nlines")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed %s", ("a",), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"]) == ("failed a", "error")
    assert "ValueError" in line["exception"]
    assert "\n" in line["exception"]


def test_traces(served_runs, monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(app_module, "Tracer", lambda: Tracer(provider))
    settings = ServerSettings(runs=served_runs[:1], trace=True)
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with running(app_module.make_app(settings)) as address:
        headers = {"traceparent": f"00-{trace_id}-{parent}-01", "x-request-id": "job-4"}
        assert httpx.post(f"{address}{TAILS}", json=GOOD, headers=headers).status_code == 200
        assert httpx.get(f"{address}/api/entity?name=Atlantis").status_code == 404
        spans = exporter.get_finished_spans()  # closing the server ends the provider
    by_name = {span.name: span for span in spans}
    request, batch = by_name[f"POST {TAILS}"], by_name["score batch"]
    assert request.kind.name == "SERVER"
    assert f"{request.context.trace_id:032x}" == trace_id
    assert f"{request.parent.span_id:016x}" == parent
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["http.route"] == TAILS
    assert request.attributes["fivestar.request_id"] == "job-4"
    assert [link.context.span_id for link in batch.links] == [request.context.span_id]
    assert batch.attributes["fivestar.queries"] == 1
    assert by_name["GET /api/entity"].parent is None
    assert by_name["GET /api/entity"].status.is_unset


def test_tracing_without_its_extra(served_runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[otel\]"):
        serve(served_runs[0], trace=True, port=0)
