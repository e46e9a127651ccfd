"""`fivestar serve`: answers over HTTP, and a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.terminal import out, warn

EXAMPLE = "Example: fivestar serve my_run --port 8005"


def serve(  # noqa: PLR0913
    runs: Annotated[list[Path], typer.Argument(help="The folders of one or more runs.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any.", min=0, max=65535)] = 8005,
    workers: Annotated[int, typer.Option(help="How many processes.", min=1, max=64)] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token that requests must bring.", show_default=False),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(help="A web page that may ask, too; again for more.", show_default=False),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name that this server may be called by; again for more. (default: any, or "
            "only localhost if it listens there)",
            show_default=False,
        ),
    ] = None,
    max_top: Annotated[int, typer.Option(help="Answers to one question.", min=1)] = 1000,
    max_batch: Annotated[int, typer.Option(help="Questions of one request.", min=1)] = 1000,
    max_body: Annotated[int, typer.Option(help="Bytes of one request.", min=1)] = 1 << 20,
    time_limit: Annotated[float, typer.Option(help="Seconds for one request.", min=0.1)] = 30.0,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Write a line for each request.")
    ] = False,
) -> None:
    """Answer questions over HTTP, with a page for people and /docs for programs.

    By default only this machine can ask. Stop it with Ctrl-C.
    """
    from fivestar.extras import require  # noqa: PLC0415

    for module in ("fastapi", "uvicorn"):
        require(module, "serve", "fivestar serve")
    from fivestar.server.routes.page import MISSING, is_built  # noqa: PLC0415  (slow to import)
    from fivestar.server.running import run_server  # noqa: PLC0415
    from fivestar.server.settings import Limits, ServerSettings  # noqa: PLC0415

    settings = ServerSettings(
        runs=runs,
        host=host,
        workers=workers,
        token_file=token_file,
        cors_origins=cors_origin or [],
        allowed_hosts=allowed_host or [],
        limits=Limits(top=max_top, batch=max_batch, body_bytes=max_body, seconds=time_limit),
    )
    if not settings.is_local and token_file is None:
        warn(f"everybody who can reach {host} can ask; --token-file keeps strangers out")
    if not is_built():
        warn(MISSING)

    def say(address: str) -> None:
        out.print(f"serving at {address}  (interface: {address}/docs, stop: Ctrl-C)", markup=False)

    run_server(settings, port, log_requests=log_requests, on_start=say)
