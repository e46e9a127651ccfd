"""Starting a server, in one process or several that share the tables of their runs."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import uvicorn

from fivestar.errors import SettingsError
from fivestar.runs.run import load_run
from fivestar.server.app import ENVIRONMENT, make_app
from fivestar.server.guard import read_token
from fivestar.server.settings import ServerSettings

# Seconds that running requests have when the server is told to stop.
_LAST_WORDS = 10
_MOST_CONNECTIONS = 2048
_CORES = torch.get_num_threads()


def run_server(
    settings: ServerSettings, port: int, *, log_requests: bool, on_start: Callable[[str], None]
) -> None:
    """Serve until told to stop; `on_start` is called with the address just before."""
    if settings.token_file is not None:
        read_token(settings.token_file)
    port = _free_port(settings.host, port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    run = partial(
        uvicorn.run,
        host=settings.host,
        port=port,
        log_level="info" if log_requests else "warning",
        access_log=log_requests,
        timeout_graceful_shutdown=_LAST_WORDS,
        limit_concurrency=_MOST_CONNECTIONS,
        server_header=False,
        proxy_headers=False,
    )
    if settings.workers == 1:
        # One core is left for requests: a product whose threads wait for a core takes much longer.
        torch.set_num_threads(max(1, _CORES - 1))
        app = make_app(settings)
        on_start(f"http://{host}:{port}")
        run(app)
        return
    for folder in settings.runs:
        load_run(folder, mapped=True)  # what is wrong is said now, and not by every worker
    with tempfile.TemporaryDirectory(prefix="fivestar-") as counting:
        counters = Path(counting) / "counters"
        counters.touch()
        shared = settings.model_copy(update={"counters": counters})
        os.environ[ENVIRONMENT] = shared.model_dump_json()
        # Workers inherit this; without it each would take all cores.
        os.environ["OMP_NUM_THREADS"] = str(max(1, _CORES // settings.workers))
        on_start(f"http://{host}:{port}")
        run("fivestar.server.app:app_from_environment", factory=True, workers=settings.workers)


def _free_port(host: str, port: int) -> int:
    """The port, or any if it is 0; refused if somebody has it."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            found: int = trial.getsockname()[1]
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {host} port {port} ({error}); choose another --host or --port"
        ) from error
    return found
