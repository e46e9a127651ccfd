"""The short path of valid predictions responds exactly as FastAPI does."""

from __future__ import annotations

import asyncio
import json

import pytest

from fivestar.server.app import make_app
from fivestar.server.settings import ServerSettings

GOOD = {"head": "Lyon", "relation": "in_country"}
REQUESTS = {
    "tails": ("/api/predict/tails", GOOD),
    "heads": ("/api/predict/heads", {"relation": "in_country", "tail": "france", "top": 3}),
    "relations": ("/api/predict/relations", {"head": "Lyon", "tail": "France"}),
    "batch": ("/api/predict/batch", {"queries": [["Lyon", "in_country", "_"]] * 3, "top": 100}),
    "score": ("/api/score", GOOD | {"tail": "France"}),
    "types": ("/api/predict/tails", GOOD | {"types": ["country"], "which": "new"}),
    "unknown name": ("/api/predict/tails", GOOD | {"head": "Lyyon"}),
    "unknown run": ("/api/predict/tails", GOOD | {"run": "none"}),
    "unknown type": ("/api/predict/tails", GOOD | {"types": ["planet"]}),
    "too many": ("/api/predict/tails", GOOD | {"top": 1001}),
    "no queries": ("/api/predict/batch", {"queries": []}),
    "unknown field": ("/api/score", GOOD | {"tail": "France", "tale": 1}),
    "text number": ("/api/predict/tails", GOOD | {"top": "7"}),
    "null": ("/api/predict/tails", None),
}


@pytest.fixture(scope="module")
def guard(served_runs):
    guard = make_app(ServerSettings(runs=served_runs[:1]))
    guard.app.state.service.warm_up()
    yield guard
    guard.app.state.service.close()


def respond(app, path, body, *headers, method="POST"):
    """Return status, headers and body of a response."""
    sent = []
    content = [("http.request", body[:5], True), ("http.request", body[5:], False)]

    async def receive():
        kind, part, more = content.pop(0)
        return {"type": kind, "body": part, "more_body": more}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (b"x-request-id", b"1"), *headers],
    }
    asyncio.run(app(scope, receive, send))
    start, *rest = sent
    text = b"".join(message.get("body", b"") for message in rest)
    return start["status"], sorted(start["headers"]), text, scope["route"].path


JSON = (b"content-type", b"application/json")
GZIP = (b"accept-encoding", b"gzip, br")


@pytest.mark.parametrize("more", [(), (GZIP,)], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", REQUESTS)
def test_responses_are_those_of_fastapi(guard, monkeypatch, name, more):
    path, body = REQUESTS[name]
    content = json.dumps(body).encode()
    hot = respond(guard, path, content, JSON, *more)
    monkeypatch.setattr(guard, "_handler", guard.app)
    usual = respond(guard, path, content, JSON, *more)
    assert hot == usual
    if name == "batch":
        assert ((b"content-encoding", b"gzip") in hot[1]) == bool(more)


def test_only_plain_json_takes_the_short_path(guard, monkeypatch):
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]).get(b"content-type"))
        await guard.app(scope, receive, send)

    monkeypatch.setattr(guard._handler, "_app", app)
    path, body = REQUESTS["tails"]
    content = json.dumps(body).encode()
    assert respond(guard, path, content, JSON)[0] == 200
    assert not seen
    other = (b"content-type", b"application/json; charset=utf-8")
    assert respond(guard, path, content, other)[0] == 200
    assert respond(guard, path, b"{", JSON)[0] == 422
    assert respond(guard, path, b"", JSON, method="GET")[0] == 405
    assert seen == [other[1], JSON[1], JSON[1]]
    # With CORS, the response depends on the origin.
    monkeypatch.setattr(guard._handler, "_has_cors", True)
    assert respond(guard, path, content, JSON, (b"origin", b"https://friend.example"))[0] == 200
    assert len(seen) == 4


def test_an_unexpected_error_is_answered_and_raised(guard, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(guard.app.state.service, "check_top", fail)
    path, body = REQUESTS["tails"]
    with pytest.raises(ZeroDivisionError):
        respond(guard, path, json.dumps(body).encode(), JSON)
