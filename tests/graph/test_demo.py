"""The bundled demo graph: its size, facts, patterns and types."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from fivestar.graph.reading import read_graph
from fivestar.graph.statistics import profile_graph


@pytest.fixture(scope="module")
def demo():
    return read_graph()


def test_size_of_the_demo_graph(demo):
    assert demo.name == "demo"
    assert 1_800 <= len(demo.entities) <= 2_300
    assert 4_500 <= len(demo.facts) <= 5_500
    assert len(demo.facts) == sum(map(len, demo.splits.values()))


def test_no_warning_and_no_leak(demo):
    profile = profile_graph(demo)
    assert profile.warnings == []
    for part in profile.held_out.values():
        assert part.lines_with_unseen == part.in_train == 0
        assert part.reverse_pair_in_train == part.same_pair_in_train == 0


@pytest.mark.parametrize(
    "fact",
    [
        ("Paris", "capital_of", "France"),
        ("Singapore", "has_capital", "Singapore (city)"),
        ("Germany", "neighbour_of", "France"),
        ("Lyon", "in_country", "France"),
        ("Japan", "uses_currency", "Japanese yen"),
        ("Valencia (Spain)", "in_time_zone", "Europe/Madrid"),
    ],
)
def test_well_known_facts(demo, fact):
    assert fact in set(zip(*demo.named(demo.facts).to_pydict().values(), strict=True))


def test_symmetric_inverse_and_composed_relations(demo):
    profile = profile_graph(demo)
    name = demo.relations.name_of
    assert {name(rule.then) for rule in profile.patterns.symmetric} == {"neighbour_of"}
    assert ("capital_of", "has_capital") in {
        (name(rule.given[0]), name(rule.then)) for rule in profile.patterns.inverse
    }
    assert profile.patterns.composed


def test_every_entity_has_one_type(demo):
    kinds = Counter(demo.types.vocabulary.names_of(demo.types.types))
    assert sum(kinds.values()) == len(demo.entities)
    assert set(kinds) == {"city", "country", "continent", "language", "currency", "time_zone"}


def test_the_source_of_the_demo_graph_is_attributed():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert "THIRD_PARTY.md" in project["license-files"]  # so the wheel carries it
    text = (root / "THIRD_PARTY.md").read_text()
    assert "GeoNames" in text
    assert "CC BY 4.0" in text
