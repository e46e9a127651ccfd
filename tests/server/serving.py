"""Real servers, each on a port of its own: on a thread of this process, or as the command."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import uvicorn

from fivestar.server.app import make_app
from fivestar.server.protocol import LimitedProtocol


def serving(settings):
    return running(make_app(settings))


@contextmanager
def running(app):
    config = uvicorn.Config(
        app,
        port=0,
        http=LimitedProtocol,
        ws="none",
        log_level="error",
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def started(*words, python=sys.executable):
    command = [python, "-c", "from fivestar.cli.main import main; main()", "serve", *words]
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        address = None
        while address is None:
            line = process.stdout.readline()
            assert line, "it ended before it served"
            address = re.search(r"Serving at (http://\S+)", line)
        _wait_until_ready(address[1])
        yield process, address[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _wait_until_ready(address):
    for _ in range(1200):
        with suppress(httpx.TransportError):
            if httpx.get(f"{address}/ready").status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError("it did not get ready")
