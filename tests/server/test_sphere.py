"""The facts on the sphere: their points, the chosen dimension, and the sentence."""

from __future__ import annotations

import re
from contextlib import contextmanager

import numpy as np
import pytest
from tests.server.test_explore import get

import fivestar
from fivestar.analysis.landing import choose_facts, describe_landing, fact_points, landings
from fivestar.prediction.explanation import terms
from fivestar.prediction.paths import TripleIds

LYON = {"relation": "in_country", "head": "lyon", "tail": "france"}


@contextmanager
def refused(client, status, **parameters):
    response = client.get("/api/sphere", params=parameters)
    assert response.status_code == status, response.text
    yield response.json()


def complex_of(pair):
    return complex(*pair)


def test_images_are_those_of_the_map(client):
    found = get(client, "sphere", relation="in_country")
    (one,) = (
        each
        for each in get(client, "geometry", relation="in_country")["dimensions"]
        if each["dimension"] == found["dimension"]
    )
    a, b, c, d = map(complex_of, one["matrix"])
    assert len(found["facts"]) == 24
    assert found["num_facts"] == 1286
    for fact in found["facts"]:
        h, image = complex_of(fact["position"]), complex_of(fact["image"])
        assert (a * h + b) / (c * h + d) == pytest.approx(image, rel=1e-6)
    moduli = [
        abs(complex_of(fact[key])) for fact in found["facts"] for key in ("position", "target")
    ]
    assert found["scale"] == pytest.approx(3 * np.sort(moduli)[len(moduli) // 2 - 1])
    assert [fact["head"]["label"] for fact in found["facts"][:2]] == ["Beijing", "New Delhi"]


def test_answer_comes_first_and_chooses_the_dimension(client, served_runs):
    found = get(client, "sphere", **LYON)
    first = found["facts"][0]
    assert (first["head"]["id"], first["tail"]["id"]) == ("Lyon", "France")
    assert [fact["is_answer"] for fact in found["facts"]] == [True] + [False] * 23
    model = fivestar.load(served_runs[0])
    graph = model.graph
    triple = TripleIds(
        graph.entities.find("Lyon"),
        graph.relations.find("in_country"),
        graph.entities.find("France"),
    )
    each, _ = terms(model.model, triple, 16)
    assert found["chosen_by"] == "contribution to the answer"
    assert found["dimension"] == int(each.argmax())
    listed = [one["contribution"] for one in found["dimensions"]]
    assert listed == sorted(listed, reverse=True)
    assert listed == pytest.approx(sorted(each.tolist(), reverse=True), rel=1e-6)
    # A requested dimension is that one, and its order is the same.
    again = get(client, "sphere", **LYON, dimension=3)
    assert (again["dimension"], again["chosen_by"]) == (3, "request")
    assert again["dimensions"] == found["dimensions"]


@pytest.mark.parametrize("given", [{"head": "Lyon"}, {"tail": "France"}])
def test_missing_end_is_the_first_answer(client, served_runs, given):
    model = fivestar.load(served_runs[0])
    head, tail = given.get("head", "_"), given.get("tail", "_")
    best = model.predict([(head, "in_country", tail)], top=1)[0][0].id
    first = get(client, "sphere", relation="in_country", **given)["facts"][0]
    assert first["is_answer"]
    ends = (first["head"]["id"], first["tail"]["id"])
    assert ends == (("Lyon", best) if "head" in given else (best, "France"))


def test_without_an_answer_the_dimension_is_the_most_telling(client, served_runs):
    model = fivestar.load(served_runs[0])
    graph = model.graph
    chosen = set()
    for name in ("in_country", "neighbour_of", "uses_currency"):
        found = get(client, "sphere", relation=name)
        facts = choose_facts(graph, graph.relations.find(name), 24)
        expected = landings(graph, facts, fact_points(model.model, facts))
        best = max(range(16), key=lambda at, one=expected: one[at].excess)
        chosen.add(found["chosen_by"])
        if found["chosen_by"] == "landing":
            assert found["dimension"] == best
            assert expected[best].is_telling
        else:
            assert not expected[best].is_telling
            assert found["dimension"] == found["dimensions"][0]["dimension"]
        landing = expected[found["dimension"]]
        assert found["landing"]["count"] == landing.count
        counts = {one["dimension"]: one["landing_count"] for one in found["dimensions"]}
        assert counts == {at: one.count for at, one in enumerate(expected)}
        types = {
            "in_country": ("city", "country"),
            "neighbour_of": ("country", "country"),
            "uses_currency": ("country", "currency"),
        }[name]
        assert found["sentence"] == describe_landing(landing, *types)
    assert "landing" in chosen


def test_sentence_counts_what_is_listed(client):
    """The count of the sentence can be made again from the list of facts."""
    sentences = []
    for dimension in range(16):
        found = get(client, "sphere", relation="capital_of", dimension=dimension)
        landed = {fact["head"]["id"] for fact in found["facts"] if fact["lands"]}
        assert found["landing"]["count"] == len(landed)
        if found["sentence"] is not None:
            count, total = re.search(r"(\d+) of (\d+) land", found["sentence"]).groups()
            assert (int(count), int(total)) == (len(landed), 24)
            sentences.append(found["sentence"])
        assert found["landing"]["is_telling"] == (found["sentence"] is not None)
    assert sentences
    assert len(sentences) < 16


def test_limit_and_errors(client):
    assert len(get(client, "sphere", relation="in_country", limit=7)["facts"]) == 7
    with refused(client, 422, relation="in_country", limit=101) as problem:
        assert "limit" in problem["detail"]
    with refused(client, 404, relation="in_country", dimension=16) as problem:
        assert problem["detail"] == "no dimension 16; choose one from 0 to 15"
    with refused(client, 404, relation="in_country", head="Lyonn", tail="France") as problem:
        assert problem["nearest"][0] == "Lyon"
    with refused(client, 409, relation="in_country", run="complex") as problem:
        assert problem["code"] == "no-geometry"


def test_new_triple_has_no_split(client):
    found = get(client, "sphere", relation="in_country", head="Lyon", tail="Japan")
    assert found["facts"][0]["split"] is None
    assert {fact["split"] for fact in found["facts"][1:]} <= {"train", "valid", "test"}
