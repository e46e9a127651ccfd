"""The page's first view: probable facts are searched once, in the background, and cached."""

from __future__ import annotations

import os
import shutil
import threading
import time

import httpx
import pyarrow.parquet as pq
import pytest
from tests.server.serving import serving

import fivestar
from fivestar.cancellation import check_cancelled
from fivestar.runs.run import CACHE
from fivestar.server import probable_facts
from fivestar.server.probable_facts import CACHE_FILE
from fivestar.server.settings import ServerSettings


@pytest.fixture
def own_run(served_runs, tmp_path):
    """A copy of a run in which nothing is cached."""
    return shutil.copytree(served_runs[0], tmp_path / "own", ignore=shutil.ignore_patterns(CACHE))


def opened(address):
    return httpx.Client(base_url=address, timeout=60)


def finished(client, **parameters):
    """Wait until the search is done."""
    for _ in range(300):
        response = client.get("/api/probable-facts", params=parameters)
        assert response.status_code == 200, response.text
        if response.json()["status"] == "done":
            return response.json()
        time.sleep(0.1)
    raise AssertionError("the search did not end")


def test_facts_agree_with_complete(own_run):
    model = fivestar.load(own_run)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        found = finished(client, limit=10)
        expected = model.complete(top=10, second_answers=False)
        rows = expected.table.to_pylist()
        for fact, row in zip(found["facts"], rows, strict=True):
            assert [fact[slot]["id"] for slot in ("head", "relation", "tail")] == [
                row["head"],
                row["relation"],
                row["tail"],
            ]
            assert fact["probability"] == pytest.approx(row["probability"], rel=1e-5)
        assert found["searched"]["is_complete"]
        assert found["searched"]["relations"] == 9
        assert sum(each["num_facts"] for each in found["relations"]) == found["num_facts"]
        one = finished(client, relation="NEIGHBOUR_OF", limit=3)
        assert {fact["relation"]["id"] for fact in one["facts"]} == {"neighbour_of"}
        (counted,) = [each for each in found["relations"] if each["id"] == "neighbour_of"]
        assert one["num_facts"] == counted["num_facts"]
        assert len(finished(client)["facts"]) == 5
        for wrong, status in ({"relation": "nothing"}, 404), ({"limit": 101}, 422):
            assert client.get("/api/probable-facts", params=wrong).status_code == status


def test_the_cache_is_used_and_the_run_stays_intact(own_run, monkeypatch):
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        found = finished(client)
    assert (own_run / CACHE / CACHE_FILE).is_file()
    fivestar.load(own_run)  # it still matches its manifest

    def fail(*_):
        raise AssertionError("searched again")

    monkeypatch.setattr(probable_facts, "find_probable_facts", fail)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        assert finished(client) == found


@pytest.mark.parametrize("damage", ["truncated", "other run", "not parquet"])
def test_a_cache_that_is_not_this_run_s_is_searched_again(own_run, damage):
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        found = finished(client)
    path = own_run / CACHE / CACHE_FILE
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "not parquet":
        path.write_text("facts")
    else:
        table = pq.read_table(path).slice(0, 3)
        metadata = {**table.schema.metadata, b"fingerprint": b"another"}
        pq.write_table(table.replace_schema_metadata(metadata), path)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        assert finished(client) == found


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be made read-only there")
def test_a_read_only_folder_is_no_problem(own_run, monkeypatch):
    # Root may write anywhere, so the write itself fails.
    def refuse(*_):
        raise fivestar.errors.OutputError("read-only")

    monkeypatch.setattr(probable_facts, "write_atomic", refuse)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        assert finished(client)["facts"]
    assert not (own_run / CACHE / CACHE_FILE).exists()


def test_other_requests_do_not_wait_for_a_search(own_run, monkeypatch):
    go = threading.Event()
    original = probable_facts.find_probable_facts

    def slow(model, per_relation, max_queries, progress):
        progress(1, 4)
        assert go.wait(60)
        return original(model, per_relation, max_queries, progress)

    monkeypatch.setattr(probable_facts, "find_probable_facts", slow)
    monkeypatch.setattr(probable_facts, "_PATIENCE", 0.1)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        running = client.get("/api/probable-facts").json()
        assert (running["status"], running["progress"]) == ("running", 0.25)
        assert (running["facts"], running["searched"]) == ([], None)
        query = {"head": "Lyon", "relation": "in_country"}
        assert client.post("/api/predict/tails", json=query).json()["answers"]
        assert client.get("/api/similar", params={"entity": "Lyon"}).status_code == 200
        go.set()
        assert finished(client)["facts"]


def test_the_server_stops_during_a_search(own_run, monkeypatch):
    stopped = threading.Event()

    def endless(*_):
        try:
            while True:
                check_cancelled()
                time.sleep(0.01)
        finally:
            stopped.set()

    monkeypatch.setattr(probable_facts, "find_probable_facts", endless)
    monkeypatch.setattr(probable_facts, "_PATIENCE", 0.1)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        assert client.get("/api/probable-facts").json()["status"] == "running"
    assert stopped.wait(10)


def test_a_failed_search_is_reported_and_repeated(own_run, monkeypatch):
    def fail(*_):
        raise fivestar.errors.SettingsError("the search broke")

    with monkeypatch.context() as broken:
        broken.setattr(probable_facts, "find_probable_facts", fail)
        with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
            for _ in range(2):
                response = client.get("/api/probable-facts")
                assert response.status_code == 422
                assert "the search broke" in response.json()["detail"]
            broken.undo()
            assert finished(client)["facts"]


def test_a_large_graph_is_searched_in_part(own_run, monkeypatch):
    monkeypatch.setattr(probable_facts, "SEARCH_WORK", 1e9)
    with serving(ServerSettings(runs=[own_run])) as address, opened(address) as client:
        searched = finished(client)["searched"]
    assert not searched["is_complete"]
    assert searched["queries"] < searched["num_queries"]
