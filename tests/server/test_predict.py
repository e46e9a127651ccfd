"""Predictions over HTTP equal those of the library; every error is a problem document."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.server.serving import serving

import fivestar
from fivestar.server.settings import ServerSettings


@pytest.fixture(scope="module")
def model(served_runs):
    return fivestar.load(served_runs[0])


def predict(client, kind, **body):
    return client.post(f"/api/predict/{kind}", json=body)


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected.as_json(), strict=True):
        assert one["score"] == pytest.approx(other.pop("score"), abs=1e-4)
        probability = other.pop("probability")
        if probability is None:
            assert one["probability"] is None
        else:
            assert one["probability"] == pytest.approx(probability, abs=1e-3)
        assert {key: one[key] for key in other} == other


def test_same_answers_as_the_library(client, model):
    found = predict(client, "tails", head="lyon", relation="in_country", top=5).json()
    same(found["answers"], model.predict_tails("Lyon", "in_country", top=5))
    assert found["query"] == {
        "head": {"id": "Lyon", "label": "Lyon"},
        "relation": {"id": "in_country", "label": "in_country"},
        "tail": None,
    }
    assert found["run"] == "fivestar"
    body = {"relation": "in_country", "tail": "France", "which": "new", "types": ["city"]}
    found = predict(client, "heads", **body).json()
    expected = model.predict_heads("in_country", "France", which="new", types=["city"])
    same(found["answers"], expected)
    found = predict(client, "relations", head="Lyon", tail="France").json()
    same(found["answers"], model.predict_relations("Lyon", "France"))
    body = {"head": "Lyon", "relation": "in_country", "tail": "France"}
    found, expected = client.post("/api/score", json=body).json(), model.score(*body.values())
    assert found["score"] == pytest.approx(expected.score, abs=1e-4)
    assert (found["rank"], found["split"]) == (expected.rank, expected.split)


def test_another_run(client, served_runs):
    found = predict(client, "tails", run="complex", head="Lyon", relation="in_country").json()
    assert found["run"] == "complex"
    same(found["answers"], fivestar.load(served_runs[1]).predict_tails("Lyon", "in_country"))
    missing = predict(client, "tails", run="rotate", head="Lyon", relation="in_country")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-run")
    assert "fivestar, complex" in missing.json()["detail"]


def test_a_batch(client, model):
    queries = [
        ("Lyon", "in_country", "_"),
        ("?", "in_country", "France"),
        ("Lyon", "_", "France"),
    ]
    found = predict(client, "batch", queries=queries, top=3).json()["results"]
    expected = model.predict(queries, top=3)
    for one, other in zip(found, expected, strict=True):
        same(one["answers"], other)


def test_a_batch_reports_all_errors(client):
    queries = [
        ("Lyon", "in_country", "_"),
        ("Lyyon", "in_country", "_"),
        ("_", "_", "France"),
        ("Lyon", "in_country", "France"),
    ]
    found = predict(client, "batch", queries=queries)
    assert found.status_code == 404
    assert [(each["query"], each["status"]) for each in found.json()["errors"]] == [
        (1, 404),
        (2, 422),
        (3, 422),
    ]
    assert found.json()["errors"][0]["nearest"] == ["Lyon"]


def test_concurrent_queries_are_batched(client, model):
    cities = [answer.id for answer in model.predict_heads("in_country", "France", top=64)]
    before = _metric(client, "fivestar_batches_total")
    with ThreadPoolExecutor(16) as pool:
        work = [
            pool.submit(predict, client, "tails", head=city, relation="in_country", top=1 + at % 3)
            for at, city in enumerate(cities)
        ]
    for at, (city, done) in enumerate(zip(cities, work, strict=True)):
        expected = model.predict_tails(city, "in_country", top=1 + at % 3)
        same(done.result().json()["answers"], expected)
    assert _metric(client, "fivestar_queries_total") >= len(cities)
    assert _metric(client, "fivestar_batches_total") > before


def _metric(client, name):
    (line,) = [x for x in client.get("/metrics").text.splitlines() if x.startswith(name + " ")]
    return float(line.split()[1])


@pytest.mark.parametrize(
    ("kind", "body", "status", "code", "reported"),
    [
        ("tails", {"head": "Lyyon", "relation": "in_country"}, 404, "unknown-name", "'Lyon'"),
        ("tails", {"head": "Lyon", "relation": "in_county"}, 404, "unknown-name", "in_country"),
        ("tails", {"head": "Lyon"}, 422, "invalid", "relation: Field required"),
        ("tails", {"head": "", "relation": "in_country"}, 422, "invalid", "at least 1 char"),
        ("tails", {"head": "_", "relation": "in_country"}, 404, "unknown-name", "no entity '_'"),
        ("tails", {"head": "x" * 10_001, "relation": "r"}, 422, "invalid", "at most 10000"),
        ("tails", {"head": "Lyon", "relation": "in_country", "topp": 3}, 422, "invalid", "topp"),
        ("tails", {"head": "Lyon", "relation": "in_country", "top": 0}, 422, "invalid", "top"),
        ("tails", {"head": "Lyon", "relation": "in_country", "top": 1001}, 422, "invalid", "1,000"),
        ("tails", {"head": "Lyon", "relation": "in_country", "top": 1e99}, 422, "invalid", "top"),
        ("tails", {"head": "Lyon", "relation": "in_country", "which": "x"}, 422, "invalid", "all"),
        (
            "heads",
            {"relation": "in_country", "tail": "France", "types": ["citi"]},
            404,
            "unknown-name",
            "'city'",
        ),
        ("relations", {"head": "Lyon", "tail": "France", "types": ["city"]}, 422, "invalid", ""),
        ("batch", {"queries": []}, 422, "invalid", "at least 1"),
        ("batch", {"queries": [["a", "b"]]}, 422, "invalid", "queries.0"),
        (
            "batch",
            {"queries": [["Lyon", "in_country", "_"]] * 1001},
            413,
            "too-large",
            "at most 1,000",
        ),
        (
            "batch",
            {"queries": [["Lyon", "_", "France"]], "types": ["city"]},
            422,
            "invalid",
            "a relation has none",
        ),
    ],
)
def test_errors(client, kind, body, status, code, reported):
    found = client.post(f"/api/predict/{kind}", json=body)
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    document = found.json()
    assert (document["status"], document["code"]) == (status, code)
    assert reported in document["detail"]


def test_an_ambiguous_name(tmp_path):
    graph = tmp_path / "graph"
    graph.mkdir()
    rows = [f"p{i}\tknows\tp{(i + 1) % 8}\n" for i in range(8)]
    for split, some in (("train", rows), ("valid", rows[:1]), ("test", rows[1:2])):
        (graph / f"{split}.txt").write_text("".join(some))
    (graph / "entity_labels.tsv").write_text("".join(f"p{i}\tTwin\n" for i in (1, 2)))
    settings = {"model": {"dim": 4}, "training": {"epochs": 1}}
    fivestar.train(fivestar.read_graph(graph), settings, tmp_path / "run")
    with serving(ServerSettings(runs=[tmp_path / "run"])) as address:
        body = {"head": "twin", "relation": "knows"}
        found = httpx.post(f"{address}/api/predict/tails", json=body)
    assert (found.status_code, found.json()["code"]) == (409, "ambiguous-name")
    assert [each["id"] for each in found.json()["candidates"]] == ["p1", "p2"]
