"""What the service promises: no client starves the others, stops it, or sees what it must not."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.serving import running, started

import fivestar
from fivestar.analysis import tsne
from fivestar.cancellation import cancel_when, check_cancelled
from fivestar.errors import Cancelled, DamagedRun, SettingsError, UnknownName
from fivestar.graph.queries import Queries
from fivestar.models.scoring import score_parts
from fivestar.runs.run import Run, build_model, load_run
from fivestar.runs.settings import make_settings
from fivestar.server import responses
from fivestar.server import service as service_module
from fivestar.server import weights as weights_module
from fivestar.server.app import make_app
from fivestar.server.protocol import client_network
from fivestar.server.settings import LOOPBACK, Limits, ServerSettings, allowed_host, host_name
from fivestar.server.weights import sealed_copies

# Distinguishes "blocked" from "slow": nothing here takes nearly as long.
PATIENCE = 60
TAILS = {"head": "Zentity-1", "relation": "Zrelation-0"}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A model with random weights; all names are unmistakable."""
    rng = np.random.default_rng(0)
    facts = [
        (f"Zentity-{h}", f"Zrelation-{r}", f"Zentity-{t}")
        for h, r, t in zip(*(rng.integers(n, size=400) for n in (60, 4, 60)), strict=True)
    ]
    graph = fivestar.read_graph(facts)
    chosen = make_settings({"model": {"name": "fivestar", "dim": 8}})
    model = build_model(graph, chosen)
    model.reset_parameters(torch.Generator().manual_seed(0))
    folder = tmp_path_factory.mktemp("service") / "run"
    Run(graph, chosen, model).save(folder)
    return folder


class Serving:
    """A server on a thread, and its parts."""

    def __init__(self, guard, address):
        self.guard, self.address = guard, address
        self.service = guard.app.state.service
        self.served = self.service.model(None)

    def get(self, path, **more):
        return httpx.get(f"{self.address}{path}", timeout=PATIENCE, **more)

    def post(self, path, body, **more):
        return httpx.post(f"{self.address}{path}", json=body, timeout=PATIENCE, **more)

    def connect(self):
        host, port = self.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), PATIENCE)


@contextmanager
def serve(folder, limits=None, **more):
    guard = make_app(ServerSettings(runs=[folder], limits=limits or Limits(), **more))
    with running(guard) as address:
        yield Serving(guard, address)


@pytest.fixture(scope="module")
def server(run_folder):
    with serve(run_folder) as opened:
        while opened.get("/ready").status_code != 200:
            time.sleep(0.01)
        yield opened


class Gate:
    """A computation that lasts until it is opened or cancelled."""

    def __init__(self):
        self.begun, self.opened, self.cancelled = (threading.Event() for _ in range(3))

    def __call__(self, *_, **__):
        self.begun.set()
        while not self.opened.wait(0.01):
            try:
                check_cancelled()
            except Cancelled:
                self.cancelled.set()
                raise
        return {}


# One request does not starve the others.


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/api/map?method=tsne&limit=50", "map"),
        ("/api/map?method=pca&limit=50", "map"),
        ("/api/graph", "statistics"),
        ("/api/entity?name=Zentity-1", "card"),
        ("/api/entities?q=z", "entities"),
        ("/api/relations", "relations"),
        ("/api/runs", "info"),
    ],
)
def test_others_are_answered_beside_a_computation(server, monkeypatch, path, method):
    gate = Gate()
    monkeypatch.setattr(server.served, method, gate)
    server.served.cache.clear()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.get, path)
        try:
            assert gate.begun.wait(PATIENCE)
            assert server.get("/health").status_code == 200
            assert server.post("/api/predict/tails", TAILS).status_code == 200
            assert not slow.done()
        finally:
            gate.opened.set()
            slow.result()
            server.served.cache.clear()


