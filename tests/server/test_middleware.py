"""Hostile and clumsy requests: each is refused with a problem document, and the server lives on."""

from __future__ import annotations

import json
import random
import socket
import time

import httpx
import pytest
from tests.server.serving import serving

from fivestar.errors import SettingsError
from fivestar.server.settings import Limits, ServerSettings, read_token

GOOD = {"head": "Lyon", "relation": "in_country"}
ASK = "/api/predict/tails"
TOKEN = "a-token-that-nobody-guesses"  # noqa: S105


def post(client, body, kind="application/json", **headers):
    return client.post(ASK, content=body, headers={"content-type": kind, **headers})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"null", 422),
        (b"[]", 422),
        (b'"Lyon"', 422),
        (b"[" * 100_000, 400),
        (b'{"a":' * 50_000, 400),
        (b'{"head": "\\ud800", "relation": "in_country"}', 422),
        (b'{"head": "Lyon\\u0000", "relation": "in_country"}', 404),
        (b'{"head": "\xff\xfe", "relation": "in_country"}', 400),
        (b'{"head": "Lyon", "relation": "in_country", "top": ' + b"9" * 5000 + b"}", 400),
        (b'{"head": "Lyon", "relation": "in_country", "top": NaN}', 422),
        (b'{"head": {"$gt": ""}, "relation": "in_country"}', 422),
        (b'{"head": "Lyon", "relation": "in_country", "run": "../../etc/passwd"}', 404),
        (b'{"head": "' + b"x" * (1 << 20) + b'", "relation": "r"}', 413),
    ],
    ids=range(15),
)
def test_malformed_bodies(client, body, status):
    found = post(client, body)
    assert found.status_code == status, found.text[:300]
    assert found.headers["content-type"] == "application/problem+json"
    assert len(found.content) < 5000
    assert client.post(ASK, json=GOOD).status_code == 200


def test_the_rest_of_a_refused_body_may_come_with_the_next_request(client):
    url, good, bad = client.base_url, json.dumps(GOOD).encode(), b"x" * (2 << 20)

    def head(size):
        kind = "Content-Type: application/json"
        host = f"Host: {url.host}:{url.port}"
        return f"POST {ASK} HTTP/1.1\r\n{host}\r\n{kind}\r\nContent-Length: {size}\r\n\r\n".encode()

    with socket.create_connection((url.host, url.port), timeout=30) as there:
        there.sendall(head(len(bad)))
        assert there.recv(65536).startswith(b"HTTP/1.1 413")
        there.sendall(bad + head(len(good)))
        time.sleep(0.2)
        there.sendall(good)
        rest = b""
        while b"HTTP/1.1 200" not in rest:
            part = there.recv(65536)
            assert part, rest
            rest += part


def test_bodies_without_content_length_are_limited(client):
    def endless():
        for _ in range(64):
            yield b" " * 65536

    found = post(client, endless())
    assert (found.status_code, found.json()["code"]) == (413, "too-large")


def test_other_content_types(client):
    assert post(client, json.dumps(GOOD), "text/plain").status_code == 422
    form = client.post(ASK, data=GOOD)
    assert form.status_code == 422
    wrong = client.get(ASK)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/%00",
        "//etc/passwd",
        "/api/%ff",
        "/api/" + "a" * 10_000,
    ],
)
def test_path_tricks(server, path):
    assert _raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(
        b"HTTP/1.1 404"
    )


