"""Two served runs on the same held-out facts."""

from __future__ import annotations

import pytest
from tests.server.test_explore import get

import fivestar
from fivestar.prediction.comparison import compare_runs


def test_comparison_agrees_with_the_library(client, served_runs):
    found = get(client, "compare", other="complex")
    first, second = map(fivestar.load, served_runs)
    expected = compare_runs(first, second, 2000)
    assert (found["run"], found["other"], found["split"]) == ("fivestar", "complex", "test")
    assert found["num_triples"] == found["num_held_out"] == len(expected.triples)
    assert found["metrics"] == expected.metrics()
    assert found["difference"]["mrr"] == pytest.approx(expected.difference().mrr)
    assert len(found["queries"]) == 100
    gaps = [abs(query["difference"]) for query in found["queries"]]
    assert gaps == sorted(gaps, reverse=True)
    test = {tuple(row.values()) for row in first.graph.named(first.graph.test).to_pylist()}
    for query, one in zip(found["queries"], expected.disagreements(100), strict=True):
        assert tuple(query[slot]["id"] for slot in ("head", "relation", "tail")) in test
        assert query["ranks"] == list(one.ranks)
        assert query["side"] == one.side


def test_metrics_per_relation(client, served_runs):
    found = get(client, "compare", other="complex")
    assert sum(each["num_queries"] for each in found["relations"]) == 2 * found["num_triples"]
    assert len(found["relations"]) == found["num_relations"]
    counts = [each["num_queries"] for each in found["relations"]]
    assert counts == sorted(counts, reverse=True)
    expected = fivestar.load(served_runs[1]).evaluate("test", by="relation")["by_relation"]
    for each in found["relations"]:
        own = expected[each["relation"]["id"]]
        assert each["metrics"][1] == pytest.approx({key: own[key] for key in each["metrics"][1]})


def test_the_other_way_round(client):
    there, back = (
        get(client, "compare", run="fivestar", other="complex"),
        get(client, "compare", run="complex", other="fivestar"),
    )
    assert there["metrics"] == back["metrics"][::-1]
    assert there["difference"]["mrr"] == pytest.approx(-back["difference"]["mrr"])


def test_errors(client):
    unknown = client.get("/api/compare", params={"other": "none"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-run")
    same = client.get("/api/compare", params={"other": "fivestar"})
    assert same.status_code == 422
    assert (
        same.json()["detail"] == "'fivestar' is the run itself; choose another one to compare with"
    )