def test_a_projection_does_not_delay_names_and_explanations(server, monkeypatch):
    gate = Gate()
    monkeypatch.setattr(server.served, "map", gate)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.get, "/api/map?method=tsne&limit=51")
        try:
            assert gate.begun.wait(PATIENCE)
            triple = "head=Zentity-1&relation=Zrelation-0&tail=Zentity-2"
            for path in ("entities?q=z", f"explain?{triple}", "similar?entity=Zentity-1", "graph"):
                assert server.get(f"/api/{path}").status_code == 200
            assert not slow.done()
        finally:
            gate.opened.set()
            slow.result()
            server.served.cache.clear()


def test_a_query_larger_than_a_batch_does_not_delay_others(server, monkeypatch):
    gate, predict = Gate(), server.served.model.predict_ids

    def predict_ids(queries, *more):
        if (queries[:, 1] < 0).any():
            gate()
        return predict(queries, *more)

    monkeypatch.setitem(server.served.model.__dict__, "predict_ids", predict_ids)
    real = server.served.cost.of
    monkeypatch.setattr(
        server.served.cost, "of", lambda ids, top: 5e9 if ids[1] < 0 else real(ids, top)
    )
    ends = {"head": "Zentity-1", "tail": "Zentity-2"}
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.post, "/api/predict/relations", ends)
        try:
            assert gate.begun.wait(PATIENCE)
            assert server.post("/api/predict/tails", TAILS).status_code == 200
            assert not slow.done()
        finally:
            gate.opened.set()
        assert slow.result().status_code == 200


def test_too_much_work_is_refused_before_it_runs(run_folder, monkeypatch):
    relations = [["Zentity-1", "_", f"Zentity-{n}"] for n in range(1, 40)]
    with serve(run_folder, Limits(answers=100, work=1e6)) as server:
        gate = Gate()
        monkeypatch.setitem(server.served.model.__dict__, "predict_ids", gate)
        tails = [["Zentity-1", "Zrelation-0", "_"]] * 11
        refused = server.post("/api/predict/batch", {"queries": tails})
        assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
        assert "110 answers; at most 100" in refused.json()["detail"]
        refused = server.post("/api/predict/batch", {"queries": relations, "top": 2})
        assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
        assert "multiply-adds" in refused.json()["detail"]
        assert not gate.begun.is_set() or server.service.is_ready


def test_estimates_grow_with_the_work(server):
    cost = server.served.cost
    tail, head, relation = ((0, 0, -1), (-1, 0, 0), (0, -1, 0))
    assert cost.of(tail, 10) < cost.of(tail, 1000)
    # Each answer to a relation query needs the probabilities of a tail and a head query.
    assert cost.of(relation, 2) > cost.of(tail, 1) + cost.of(head, 1)
    assert cost.of(relation, 1000) == cost.of(relation, 4)


def test_unsent_answers_are_bounded_and_released(run_folder):
    body = {"queries": [["Zentity-1", "Zrelation-0", "_"]] * 2, "top": 50}
    with serve(run_folder, Limits(answers=100)) as server:
        server.service._unsent_answers = 950
        refused = server.post("/api/predict/batch", body)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        server.service._unsent_answers = 0
        for _ in range(12):
            assert server.post("/api/predict/batch", body).status_code == 200
        assert server.post("/api/predict/tails", TAILS | {"head": "no"}).status_code == 404
        assert server.service._unsent_answers == 0


