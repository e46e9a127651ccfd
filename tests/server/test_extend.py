"""New entities and streams of new facts over HTTP."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from tests.server.serving import running, serving

import fivestar
from fivestar.cancellation import check_cancelled
from fivestar.errors import Cancelled, SettingsError
from fivestar.server.app import make_app
from fivestar.server.routes import extend
from fivestar.server.settings import Limits, ServerSettings

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105
FACTS = [["Atlantis", "in_country", "France"], ["Paris", "twinned_with", "Atlantis"]]


@pytest.fixture(scope="module")
def settings(served_runs, tmp_path_factory):
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN)
    limits = Limits(folded_in=2)
    return ServerSettings(runs=served_runs[:1], token_file=file, fold_in=True, limits=limits)


@pytest.fixture(scope="module")
def extending(settings):
    headers = {"authorization": f"Bearer {TOKEN}"}
    with (
        serving(settings) as address,
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        yield client


def relation_of(client):
    return client.get("/api/relations").json()["relations"][0]["id"]


def test_a_new_entity_can_be_queried(extending):
    query = {"head": "Atlantis", "relation": "in_country", "top": 5}
    assert extending.post("/api/predict/tails", json=query).status_code == 404
    body = {"facts": [FACTS[0], ["Pariss", "in_country", "France"]], "epochs": 5}
    found = extending.post("/api/fold-in", json=body)
    assert found.status_code == 200, found.text
    assert found.json()["entities"][0] == {"id": "Atlantis", "label": "Atlantis"}
    assert "did you mean 'Paris'" in found.json()["warnings"][1]
    answers = extending.post("/api/predict/tails", json=query).json()["answers"]
    france = next(answer for answer in answers if answer["id"] == "France")
    assert (france["split"], france["state"]) == ("train", "in train")
    assert extending.get("/api/entities?q=atlantis").json()["entities"][0]["id"] == "Atlantis"
    assert "fivestar_folded_in_entities_total 2" in extending.get("/metrics").text
    # No more than the limit.
    refused = extending.post("/api/fold-in", json={"facts": [["Mu", "in_country", "France"]]})
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
    assert "at most 2 per run" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "reported"),
    [
        ({"facts": []}, 422, "at least 1"),
        ({"facts": [["Lyon", "in_country", "France"]]}, 422, "in the model already"),
        ({"facts": [["Mu", "in_county", "France"]]}, 404, "in_country"),
        ({"facts": [["Mu", "in_country", "France"]], "epochs": 0}, 422, "epochs"),
        ({"facts": [["Mu", "in_country", "France"]] * 9000, "epochs": 1000}, 413, "multiply-adds"),
    ],
)
def test_invalid_facts(extending, body, status, reported):
    found = extending.post("/api/fold-in", json=body)
    assert found.status_code == status, found.text
    assert reported in found.text


def test_fold_in_is_off_by_default_and_needs_a_token(client, extending, settings):
    refused = client.post("/api/fold-in", json={"facts": FACTS})
    assert (refused.status_code, refused.json()["code"]) == (403, "not-allowed")
    anonymous = httpx.post(f"{extending.base_url}/api/fold-in", json={"facts": FACTS})
    assert anonymous.status_code == 401
    for changed, reported in (({"token_file": None}, "token"), ({"workers": 2}, "workers=1")):
        with pytest.raises(SettingsError, match=reported):
            make_app(settings.model_copy(update=changed))


def lines_of(found):
    assert found.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in found.text.splitlines()]


def test_new_facts_are_those_of_the_library(client, served_runs):
    model = fivestar.load(served_runs[0])
    relation = relation_of(client)
    found = client.get("/api/complete", params={"relation": relation, "top": 20})
    assert found.status_code == 200, found.text
    *triples, end = lines_of(found)
    expected = model.complete(top=20, relations=[relation]).table.to_pylist()
    names = [(t["head"]["id"], t["relation"]["id"], t["tail"]["id"]) for t in triples]
    assert end == {"count": len(triples), "is_complete": True}
    assert names == [(t["head"], t["relation"], t["tail"]) for t in expected][: len(names)]
    for one, other in zip(triples, expected, strict=False):
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-3)


def test_several_relations_and_a_threshold(client):
    names = [each["id"] for each in client.get("/api/relations").json()["relations"][:2]]
    found = client.get("/api/complete", params={"relation": names, "threshold": 0.2})
    *triples, _ = lines_of(found)
    assert triples
    assert {t["relation"]["id"] for t in triples} <= set(names)
    assert all(t["probability"] >= 0.2 for t in triples)
    order = [names.index(t["relation"]["id"]) for t in triples]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("query", "status", "reported"),
    [
        ("top=3", 422, "relation"),
        ("relation=in_country&threshold=1.5", 422, "threshold"),
        ("relation=in_county&top=3", 404, "in_country"),
        ("relation=in_country&top=1001", 422, "at most 1,000"),
    ],
)
def test_invalid_completions(client, query, status, reported):
    found = client.get(f"/api/complete?{query}")
    assert found.status_code == status, found.text
    assert reported in found.text


def test_completions_without_calibration(served_runs):
    guard = make_app(ServerSettings(runs=served_runs[:1]))
    guard.app.state.service.model(None).model.__dict__["calibration"] = None
    with running(guard) as address:
        refused = httpx.get(f"{address}/api/complete?relation=in_country&threshold=0.5")
        assert (refused.status_code, refused.json()["code"]) == (409, "not-calibrated")
        first, _ = lines_of(httpx.get(f"{address}/api/complete?relation=in_country&top=1"))
        assert first["probability"] is None


def test_completions_are_bounded(served_runs):
    settings = ServerSettings(runs=served_runs[:1], limits=Limits(answers=4, work=1e8))
    with serving(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
        relations = [each["id"] for each in client.get("/api/relations").json()["relations"]]
        refused = client.get("/api/complete", params={"relation": relations, "top": 3})
        assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
        found = client.get("/api/complete", params={"relation": relations[-1:] * 3, "top": 3})
        *triples, end = lines_of(found)
        assert (len(triples), end["is_complete"]) == (4, False)


def test_a_stream_stops_when_its_client_leaves(served_runs, monkeypatch):
    begun, cancelled = threading.Event(), threading.Event()
    real = extend.Completer.complete_relation
    calls = []

    def complete_relation(self, *arguments):
        calls.append(arguments)
        if len(calls) == 1:
            return real(self, *arguments)
        begun.set()
        while True:
            threading.Event().wait(0.01)
            try:
                check_cancelled()
            except Cancelled:
                cancelled.set()
                raise

    monkeypatch.setattr(extend.Completer, "complete_relation", complete_relation)
    guard = make_app(ServerSettings(runs=served_runs[:1]))
    with running(guard) as address, httpx.Client(base_url=address, timeout=60) as client:
        parameters = {"relation": [relation_of(client)] * 2, "top": 2}
        with client.stream("GET", "/api/complete", params=parameters) as stream:
            # The first relation is there while the second is computed.
            assert json.loads(next(stream.iter_lines()))["probability"] > 0
            assert begun.wait(60)
        assert cancelled.wait(60)
