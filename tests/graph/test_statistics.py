"""The profile of a graph against definitions written out over sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.graph import relation_patterns
from fivestar.graph.reading import read_graph
from fivestar.graph.statistics import profile_graph

ENTITY = st.sampled_from("abcde")
FACTS = st.sets(st.tuples(ENTITY, st.sampled_from("rst"), ENTITY), min_size=1, max_size=40)
pytestmark = pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")


@pytest.fixture(autouse=True)
def _show_every_rule(monkeypatch):
    monkeypatch.setattr(relation_patterns, "MIN_SUPPORT", 1)
    monkeypatch.setattr(relation_patterns, "MIN_CONFIDENCE", 0.0)


def named_rules(profile, kind):
    name = profile.graph.relations.name_of
    return {
        (*map(name, rule.given), name(rule.then)): (rule.support, pytest.approx(rule.confidence))
        for rule in getattr(profile.patterns, kind)
    }


@given(FACTS, st.sampled_from([2_000_000, 3]))
def test_symmetric_inverse_and_duplicate_relations(facts, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relation_patterns, "_BATCH_SIZE", at_once)
        profile = profile_graph(read_graph(sorted(facts)))
    pairs = {r: {(h, t) for h, q, t in facts if q == r and h != t} for _, r, _ in facts}
    symmetric, inverse, duplicate = {}, {}, {}
    for r, mine in pairs.items():
        for s, theirs in pairs.items():
            mirrored = len(mine & {(t, h) for h, t in theirs})
            if mirrored:
                target = symmetric if r == s else inverse
                target[r, s] = (mirrored, mirrored / len(mine))
            if r != s and mine & theirs:
                duplicate[r, s] = (len(mine & theirs), len(mine & theirs) / len(mine))
    assert named_rules(profile, "symmetric") == symmetric
    assert named_rules(profile, "inverse") == inverse
    assert named_rules(profile, "duplicate") == duplicate
    never = {r for r, mine in pairs.items() if mine and not mine & {(t, h) for h, t in mine}}
    assert {rule[0] for rule in named_rules(profile, "anti_symmetric")} == never


@given(FACTS)
def test_composed_relations(facts):
    profile = profile_graph(read_graph(sorted(facts)))
    proper = [(h, r, t) for h, r, t in facts if h != t]
    paths = [(x, r, s, z) for x, r, y in proper for y2, s, z in proper if y == y2 and x != z]
    expected = {}
    for r, s in {(r, s) for _, r, s, _ in paths}:
        ends = [(x, z) for x, r2, s2, z in paths if (r2, s2) == (r, s)]
        for q in {q for _, q, _ in proper}:
            closed = sum((x, q, z) in facts for x, z in ends)
            if closed:
                expected[r, s, q] = (closed, closed / len(ends))
    assert named_rules(profile, "composed") == expected
    assert profile.patterns.paths_sampled == 1


def test_sampled_paths_estimate_the_exact_confidence(monkeypatch):
    monkeypatch.setattr(relation_patterns, "MAX_PATHS", 3000)
    facts = [(f"a{i}", "r", f"b{i % 30}") for i in range(300)]
    facts += [(f"b{i}", "s", f"c{j}") for i in range(30) for j in range(20)]
    facts += [(f"a{i}", "q", f"c{j}") for i in range(300) for j in range(20) if i % 4]
    profile = profile_graph(read_graph(facts))
    assert 0 < profile.patterns.paths_sampled < 1
    support, confidence = named_rules(profile, "composed")["r", "s", "q"]
    assert confidence == pytest.approx(0.75, abs=0.05)
    assert support == pytest.approx(4500, rel=0.1)


@given(FACTS)
def test_components_agree_with_a_graph_search(facts):
    left = {e for h, _, t in facts for e in (h, t)}
    sizes = []
    while left:
        part, border = set(), {left.pop()}
        while border:
            part |= border
            border = {b for h, _, t in facts for a, b in ((h, t), (t, h)) if a in border} - part
        left -= part
        sizes.append(len(part))
    profile = profile_graph(read_graph(sorted(facts)))
    assert list(profile.components) == sorted(sizes, reverse=True)


def test_a_long_path_is_one_component():
    facts = [(f"e{i * 7919 % 5000}", "r", f"e{(i + 1) * 7919 % 5000}") for i in range(4999)]
    assert profile_graph(read_graph(facts)).components == (5000,)


@given(FACTS)
def test_categories_and_degrees(facts):
    profile = profile_graph(read_graph(sorted(facts)))
    for relation in profile.relations:
        mine = [(h, t) for h, r, t in facts if r == relation.name]
        assert relation.triples == len(mine)
        many_tails = len(mine) / len({h for h, _ in mine}) >= 1.5
        many_heads = len(mine) / len({t for _, t in mine}) >= 1.5
        assert relation.category == f"{'1N'[many_heads]}-{'1N'[many_tails]}"
    assert sum(profile.categories.values()) == len({r for _, r, _ in facts})
    assert sum(profile.degree_histogram.values()) == len({e for h, _, t in facts for e in (h, t)})


def test_the_degree_histogram_counts_by_powers_of_two():
    star = [("hub", "r", f"e{i}") for i in range(9)]
    assert profile_graph(read_graph(star)).degree_histogram == {
        "0": 0,
        "1": 9,
        "2-3": 0,
        "4-7": 0,
        "8-15": 1,
    }


def test_leaks_and_unseen_names_are_warned_about():
    graph = read_graph(
        {
            "train": [("a", "r", "b"), ("b", "r", "c"), ("b", "r", "c")],
            "test": [
                ("b", "r", "a"),
                ("a", "s", "b"),
                ("a", "r", "b"),
                ("x", "r", "a"),
                ("c", "r", "a"),
            ],
        }
    )
    profile = profile_graph(graph)
    part = profile.held_out["test"]
    assert (part.unseen_entities, part.unseen_relations, part.lines_with_unseen) == (1, 1, 2)
    assert (part.in_train, part.reverse_pair_in_train, part.same_pair_in_train) == (1, 1, 2)
    text = "\n".join(profile.warnings)
    assert "train: 1 duplicate lines (dropped)" in text
    assert "test: 2 of 5 triples have an entity or relation that does not occur in train" in text
    assert "test: 1 of 5 triples are also in train" in text
    assert "1 of 5 triples (20.0%) are linked in the opposite direction" in text