def test_a_computation_stops_when_its_client_leaves(server, monkeypatch):
    gate = Gate()
    monkeypatch.setitem(server.served.model.__dict__, "predict_ids", gate)
    body = json.dumps(TAILS).encode()
    head = (
        "POST /api/predict/tails HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with server.connect() as there:
        there.sendall(head.encode() + body)
        assert gate.begun.wait(PATIENCE)
        assert not gate.cancelled.is_set()
    assert gate.cancelled.wait(PATIENCE)
    monkeypatch.undo()
    assert server.post("/api/predict/tails", TAILS).status_code == 200


def test_a_computation_stops_at_its_deadline(run_folder, monkeypatch):
    with serve(run_folder, Limits(seconds=0.5)) as server:
        gate = Gate()
        monkeypatch.setattr(server.served, "statistics", gate)
        assert server.get("/api/graph").status_code == 504
        assert gate.cancelled.wait(PATIENCE)
        assert server.get("/health").status_code == 200


def test_cancellation_reaches_every_long_loop(run_folder):
    model = fivestar.load(run_folder)
    tries = {
        "entities": lambda: model.predict_tails("Zentity-1", "Zrelation-0"),
        "relations": lambda: model.predict_relations("Zentity-1", "Zentity-2"),
        "score": lambda: model.score("Zentity-1", "Zrelation-0", "Zentity-2"),
        "similar": lambda: model.similar("Zentity-1"),
        "explain": lambda: model.explain("Zentity-1", "Zrelation-0", "Zentity-2"),
    }
    for work in tries.values():
        work()
        with pytest.raises(Cancelled), cancel_when(lambda: True):
            work()


def test_cancellation_is_noticed_between_tiles(run_folder):
    model, seen = fivestar.load(run_folder).model, []
    queries = Queries.for_tails(np.array([0]), np.array([0]), 4)
    tiles = ((start, torch.empty(1, 1)) for start in range(10))

    def work(filled):
        for start, _ in filled:
            seen.append(start)

    with pytest.raises(Cancelled), cancel_when(lambda: len(seen) == 3):
        score_parts(model, queries, [tiles], work)
    assert seen == [0, 1, 2]


def test_tsne_is_killed_when_cancelled(monkeypatch):
    processes = []

    def popen(*words, **more):
        processes.append(subprocess.Popen(*words, **more))
        return processes[-1]

    fake = type("Fake", (), {**vars(subprocess), "Popen": staticmethod(popen)})
    monkeypatch.setattr(tsne, "subprocess", fake)
    with pytest.raises(Cancelled), cancel_when(lambda: bool(processes)):
        tsne.project_in_process(np.random.default_rng(0).normal(size=(5000, 50)))
    assert processes[0].returncode == -9


@pytest.mark.parametrize("width", [4, 50_000])
def test_tsne_in_a_process_is_the_same(monkeypatch, width):
    """Also where the input is larger than a pipe and the process slow to read it."""
    monkeypatch.setattr(tsne, "_INTERVAL", 0.001)
    rows = np.random.default_rng(0).normal(size=(30, width))
    np.testing.assert_allclose(tsne.project_in_process(rows), tsne.project(rows), rtol=1e-3)


def test_suggestions_are_bounded_in_time_and_off_the_event_loop(server, monkeypatch):
    threads = []
    search = server.served._relation_search
    find = type(search).find

    def recorded(self, *more):
        threads.append(threading.current_thread().name)
        return find(self, *more)

    monkeypatch.setattr(type(search), "find", recorded)
    wrong = {"queries": [["Zentity-1", f"Zrelation_{n}", "_"] for n in range(1000)]}
    refused = server.post("/api/predict/batch", wrong)
    assert refused.status_code == 404
    assert "Zrelation-0" in refused.json()["errors"][0]["nearest"]
    assert threads
    assert all(name.startswith("lookup") for name in threads)
    assert len(threads) < 20
    monkeypatch.setattr(service_module, "_SUGGESTION_SECONDS", -1)
    with pytest.raises(UnknownName) as unknown:
        service_module.find(search, "Zrelation_0")
    assert unknown.value.suggestions == []


@pytest.mark.parametrize(
    "body",
    [
        {f"a{n}": 0 for n in range(70_000)},
        {"queries": [[0, 0, 0]] * 70_000},
        {"queries": [["", "", "", 0]] * 60_000},
        {"queries": [["a", "b", "_"]], "types": [0] * 200_000},
    ],
    ids=range(4),
)
def test_one_error_of_very_many_is_enough(server, body):
    refused = server.post("/api/predict/batch", body)
    assert refused.status_code == 422
    assert len(refused.json()["errors"]) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), max_size=50))
@settings(max_examples=100, deadline=None)
def test_the_cache_is_bounded(requests):
    cache = responses.ByteCache(100)
    for key, size in requests:
        assert cache.get((key, size), lambda key=key, size=size: bytes([key]) * size) == (
            bytes([key]) * size
        )
        assert cache.num_bytes() <= 100
    if requests and requests[-1][1]:
        assert cache.peek(requests[-1]) is not None


