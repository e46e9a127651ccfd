"""A client returns what the model behind the server returns, and raises its errors."""

from __future__ import annotations

import socket
import sys
import threading
import warnings
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.server.serving import serving

import fivestar
from fivestar.errors import (
    AmbiguousName,
    GraphError,
    GraphWarning,
    MissingExtra,
    ServerError,
    SettingsError,
    UnknownName,
)
from fivestar.server.settings import ServerSettings

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105


@pytest.fixture(scope="module")
def local(served_runs):
    return fivestar.load(served_runs[0])


@pytest.fixture
def remote(server):
    with fivestar.Client(server) as client:
        yield client


def same(one, other):
    """Compare nested data; numbers may differ by rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            same(mine, theirs)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4)
    else:
        assert one == other


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("predict_tails", {"head": "lyon", "relation": "in_country", "top": 4}),
        ("predict_heads", {"relation": "in_country", "tail": "France", "which": "new"}),
        ("predict_heads", {"relation": "in_country", "tail": "France", "types": ["city"]}),
        ("predict_relations", {"head": "Lyon", "tail": "France"}),
    ],
)
def test_predictions(local, remote, method, arguments):
    mine, theirs = (getattr(each, method)(**arguments) for each in (local, remote))
    assert type(theirs) is type(mine)
    assert theirs.query == mine.query
    assert theirs.triples() == mine.triples()
    same([asdict(each) for each in theirs], [asdict(each) for each in mine])


def test_many_queries_and_other_results(local, remote):
    queries = [("Lyon", "in_country", "_"), ("?", "in_country", "France")]
    for mine, theirs in zip(local.predict(queries, 3), remote.predict(queries, 3), strict=True):
        same(theirs.as_json(), mine.as_json())
    assert remote.predict([]) == []
    triple = ("Lyon", "in_country", "France")
    same(asdict(remote.score(*triple)), asdict(local.score(*triple)))
    mine, theirs = local.explain(*triple, top=3), remote.explain(*triple, top=3)
    assert type(theirs) is type(mine)
    same(asdict(theirs), asdict(mine))
    mine, theirs = local.similar("lyon", 4), remote.similar("lyon", 4)
    assert theirs.entity == mine.entity
    same([asdict(each) for each in theirs], [asdict(each) for each in mine])


def test_another_run(server, served_runs):
    other = fivestar.load(served_runs[1])
    with fivestar.Client(f"{server}/", run="complex") as remote:
        assert [run["name"] for run in remote.runs()] == ["fivestar", "complex"]
        mine, theirs = (each.predict_tails("Lyon", "in_country") for each in (other, remote))
        same(theirs.as_json(), mine.as_json())
        same(asdict(remote.similar("Lyon")[0]), asdict(other.similar("Lyon")[0]))
    with fivestar.Client(server, run="none") as remote, pytest.raises(ServerError) as refused:
        remote.similar("Lyon")
    assert (refused.value.status, refused.value.code) == (404, "unknown-run")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: m.predict_tails("Lyyon", "in_country"), UnknownName),
        (lambda m: m.predict([("Lyon", "in_country", "_"), ("Lyyon", "in_country", "_")]), 0),
        (lambda m: m.score("Lyyon", "in_country", "France"), UnknownName),
        (lambda m: m.explain("Lyon", "in_county", "France"), UnknownName),
        (lambda m: m.similar("Atlantis!"), UnknownName),
        (lambda m: m.similar("Lyon", 0), SettingsError),
        (lambda m: m.predict_tails("Lyon", "in_country", 0), SettingsError),
        (lambda m: m.predict([("Lyon", "_", "_")]), SettingsError),
    ],
)
def test_errors_are_those_of_the_library(local, remote, call, error):
    error = error or UnknownName
    for model in (local, remote):
        with pytest.raises(error) as raised:
            call(model)
        assert type(raised.value) is error
    if error is UnknownName and "Lyyon" in str(raised.value):
        assert raised.value.suggestions[0] == "Lyon"


def test_an_ambiguous_name_and_an_unseen_entity(tmp_path):
    graph = tmp_path / "graph"
    graph.mkdir()
    rows = [f"p{i}\tknows\tp{(i + 1) % 8}\n" for i in range(8)]
    for split, some in (("train", rows), ("valid", ["p0\tknows\tp9\n"]), ("test", rows[:1])):
        (graph / f"{split}.txt").write_text("".join(some))
    (graph / "entity_labels.tsv").write_text("".join(f"p{i}\tTwin\n" for i in (1, 2)))
    settings = {"model": {"dim": 4}, "training": {"epochs": 1}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fivestar.train(fivestar.read_graph(graph), settings, tmp_path / "run")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    settings = ServerSettings(runs=[tmp_path / "run"], token_file=token, fold_in=True)
    with serving(settings) as address, fivestar.Client(address, token=TOKEN) as remote:
        with pytest.raises(AmbiguousName) as raised:
            remote.predict_tails("twin", "knows")
        assert raised.value.candidates == [("p1", "Twin"), ("p2", "Twin")]
        with pytest.warns(GraphWarning, match="'p9' has no triple in train"):
            remote.predict_tails("p9", "knows")
        assert [each.id for each in remote.add_entities([("new", "knows", "p1")], 2)] == ["new"]
        assert len(remote.predict_tails("new", "knows", 3)) == 3
        with pytest.raises(GraphError, match="in the model already"):
            remote.add_entities([("p1", "knows", "p2")])
        with fivestar.Client(address) as anonymous, pytest.raises(ServerError) as refused:
            anonymous.runs()
        assert refused.value.status == 401


def test_new_facts(local, remote):
    relation = local.graph.relations.name_of(0)
    facts = list(remote.new_facts([relation], top=5))
    expected = local.complete(top=5, relations=[relation]).table.to_pylist()
    for fact, row in zip(facts, expected, strict=True):
        assert (fact.head.id, fact.relation.id, fact.tail.id) == (
            row["head"],
            row["relation"],
            row["tail"],
        )
        assert fact.probability == pytest.approx(row["probability"], abs=1e-3)
    assert not list(remote.new_facts([relation], top=5, threshold=1.0))
    with pytest.raises(SettingsError, match="at most 1,000"):
        next(remote.new_facts([relation], top=1001))


class Busy(BaseHTTPRequestHandler):
    """Refuses the first requests, then answers with what is no problem document."""

    refusals = 2
    content = b'{"runs": []}'

    def do_GET(self):
        self.seen.append(0.0)
        is_busy = len(self.seen) <= self.refusals
        self.send_response(503 if is_busy else 200)
        if is_busy:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def busy():
    class Handler(Busy):
        pass

    Handler.seen = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    server.server_close()


def test_a_busy_server_is_asked_again(busy):
    url, handler = busy
    with fivestar.Client(url, retries=2) as client:
        assert client.runs() == []
    assert len(handler.seen) == 3
    handler.seen.clear()
    with fivestar.Client(url, retries=1) as client, pytest.raises(ServerError) as refused:
        client.runs()
    assert refused.value.status == 503
    assert len(handler.seen) == 2


def test_what_is_no_server(busy):
    url, handler = busy
    handler.refusals, handler.content = 0, b"<html>"
    with fivestar.Client(url) as client, pytest.raises(ServerError, match="is this a fivestar"):
        client.runs()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with (
        fivestar.Client(f"http://127.0.0.1:{port}", retries=0) as client,
        pytest.raises(ServerError, match="does not answer"),
    ):
        client.runs()
    for wrong in ("localhost:8005", "ftp://localhost", "http://", ""):
        with pytest.raises(SettingsError, match="is no address"):
            fivestar.Client(wrong)


def test_a_slow_server_is_not_waited_for():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with fivestar.Client(url, timeout=0.2) as client, pytest.raises(ServerError):
            client.runs()


def test_without_urllib3(monkeypatch):
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[client\]"):
        fivestar.Client("http://localhost")
