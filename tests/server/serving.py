"""A real server on a port of its own, on a thread of this process."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import uvicorn

from fivestar.server.app import make_app


@contextmanager
def serving(settings):
    config = uvicorn.Config(make_app(settings), port=0, log_level="error", server_header=False)
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
