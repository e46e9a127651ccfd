"""Candidates of relations, and known false triples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import BadSource, GraphError, SettingsError
from fivestar.graph.knowledge_graph import EntityTypes, KnowledgeGraph
from fivestar.graph.negatives import with_negatives
from fivestar.graph.reading import read_graph
from fivestar.graph.relation_candidates import RelationCandidates, candidates_of
from fivestar.graph.storage import load_graph, save_graph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary

ENTITIES, RELATIONS, TYPES = 6, 2, 3
FACTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=9
)
TYPED = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=9)


def graph_of(facts, typed=()):
    """A graph of 6 entities and 2 relations, with pairs (entity, type)."""
    pairs = np.array(sorted(typed), np.int32).reshape(-1, 2)
    kinds = Vocabulary("type", [f"t{i}" for i in range(TYPES)])
    return KnowledgeGraph(
        "graph",
        Vocabulary("entity", [f"e{i}" for i in range(ENTITIES)]),
        Vocabulary("relation", [f"r{i}" for i in range(RELATIONS)]),
        Triples.of(facts).distinct(),
        types=EntityTypes(kinds, pairs[:, 0], pairs[:, 1]) if len(pairs) else None,
    )


def brute_force(facts, typed, choice):
    """The candidates of each side relation, by sets."""
    result = []
    for side in (2, 0):
        for relation in range(RELATIONS):
            seen = {fact[side] for fact in facts if fact[1] == relation}
            kinds = {t for e, t in typed if e in seen}
            same = {e for e, t in typed if t in kinds}
            result.append(seen | same if choice == "types" else seen)
    return result


@given(FACTS, TYPED, st.sampled_from(["observed", "types"]))
def test_candidates_are_those_of_a_search_over_sets(facts, typed, choice):
    if not typed:
        choice = "observed"
    found = candidates_of(graph_of(facts, typed), choice)
    expected = brute_force(facts, typed, choice)
    for side, ids in enumerate(expected):
        assert set(np.flatnonzero(found.mask(side)).tolist()) == ids
    sides, entities = np.divmod(np.arange(2 * RELATIONS * ENTITIES), ENTITIES)
    pairs = zip(sides.tolist(), entities.tolist(), strict=True)
    assert found.contain(sides, entities).tolist() == [e in expected[s] for s, e in pairs]


def test_types_and_choices_that_are_missing():
    graph = graph_of([(0, 0, 1)])
    assert candidates_of(graph, "all") is None
    with pytest.raises(GraphError, match="has no types"):
        candidates_of(graph, "types")
    with pytest.raises(SettingsError, match="must be all, observed or types, not 'typed'"):
        candidates_of(graph, "typed")
    assert isinstance(candidates_of(graph, "observed"), RelationCandidates)


def test_negatives_are_read_checked_and_saved(tmp_path):
    graph = read_graph([("a", "r", "b"), ("b", "r", "c")])
    path = tmp_path / "false.tsv"
    path.write_text("a\tr\tc\nc\tr\ta\na\tr\tc\n")
    found = with_negatives(graph, path)
    assert found.named(found.negatives).to_pylist() == [
        {"head": "a", "relation": "r", "tail": "c"},
        {"head": "c", "relation": "r", "tail": "a"},
    ]
    assert load_graph(save_graph(found, tmp_path / "saved")) == found
    assert found != graph
    assert replace(found, negatives=None) == graph
    for rows, message in (
        ([("a", "r", "x"), ("y", "r", "b")], "has entities that graph lacks: 'x', 'y'"),
        ([("a", "s", "c")], "has relations that graph lacks: 's'"),
        ([("a", "r", "b")], r"are training facts, for example \('a', 'r', 'b'\)"),
    ):
        with pytest.raises(BadSource, match=message):
            with_negatives(graph, rows)
    path.write_text("only two\n")
    with pytest.raises(BadSource, match=str(path)):
        with_negatives(graph, path)
