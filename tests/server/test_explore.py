"""What the server says of models and graphs agrees with the library."""

from __future__ import annotations

import cmath

import pytest

import fivestar
from fivestar.geometry.classification import MobiusClass
from fivestar.server.schemas import MapClass
from fivestar.server.service import _legend_types


def get(client, path, **parameters):
    found = client.get(f"/api/{path}", params=parameters)
    while found.status_code == 202:  # still being computed
        found = client.get(f"/api/{path}", params=parameters)
    assert found.status_code == 200, found.text
    return found.json()


def test_runs(client):
    one, two = get(client, "runs")["runs"]
    assert (one["name"], one["model"], one["has_geometry"]) == ("fivestar", "fivestar", True)
    assert (two["name"], two["model"], two["has_geometry"]) == ("complex", "complex", False)
    assert one["num_entities"] == 2149
    assert one["has_types"]
    assert one["is_calibrated"]
    assert one["map_methods"] == ["pca", "tsne"]


def test_entities(client):
    found = get(client, "entities", q="par", limit=4)["entities"]
    assert all(each["label"].lower().startswith("par") for each in found)
    assert {"id": "Paris", "label": "Paris", "description": None, "types": ["city"]} in found
    assert get(client, "entities", q="lyyon")["entities"][0]["id"] == "Lyon"
    assert len(get(client, "entities", limit=7)["entities"]) == 7
    assert get(client, "entities", q="\x00\n'\"<script>")["entities"] == []


def test_an_entity(client):
    card = get(client, "entity", name="lyon")
    assert (card["id"], card["types"]) == ("Lyon", ["city"])
    assert card["num_triples"] == len(card["triples"])
    assert {"id": "France", "label": "France"} in [fact["tail"] for fact in card["triples"]]


def test_counts(client):
    graph = fivestar.read_graph()
    relations = get(client, "relations")["relations"]
    assert sum(each["num_triples"] for each in relations) == len(graph.facts)
    assert relations == sorted(relations, key=lambda each: -each["num_triples"])
    assert get(client, "types")["types"][0] == {"id": "city", "num_entities": 1286}
    statistics = get(client, "graph")
    assert (statistics["entities"], statistics["relations"]) == (2149, 9)
    # Paths of this machine are not exposed.
    assert "source" not in statistics["splits"]["train"]


def test_neighbors_and_explanations(client, served_runs):
    model = fivestar.load(served_runs[0])
    found = get(client, "similar", entity="lyon", top=3)
    expected = [each.entity.id for each in model.similar("Lyon", top=3)]
    assert [each["entity"]["id"] for each in found["neighbors"]] == expected
    triple = {"head": "lyon", "relation": "in_country", "tail": "france"}
    reported = get(client, "explain", **triple, top=2)["explanation"]
    assert reported["splits"]
    assert len(reported["analogies"]) == 2
    assert reported["head"] == {"id": "Lyon", "label": "Lyon"}


def test_geometry(client):
    found = get(client, "geometry", relation="in_country")
    assert len(found["dimensions"]) == 16
    assert sum(found["class_shares"].values()) == pytest.approx(1)
    for each in found["dimensions"]:
        a, b, c, d = (complex(*entry) for entry in each["matrix"])
        assert abs(a) ** 2 + abs(b) ** 2 + abs(c) ** 2 + abs(d) ** 2 == pytest.approx(1)
        repelling, attracting = (complex(*point) for point in each["fixed_points"])
        for fixed in (repelling, attracting):
            assert cmath.isclose((a * fixed + b) / (c * fixed + d), fixed, rel_tol=1e-6)
        slope = (a * d - b * c) / (c * repelling + d) ** 2
        assert cmath.isclose(slope, complex(*each["multiplier"]), rel_tol=1e-6)
    refused = client.get("/api/geometry", params={"relation": "in_country", "run": "complex"})
    assert (refused.status_code, refused.json()["code"]) == (409, "no-geometry")
    assert {kind.name.lower() for kind in MobiusClass} == set(MapClass.__args__)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_map(client, method):
    found = get(client, "map", method=method, limit=60)
    assert len(found["points"]) == 60
    assert found["types"][0] == "country"
    assert max(abs(point[axis]) for point in found["points"] for axis in "xy") == 1
    france = next(point for point in found["points"] if point["id"] == "France")
    assert found["types"][france["type"]] == "country"
    assert (found["method"], found["num_entities"]) == (method, 2149)
    assert found == get(client, "map", method=method, limit=60)


def test_types_for_a_legend():
    types = [["a", "b"]] * 5 + [["b"]] * 2 + [["c"]] * 3 + [["a", "d"]] * 4 + [[]]
    assert _legend_types(types) == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("entity?name=Atlantis", 404),
        ("entity", 422),
        ("similar?entity=Lyon&top=0", 422),
        ("similar?entity=Lyon&top=1001", 422),
        ("explain?head=Lyon&relation=in_country&tail=France&top=51", 422),
        ("map?method=umap", 422),
        ("map?limit=100000", 422),
        ("runs/../../secret", 404),
        ("relations?run=none", 404),
    ],
)
def test_errors(client, path, status):
    found = client.get(f"/api/{path}")
    assert found.status_code == status
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json()["status"] == status
