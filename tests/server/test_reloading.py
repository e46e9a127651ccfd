"""A run whose folder changes is served in its new version; a damaged one changes nothing."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.server.serving import running, started

import fivestar
from fivestar.server.app import make_app
from fivestar.server.settings import ServerSettings
from fivestar.server.weights import is_current, sealed_copies

FACTS = [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)]
BODY = {"head": "e1", "relation": "next", "top": 3}


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Two versions of a run: the second knows another entity."""
    place = tmp_path_factory.mktemp("versions")
    settings = {"model": {"dim": 4}, "training": {"epochs": 1}}
    more = [*FACTS, ("later", "next", "e1"), ("e2", "next", "later")]
    for name, facts in (("one", FACTS), ("two", more)):
        fivestar.train(fivestar.read_graph(facts), settings, place / name)
    return place / "one", place / "two"


@pytest.fixture
def folder(versions, tmp_path):
    shutil.copytree(versions[0], tmp_path / "run")
    return tmp_path / "run"


def put(version, folder):
    """Copy a version over another, file by file: in between, the folder is damaged."""
    shutil.copytree(version, folder, dirs_exist_ok=True)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reloads(address):
    text = httpx.get(f"{address}/metrics").text
    return {
        sample.labels["result"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name == "fivestar_run_reloads"
    }


def test_a_new_version_is_served(folder, versions, caplog):
    guard = make_app(ServerSettings(runs=[folder], reload_interval=0.05))
    service = guard.app.state.service
    with running(guard) as address:
        before = service.model(None)
        knows_later = {"head": "later", "relation": "next"}
        assert httpx.post(f"{address}/api/predict/tails", json=knows_later).status_code == 404
        # A request that begins with the old version ends with it.
        begun, opened = threading.Event(), threading.Event()
        predict = before.model.predict_ids

        def predict_ids(*arguments):
            begun.set()
            assert opened.wait(60)
            return predict(*arguments)

        before.model.__dict__["predict_ids"] = predict_ids
        found = []
        path = f"{address}/api/predict/tails"
        slow = threading.Thread(
            target=lambda: found.append(httpx.post(path, json=BODY, timeout=60))
        )
        slow.start()
        assert begun.wait(60)
        # A damaged version changes nothing.
        (folder / "model.safetensors").write_bytes(b"damaged")
        shutil.copy(versions[1] / "manifest.json", folder)
        wait_until(lambda: reloads(address)["failed"] >= 1)
        assert service.model(None) is before
        assert "Keeping the old version of the run run" in caplog.text
        assert "has changed since it was written" in caplog.text
        put(versions[1], folder)
        wait_until(lambda: service.model(None) is not before)
        opened.set()
        slow.join(60)
        assert found[0].status_code == 200
        assert httpx.post(path, json=knows_later).status_code == 200
        assert reloads(address)["loaded"] == 1
        info = httpx.get(f"{address}/api/runs").json()["runs"][0]
        assert (info["version"], info["num_entities"]) == (service.model(None).version, 13)
        assert info["version"] != before.version


def test_a_touched_folder_is_not_loaded_again(folder):
    guard = make_app(ServerSettings(runs=[folder], reload_interval=60))
    service, reloader = guard.app.state.service, guard.app.state.reloader
    before = service.model(None)
    (folder / "manifest.json").touch()
    asyncio.run(reloader.check("run"))
    assert service.model(None) is before
    assert 'result="loaded"} 0' in service.metrics.text()
    shutil.rmtree(folder)
    asyncio.run(reloader.check("run"))
    assert 'result="failed"} 1' in service.metrics.text()
    service.close()


def test_runs_are_not_watched_by_default(folder):
    guard = make_app(ServerSettings(runs=[folder]))
    assert guard.app.state.reloader is None
    guard.app.state.service.close()


def test_a_copy_of_other_weights_is_not_used(folder, versions):
    with sealed_copies([folder]) as copies:
        if not copies:
            pytest.skip("this system has no sealed memory")
        assert is_current(copies[0], folder)
        put(versions[1], folder)
        assert not is_current(copies[0], folder)


@pytest.mark.slow
def test_all_workers_reload(folder, versions):
    words = ("--workers", "2", "--reload-interval", "0.1")
    with started(str(folder), *words) as (_, address):
        put(versions[1], folder)
        body = {"head": "later", "relation": "next"}
        path = f"{address}/api/predict/tails"
        assert httpx.post(path, json=body).status_code in {200, 404}
        # Each connection reaches any of the workers.
        wait_until(lambda: all(httpx.post(path, json=body).is_success for _ in range(20)))
        assert reloads(address)["loaded"] >= 1