VALUES = st.integers() | st.text() | st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text(), st.lists(VALUES) | st.dictionaries(st.text(), VALUES)))
@settings(max_examples=100, deadline=None)
def test_json_in_parts_is_the_same(content):
    for most in (1, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(responses, "_MAX_ITEMS", most)
            text = responses.to_json(content)
        assert text.decode() == json.dumps(content, ensure_ascii=False)


def test_maps_of_all_sizes_do_not_fill_the_memory(run_folder):
    with serve(run_folder, Limits(cache_bytes=20_000)) as server:
        for limit in range(3, 40):
            assert server.get(f"/api/map?limit={limit}").status_code == 200
            assert server.served.cache.num_bytes() <= 20_000


# Connections are limited before a token is checked.


def _answer(there):
    """Return everything that is sent until the connection is closed."""
    there.settimeout(PATIENCE)
    parts = []
    with suppress(ConnectionError):
        while part := there.recv(65536):
            parts.append(part)
    return b"".join(parts)


START = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("begin", [START + b"X: ", START, b"GET /", b"", b"\r\n"])
def test_endless_headers_are_cut_off(server, begin):
    line = b"y: " + b"x" * 1000 + b"\r\n" if begin == START else b"x" * 4096
    line = b"\r\n" * 2048 if begin == b"\r\n" else line
    sent = 0
    with server.connect() as there:
        there.sendall(begin)
        with suppress(OSError):
            while sent < 50 << 20:
                there.sendall(line)
                sent += len(line)
        assert sent < 50 << 20
    assert server.get("/health").status_code == 200


def test_a_large_head_is_refused_with_a_problem_document(server):
    with server.connect() as there:
        there.sendall(START + b"X: " + b"x" * (65536 - len(START) - 3))
        head, _, body = _answer(there).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "headers-too-large"


def test_a_client_that_does_not_read_is_disconnected(run_folder):
    """Its response is far larger than all buffers, and its connection the only one allowed."""
    queries = {"queries": [["Zentity-1", "Zrelation-0", "_"]] * 1000, "top": 100}
    body = json.dumps(queries).encode()
    head = (
        "POST /api/predict/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with serve(run_folder, Limits(seconds=5, client_connections=1)) as server:
        while server.get("/ready").status_code != 200:
            time.sleep(0.01)
        host, port = server.address.removeprefix("http://").split(":")
        with socket.socket() as there:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            there.connect((host, int(port)))
            there.sendall(head.encode() + body)
            assert there.recv(12) == b"HTTP/1.1 200"
            assert server.get("/health").status_code == 429
            closed = select.poll()
            closed.register(there, 0)  # hang-ups only, not that there is something to read
            assert closed.poll(1000 * PATIENCE), "the connection is still open"
            assert server.get("/health").status_code == 200
            assert server.post("/api/predict/tails", TAILS).status_code == 200
            assert server.service._unsent_answers == 0


@pytest.fixture(scope="module")
def hasty(run_folder):
    """A server with narrow limits."""
    limits = Limits(header_seconds=2, client_connections=3, header_bytes=2048, body_bytes=1000)
    with serve(run_folder, limits) as opened:
        yield opened


@pytest.mark.parametrize("begin", [b"", b"GET /", START, START + b"X: "])
def test_slow_headers_are_cut_off(hasty, begin):
    with hasty.connect() as there:
        there.sendall(begin)
        there.settimeout(0.05)
        received, end = b"", time.monotonic() + PATIENCE
        while time.monotonic() < end:  # a byte now and then
            try:
                if begin:
                    there.sendall(b"x")
                part = there.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            received += part
            if not part:
                break
        else:
            pytest.fail("the connection was never closed")
    assert not received or received.startswith(b"HTTP/1.1 408 ")


def test_the_second_request_of_a_connection_is_limited_too(hasty):
    with hasty.connect() as there:
        there.sendall(START + b"\r\n")
        assert there.recv(4096).startswith(b"HTTP/1.1 200 ")
        there.sendall(START)
        assert _answer(there).startswith(b"HTTP/1.1 408 ")


def test_connections_per_client_are_limited(hasty):
    opened = [hasty.connect() for _ in range(3)]
    try:
        for there in opened:
            there.sendall(START)
        with hasty.connect() as there:
            refused = _answer(there)
            assert refused.startswith(b"HTTP/1.1 429 ")
            assert b"application/problem+json" in refused
    finally:
        for there in opened:
            there.close()
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(httpx.TransportError):
            if hasty.get("/health").status_code == 200:
                break
        assert time.monotonic() < end


def test_a_client_is_an_address_or_a_network():
    assert client_network("192.0.2.1") != client_network("192.0.2.2")
    assert client_network("::ffff:192.0.2.1") == client_network("192.0.2.1")
    assert client_network("2001:db8::1") == client_network("2001:db8::2%eth0")
    assert client_network("2001:db8:0:1::1") != client_network("2001:db8:0:2::1")


def test_pipelined_requests_are_limited(server):
    with server.connect() as there:
        with suppress(OSError):
            there.sendall((START + b"\r\n") * 5000)
        assert _answer(there).count(b"HTTP/1.1 200 ") < 5000
    assert server.get("/health").status_code == 200


def test_a_body_after_its_response_is_cut_off(hasty):
    """Who is refused cannot hold the connection by sending on, ever so slowly."""
    head = b"POST /api/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n"
    with hasty.connect() as there:
        there.sendall(head)
        assert there.recv(4096).startswith(b"HTTP/1.1 413 ")
        end = time.monotonic() + PATIENCE
        with suppress(OSError):
            while time.monotonic() < end:
                there.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < end


def test_endless_trailers_are_cut_off(server):
    head = START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    sent = 0
    with server.connect() as there:
        there.sendall(head + b"X: ")
        with suppress(OSError):
            while sent < 50 << 20:
                there.sendall(b"x" * 65536)
                sent += 65536
    assert sent < 50 << 20


def test_an_upgrade_is_ignored(server):
    with server.connect() as there:
        upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
        there.sendall(START + upgrade)
        assert there.recv(4096).startswith(b"HTTP/1.1 200 ")


# Files that change while they are served.


def test_a_model_that_is_damaged_while_it_is_served(run_folder, tmp_path):
    """Truncated in place, a mapped file would end the server; zeroed, it would answer wrongly."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    with started(str(folder)) as (process, address):

        def ask():
            body = {"queries": [[f"Zentity-{n}", "Zrelation-0", "_"] for n in range(40)]}
            return httpx.post(f"{address}/api/predict/batch", json=body, timeout=PATIENCE).json()

        before = ask()
        for file in [each for each in folder.rglob("*") if each.is_file()]:
            size = file.stat().st_size
            os.truncate(file, 0)
            os.truncate(file, size)  # zeros
        assert ask() == before
        for file in [each for each in folder.rglob("*") if each.is_file()]:
            os.truncate(file, 0)
        assert ask() == before
        assert process.poll() is None


def test_served_weights_cannot_be_changed(run_folder):
    with sealed_copies([run_folder]) as (copy,):
        model = load_run(run_folder, weights=copy).model
        before = model.entities.clone()
        with pytest.raises(OSError):  # noqa: PT011
            os.truncate(copy, 0)
        with pytest.raises(OSError), copy.open("r+b", buffering=0) as file:  # noqa: PT011
            file.write(b"\0" * 100)
        assert torch.equal(model.entities, before)
    assert torch.equal(load_run(run_folder).model.entities, before)


def test_copied_weights_are_those_of_the_manifest(run_folder, monkeypatch):
    monkeypatch.setattr(weights_module, "listed_files", lambda _: {"model.safetensors": "\0" * 999})
    with (
        pytest.raises(DamagedRun, match="has changed since it was written"),
        sealed_copies([run_folder]),
    ):
        pass


@pytest.mark.slow
def test_a_server_whose_workers_cannot_start_gives_up(run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    # The run is removed between the check of the parent and the start of its workers.
    code = f"""
import shutil
import fivestar.server.serve as serve
serve.load = lambda *_, **__: shutil.rmtree({str(folder)!r})
if __name__ == "__main__":
    serve.serve({str(folder)!r}, port=0, workers=2, on_start=print)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1
    assert "no worker process can start" in done.stderr


# Who has no token sees nothing, and foreign hosts get nothing.


def test_nothing_of_the_graph_is_shown_without_the_token(run_folder, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token-that-nobody-guesses")
    with serve(run_folder, token_file=token) as server:
        paths = {"/", "/docs", "/openapi.json", "/nothing", "/static/none"}
        paths |= set(server.get("/openapi.json").json()["paths"])
        for path in paths:
            for method in ("GET", "POST", "OPTIONS", "HEAD", "PUT"):
                address = f"{server.address}{path}"
                found = httpx.request(method, address, json=TAILS, timeout=PATIENCE)
                assert "Z" not in str(found.headers)
                assert not any(name in found.text for name in ("Zentity", "Zrelation"))
                if path.startswith("/api") and method in {"GET", "POST"}:
                    assert found.status_code == 401
        allowed = {"authorization": f"Bearer {token.read_text()}"}
        assert "Zrelation" in server.get("/api/relations", headers=allowed).text


@pytest.mark.parametrize(
    "host",
    [
        "[127.0.0.1].evil.com",
        "[::1].evil.com",
        "[127.0.0.1]",
        "[localhost]",
        "[::1",
        "::1]",
        "localhost.evil.com",
        "localhost:80:80",
        "localhost:evil.com",
        "localhost:80@evil.com",
        "evil.com:80",
        "localhost, evil.com",
        "localhost/evil.com",
        "127.0.0.1.evil.com",
        "",
    ],
)
def test_odd_hosts_are_refused(server, host):
    refused = server.get("/health", headers={"host": host})
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown-host")


def test_two_hosts_are_refused(server):
    with server.connect() as there:
        there.sendall(START + b"Host: evil.com\r\nConnection: close\r\n\r\n")
        assert b"unknown-host" in _answer(there)


@given(st.text(st.sampled_from("[]:.@1270localhst evi/,"), max_size=24))
@settings(max_examples=500, deadline=None)
def test_only_a_local_name_and_a_port_are_local(header):
    """Whatever the header, a name that passes is the whole of it but for a port."""
    name = host_name(header)
    if name in LOOPBACK:
        written = f"[{name}]" if ":" in name else name
        rest = header.lower().replace("0:0:0:0:0:0:0:1", "::1").removeprefix(written)
        assert rest == "" or (rest[0] == ":" and (rest[1:].isdecimal() or rest == ":"))


def test_allowed_hosts_ignore_case(run_folder):
    hosts = ["Graphs.Example", "2001:DB8::1", "[::1]"]
    with serve(run_folder, allowed_hosts=hosts) as server:
        for name in ("graphs.example", "GRAPHS.EXAMPLE:80", "[2001:db8:0::1]:8005", "[::1]"):
            assert server.get("/health", headers={"host": name}).status_code == 200
        assert server.get("/health", headers={"host": "localhost"}).status_code == 400
    for wrong in ("https://graphs.example", "graphs.example:80", "[::1]:80", "a b", ""):
        with pytest.raises(SettingsError, match="is no host name"):
            allowed_host(wrong)


def test_the_event_loop_is_not_needed_by_a_closed_lane(run_folder):
    """A server that stops does not wait for its computations."""

    async def work():
        guard = make_app(ServerSettings(runs=[run_folder]))
        service, gate = guard.app.state.service, Gate()
        task = asyncio.create_task(service.analysis.run(gate))
        assert await asyncio.to_thread(gate.begun.wait, PATIENCE)
        service.close()
        assert await asyncio.to_thread(gate.cancelled.wait, PATIENCE)
        task.cancel()

    asyncio.run(work())
