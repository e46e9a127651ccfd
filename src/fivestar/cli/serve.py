"""`fivestar serve`: the HTTP service and its page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolders, with_local_runs
from fivestar.cli.terminal import out, warn


class LogFormat(StrEnum):
    """Formats of the log."""

    text = "text"
    json = "json"


EXAMPLE = "Example: fivestar serve my_run --port 8005"


@with_local_runs
def serve(  # noqa: PLR0913
    runs: RunFolders,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port (0: any free port).", min=0, max=65535)] = 8005,
    workers: Annotated[int, typer.Option(help="Number of worker processes.", min=1, max=64)] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the bearer token that requests must send.", show_default=False
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(help="Allowed CORS origin (repeatable).", show_default=False),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Allowed Host header (repeatable). (default: any; only localhost when listening "
            "there)",
            show_default=False,
        ),
    ] = None,
    max_top: Annotated[
        int, typer.Option(help="Maximum number of answers per query.", min=1)
    ] = 1000,
    max_batch: Annotated[
        int, typer.Option(help="Maximum number of queries per request.", min=1)
    ] = 1000,
    max_answers: Annotated[
        int, typer.Option(help="Maximum number of answers per request, of all its queries.", min=1)
    ] = 100_000,
    max_work: Annotated[
        float,
        typer.Option(help="Maximum estimated work per request in multiply-adds.", min=1),
    ] = 1e11,
    max_connections: Annotated[
        int,
        typer.Option(help="Maximum number of connections per client address and worker.", min=1),
    ] = 256,
    max_body: Annotated[int, typer.Option(help="Maximum request size in bytes.", min=1)] = 1 << 20,
    time_limit: Annotated[float, typer.Option(help="Request timeout in seconds.", min=0.1)] = 30.0,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log each request.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of the log: text or JSON lines.")
    ] = LogFormat.text,
    reload_interval: Annotated[
        float,
        typer.Option(
            help="Seconds between two looks for new versions of the runs, which are then served "
            "without a restart (0: never).",
            min=0.0,
        ),
    ] = 0.0,
    allow_fold_in: Annotated[
        bool,
        typer.Option(
            "--allow-fold-in",
            help="Let requests add new entities, in memory only. Needs --token-file and one "
            "worker.",
        ),
    ] = False,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Send OpenTelemetry spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names "
            "(extra otel).",
        ),
    ] = False,
) -> None:
    """Serve runs over HTTP, with a page at / and the API documentation at /docs.

    By default only this machine can connect. Stop with Ctrl-C.
    """
    from fivestar.extras import require  # noqa: PLC0415

    for module in ("fastapi", "httptools", "orjson", "uvicorn"):
        require(module, "serve", "fivestar serve")
    from fivestar.server.routes import page  # noqa: PLC0415  (slow to import)
    from fivestar.server.settings import LOOPBACK, Limits  # noqa: PLC0415

    if host not in LOOPBACK and token_file is None:
        warn(f"anyone who can reach {host} can send queries; use --token-file to require a token")
    if not page.is_built():
        warn(page.MISSING)
    api = "docs" if page.has_swagger() else "openapi.json"

    def say(address: str) -> None:
        out.print(f"Serving at {address}  (API: {address}/{api}, Ctrl-C to stop)", markup=False)

    fivestar.serve(
        runs,
        host=host,
        port=port,
        workers=workers,
        token_file=token_file,
        cors_origins=cors_origin or (),
        allowed_hosts=allowed_host or (),
        limits=Limits(
            top=max_top,
            batch=max_batch,
            answers=max_answers,
            work=max_work,
            client_connections=max_connections,
            body_bytes=max_body,
            seconds=time_limit,
        ),
        log_requests=log_requests,
        log_format=log_format.value,
        reload_interval=reload_interval,
        fold_in=allow_fold_in,
        trace=trace,
        on_start=say,
    )