def test_invalid_http(server):
    assert b"400" in _raw(server, "\x16\x03\x01 hello\r\n\r\n")
    assert b"400" in _raw(server, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n")


def test_foreign_host_names_are_refused(server):
    found = httpx.get(f"{server}/api/runs", headers={"host": "evil.example"})
    assert (found.status_code, found.json()["code"]) == (400, "unknown-host")
    for name in ("localhost:8005", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert httpx.get(f"{server}/health", headers={"host": name}).status_code == 200


def test_head_of_the_page(client):
    assert client.head("/").status_code == client.get("/").status_code


def test_security_headers(client):
    for path in ("/", "/docs", "/api/runs", "/nothing", "/metrics", "/openapi.json"):
        found = client.get(path)
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in found.headers["content-security-policy"]
        assert "unsafe-inline" not in found.headers["content-security-policy"] or path == "/docs"
        assert "server" not in found.headers
        assert "access-control-allow-origin" not in found.headers


@pytest.fixture(scope="module")
def guarded(served_runs, tmp_path_factory):
    """A server with a token, narrow limits and a friend elsewhere."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    settings = ServerSettings(
        runs=served_runs[:1],
        token_file=file,
        cors_origins=["https://friend.example"],
        limits=Limits(top=5, batch=2, body_bytes=500),
    )
    with serving(settings) as address, httpx.Client(base_url=address) as client:
        yield client


def test_the_token(guarded):
    def status(value, path="/api/runs"):
        headers = {} if value is None else {"authorization": value}
        return guarded.get(path, headers=headers).status_code

    assert status(f"Bearer {TOKEN}") == 200
    assert status(f"bearer  {TOKEN}") == 200
    for wrong in (None, "", "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        assert status(wrong) == 401
    assert status(f"Bearer {TOKEN[:-1]}") == 401
    assert status(None, "/metrics") == 401
    assert status(None, "/api/%2e%2e/health") == 401
    for free in ("/health", "/ready", "/openapi.json"):
        assert status(None, free) == 200
    refused = guarded.get("/api/runs")
    assert refused.headers["www-authenticate"] == "Bearer"
    odd = guarded.get("/api/runs", headers={"authorization": b"Bearer \xff\xfe"})
    assert odd.status_code == 401


def test_cors(guarded):
    for origin, allowed in (("https://friend.example", True), ("https://evil.example", False)):
        asked = {"origin": origin, "access-control-request-method": "POST"}
        found = guarded.options(ASK, headers=asked)
        assert (found.headers.get("access-control-allow-origin") == origin) == allowed


def test_limits(guarded):
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert guarded.post(ASK, json=GOOD | {"top": 6}, headers=headers).status_code == 422
    assert guarded.post(ASK, json=GOOD | {"head": "x" * 500}, headers=headers).status_code == 413
    three = {"queries": [["Lyon", "in_country", "_"]] * 3}
    assert guarded.post("/api/predict/batch", json=three, headers=headers).status_code == 413


def test_timeout(served_runs):
    """A body that never comes is not waited for."""
    head = (
        f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with serving(ServerSettings(runs=served_runs[:1], limits=Limits(seconds=0.5))) as address:
        assert _raw(address, head).startswith(b"HTTP/1.1 504")


@pytest.mark.parametrize(
    "content", [b"", b"short", b"two\nlines, of which neither counts", b"\xff" * 20]
)
def test_bad_tokens(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(SettingsError, match="token_urlsafe"):
        read_token(tmp_path / "token")
    with pytest.raises(SettingsError, match="cannot read the token"):
        read_token(tmp_path / "nothing")


def test_clients_that_disconnect(server, client):
    dice = random.Random(0)  # noqa: S311
    body = json.dumps(GOOD | {"top": 1000}).encode()
    whole = (
        f"POST {ASK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    host, port = server.removeprefix("http://").split(":")
    for _ in range(200):
        with socket.create_connection((host, int(port)), 5) as there:
            there.sendall(whole[: dice.randrange(1, len(whole) + 1)])
    assert client.post(ASK, json=GOOD).status_code == 200
    deadline = time.monotonic() + 30
    while "fivestar_requests_in_progress 1\n" not in client.get("/metrics").text:
        assert time.monotonic() < deadline, "requests of clients that are gone are still running"
        time.sleep(0.1)


def _raw(address, text):
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port)), 10) as there:
        there.sendall(text.encode("latin-1"))
        return there.recv(4096)
