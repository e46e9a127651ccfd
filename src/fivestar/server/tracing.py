"""OpenTelemetry spans: one per request, and one per batch of queries with links to its requests.

The spans go where the environment variables of OpenTelemetry say (`OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER` …), by OTLP over HTTP. A request continues the trace of
its `traceparent` header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Scope

from fivestar.extras import require
from fivestar.version import __version__

_EXTRA = "otel"


class Tracer:
    """Makes spans.

    Args:
        provider: where they go; by default to the collector that the environment names.
    """

    def __init__(self, provider: Any = None) -> None:
        self._trace = require("opentelemetry.trace", _EXTRA, "tracing")
        self._propagate = require("opentelemetry.propagate", _EXTRA, "tracing")
        self._provider = provider or _provider_from_environment()
        self._tracer = self._provider.get_tracer("fivestar.server", __version__)

    def start_request(self, scope: Scope, request_id: str) -> Any:
        """Return the span of a request, started."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        return self._tracer.start_span(
            scope["method"],
            context=self._propagate.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes={
                "http.request.method": scope["method"],
                "url.path": scope["path"],
                "url.scheme": scope["scheme"],
                "network.protocol.version": scope["http_version"],
                "fivestar.request_id": request_id,
            },
        )

    def end_request(self, span: Any, scope: Scope, route: str | None, status: int) -> None:
        """End the span of a request."""
        if route is not None:
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
        if status:
            span.set_attribute("http.response.status_code", status)
        if not status or status >= 500:  # the client has left, or an error of ours
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    @contextmanager
    def batch(self, run: str, num_queries: int, spans: Iterable[Any]) -> Iterator[None]:
        """Make a span of a batch, linked to the spans of its requests."""
        contexts = {id(span): span.get_span_context() for span in spans if span is not None}
        links = [self._trace.Link(context) for context in contexts.values()]
        attributes = {"fivestar.run": run, "fivestar.queries": num_queries}
        with self._tracer.start_as_current_span("score batch", attributes=attributes, links=links):
            yield

    def close(self) -> None:
        """Send what has not been sent yet."""
        self._provider.shutdown()


def _provider_from_environment() -> Any:
    sdk = require("opentelemetry.sdk.trace", _EXTRA, "tracing")
    export = require("opentelemetry.sdk.trace.export", _EXTRA, "tracing")
    otlp = require("opentelemetry.exporter.otlp.proto.http.trace_exporter", _EXTRA, "tracing")
    resources = require("opentelemetry.sdk.resources", _EXTRA, "tracing")
    named = {"service.name": "fivestar", "service.version": __version__}
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    resource = resources.Resource(named).merge(resources.OTELResourceDetector().detect())
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
