"""A web server that fails in every way that web servers fail in."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Faulty:
    """Files by path, what goes wrong with them, and what was asked for."""

    def __init__(self):
        self.files = {}
        self.faults = {}
        self.asked = []
        self.address = ""

    def fault(self, path):
        """The next fault of a path; the last one stays."""
        faults = self.faults.get(path, ["none"])
        return faults.pop(0) if len(faults) > 1 else faults[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Faulty

    def log_message(self, *_):
        pass

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.state.asked.append((self.path, wanted))
        fault, content = self.state.fault(self.path), self.state.files.get(self.path)
        if fault.isdecimal():
            self._answer(int(fault), b"")
        elif content is None:
            self._answer(404, b"nothing here")
        elif fault.startswith("redirect "):
            self.send_response(302)
            self.send_header("Location", fault.removeprefix("redirect "))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._file(content, fault, wanted)

    def _file(self, content, fault, wanted):
        start = 0
        if wanted and fault not in {"no range"}:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self._answer(416, b"")
                return
        part = content[start:]
        self.send_response(206 if start else 200)
        if start:
            shown = start + 1 if fault == "wrong range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
        if fault != "no length":
            self.send_header("Content-Length", str(len(part)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if fault == "cut":
            part = part[: len(part) // 2]
        if fault == "silent":
            self.wfile.write(part[:10])
            self.wfile.flush()
            time.sleep(3)
        elif fault == "drip":
            for at in range(0, len(part), 10):
                self.wfile.write(part[at : at + 10])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(part)
        if fault in {"cut", "no length", "silent"}:
            self.close_connection = True

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True


@contextmanager
def faulty_server():
    state = Faulty()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
