"""Start the server, in one process or in several that share the parameters of their models."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path

import torch
import uvicorn

from fivestar.errors import SettingsError
from fivestar.extras import require
from fivestar.prediction.trained_model import load
from fivestar.runs.remote import locate_run
from fivestar.server.app import ENVIRONMENT, freeze_indices, make_app
from fivestar.server.logs import LogFormat, log_config
from fivestar.server.protocol import MAX_CONNECTIONS, LimitedProtocol
from fivestar.server.routes.extend import check_settings
from fivestar.server.settings import Limits, ServerSettings, allowed_host, read_token
from fivestar.server.supervisor import Supervisor
from fivestar.server.weights import sealed_copies

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

# Seconds that running requests have on shutdown.
_SHUTDOWN_TIMEOUT = 10
_OTHER_DESCRIPTORS = 256
_CORES = torch.get_num_threads()


def serve(  # noqa: PLR0913
    runs: PathLike | Sequence[PathLike],
    *,
    host: str = "127.0.0.1",
    port: int = 8005,
    workers: int = 1,
    token_file: PathLike | None = None,
    cors_origins: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    log_requests: bool = False,
    log_format: LogFormat = "text",
    reload_interval: float = 0.0,
    fold_in: bool = False,
    trace: bool = False,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve trained models over HTTP until interrupted.

    Args:
        runs: the folder of a trained model, or several.
        host: address to listen on; by default only this machine can connect.
        port: port to listen on; 0 for any free one.
        workers: number of processes, which share the parameters of the models.
        token_file: file with the bearer token that requests must send.
        cors_origins: web origins that may read responses.
        allowed_hosts: accepted Host headers; by default any, or only local ones on localhost.
        limits: limits per request.
        log_requests: whether to log each request.
        log_format: "text", or "json" with one object per line.
        reload_interval: seconds between two looks for new versions of the runs; 0: never.
        fold_in: whether requests may add new entities, which live in memory; needs a token.
        trace: whether to send OpenTelemetry spans (extra `otel`).
        on_start: called with the address before the server starts.

    Raises:
        SettingsError: if the token cannot be read, the port is in use, a host is no host name,
            `fold_in` is given without a token or with several workers, or no worker can start.
        MissingExtra: if `trace` is given without its extra.
        DamagedRun: if a folder does not match its manifest.
    """
    folders = [runs] if isinstance(runs, str | os.PathLike) else runs
    settings = ServerSettings(
        runs=[locate_run(folder) for folder in folders],
        host=host,
        workers=workers,
        token_file=None if token_file is None else Path(token_file),
        cors_origins=list(cors_origins),
        allowed_hosts=[allowed_host(name) for name in allowed_hosts],
        limits=limits or Limits(),
        reload_interval=reload_interval,
        fold_in=fold_in,
        log_format=log_format,
        trace=trace,
    )
    run_server(settings, port, log_requests=log_requests, on_start=on_start or (lambda _: None))


def run_server(
    settings: ServerSettings, port: int, *, log_requests: bool, on_start: Callable[[str], None]
) -> None:
    """Run uvicorn with these settings; see `serve`."""
    if settings.token_file is not None:
        read_token(settings.token_file)
    has_token = settings.token_file is not None
    check_settings(fold_in=settings.fold_in, has_token=has_token, workers=settings.workers)
    if settings.trace:
        require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel", "trace")
    port = _free_port(settings.host, port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _raise_descriptor_limit()
    configure = partial(
        uvicorn.Config,
        host=settings.host,
        port=port,
        http=LimitedProtocol,
        ws="none",
        log_level="info" if log_requests else "warning",
        access_log=False,  # see `logs.log_request`
        log_config=log_config(settings.log_format, log_requests=log_requests),
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        server_header=False,
        proxy_headers=False,
    )
    with sealed_copies(settings.runs) as weights:
        settings = settings.model_copy(update={"weights": weights})
        start = partial(on_start, f"http://{host}:{port}")
        if settings.workers == 1:
            _run_one(settings, configure, start)
        else:
            _run_workers(settings, configure, start)


def _run_one(
    settings: ServerSettings, configure: Callable[..., uvicorn.Config], start: Callable[[], None]
) -> None:
    server = uvicorn.Server(configure(make_app(settings, on_ready=freeze_indices)))
    start()
    with suppress(KeyboardInterrupt):
        server.run()


def _run_workers(
    settings: ServerSettings, configure: Callable[..., uvicorn.Config], start: Callable[[], None]
) -> None:
    for run_folder, weights in zip_longest(settings.runs, settings.weights):
        load(run_folder, weights=weights)  # report errors once, not once per worker
    with tempfile.TemporaryDirectory(prefix="fivestar-") as folder:
        metrics, started = Path(folder) / "metrics", Path(folder) / "started"
        metrics.touch()
        started.mkdir()
        shared = settings.model_copy(update={"metrics_file": metrics, "started_folder": started})
        os.environ[ENVIRONMENT] = shared.model_dump_json()
        # Inherited by the workers: otherwise each would use all cores.
        os.environ["OMP_NUM_THREADS"] = str(max(1, _CORES // settings.workers))
        config = configure(
            "fivestar.server.app:app_from_environment", factory=True, workers=settings.workers
        )
        supervisor = Supervisor(config, [config.bind_socket()], started)
        start()
        supervisor.run()
        if supervisor.has_failed:
            raise SettingsError("no worker process can start; see the messages above")


def _raise_descriptor_limit() -> None:
    """Allow as many open files as there may be connections."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _free_port(host: str, port: int) -> int:
    """Check that a port is free; choose one if it is 0."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            free: int = trial.getsockname()[1]
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {host} port {port} ({error}); choose another host or port"
        ) from error
    return free
