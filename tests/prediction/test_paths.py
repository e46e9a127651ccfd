"""Paths are all that a brute-force search finds, and hubs cost bounded work."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fivestar
from fivestar.graph.steps import Segments, Steps
from fivestar.graph.triples import Triples
from fivestar.prediction import path_patterns as patterns_module
from fivestar.prediction import paths as paths_module
from fivestar.prediction.path_patterns import PathReliability, supporting_paths
from fivestar.prediction.paths import TripleIds, count_paths, find_path, key_of, sequence_of

ENTITIES, RELATIONS = 6, 3
facts_of = st.sets(
    st.tuples(
        st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)
    ),
    max_size=30,
)


def dense(seed, size):
    """Facts between few entities, so that paths turn back and cross."""
    rows = np.random.default_rng(seed).integers(0, [ENTITIES, RELATIONS, ENTITIES], (size, 3))
    return {tuple(row) for row in rows.tolist()}


dense_facts = st.builds(dense, st.integers(0, 10**6), st.integers(4, 40))


triple_facts = st.builds(
    TripleIds,
    st.integers(0, ENTITIES - 1),
    st.integers(0, RELATIONS - 1),
    st.integers(0, ENTITIES - 1),
)


def all_paths(facts, head, tail, without=None):
    """Every (links, entities) of at most three steps: a search that follows the definition."""
    steps = [(h, r, t, (h, r, t)) for h, r, t in facts]
    steps += [(t, r + RELATIONS, h, (h, r, t)) for h, r, t in facts if h != t]
    found = []

    def go_on(entities, links, used):
        for begin, link, end, fact in steps:
            if begin != entities[-1] or fact in used or fact == without:
                continue
            if end == tail:
                found.append(((*links, link), (*entities, end)))
            elif end not in entities and len(links) < 2:
                go_on((*entities, end), (*links, link), {*used, fact})

    go_on((head,), (), set())
    return found


def steps_of(facts):
    return Steps.of(Triples.of(sorted(facts)), RELATIONS)


@given(facts_of | dense_facts, triple_facts)
def test_paths_agree_with_brute_force(facts, triple):
    steps = steps_of(facts)
    found = count_paths(steps, triple)
    fact = (triple.head, triple.relation, triple.tail)
    expected = all_paths(facts, triple.head, triple.tail, without=fact)
    counts = {found.sequence(int(k)): int(n) for k, n in zip(found.keys, found.counts, strict=True)}
    assert counts == Counter(links for links, _ in expected)
    assert found.complete
    assert found.by_length() == {
        n: sum(len(links) == n for links, _ in expected) for n in (1, 2, 3)
    }
    for links in counts:
        assert (links, tuple(find_path(steps, triple, links))) in expected


@given(facts_of | dense_facts, triple_facts, st.integers(1, 7))
def test_chunk_size_does_not_matter(facts, triple, size):
    steps = steps_of(facts)
    whole = count_paths(steps, triple)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths_module, "_CHUNK", size)
        parts = count_paths(steps, triple)
    np.testing.assert_array_equal(whole.keys, parts.keys)
    np.testing.assert_array_equal(whole.counts, parts.counts)


@given(dense_facts, triple_facts, st.data())
def test_reliability_agrees_with_brute_force(facts, triple, data):
    pairs = [
        (head, tail)
        for head, tail in product(range(ENTITIES), repeat=2)
        if (head == tail) == triple.is_loop
    ]
    sequences_of = {pair: {links for links, _ in all_paths(facts, *pair)} for pair in pairs}
    present = sorted(set().union(*sequences_of.values()))
    link = st.integers(0, 2 * RELATIONS - 1)
    back = st.builds(lambda one, two: (one, two, (two + RELATIONS) % (2 * RELATIONS)), link, link)
    sequence = data.draw(st.sampled_from(present) | back if present else back)
    sequence = data.draw(st.sampled_from([sequence, sequence[-2:], sequence[:1]]))
    judge = PathReliability(steps_of(facts), Triples.of(sorted(facts)), ENTITIES, triple)
    reliability = judge.of(sequence)
    joined = {pair for pair in pairs if sequence in sequences_of[pair]}
    joined -= {(triple.head, triple.tail)}
    supported = sum((head, triple.relation, tail) in facts for head, tail in joined)
    assert (reliability.pairs, reliability.support) == (len(joined), supported)
    assert reliability.exact
    assert reliability.confidence == (supported / len(joined) if joined else None)


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 9))
def test_segments_in_pieces(counts, size):
    count = np.array(counts, np.int64)
    segments = Segments(np.arange(len(count)) * 10, count)
    rows, places = segments.places()
    parts = [(rows[part.places()[0]], part.places()[1]) for rows, part in segments.pieces(size)]
    assert all(len(places) <= size for _, places in parts)
    np.testing.assert_array_equal(np.concatenate([rows[:0], *(r for r, _ in parts)]), rows)
    np.testing.assert_array_equal(np.concatenate([places[:0], *(p for _, p in parts)]), places)
    assert segments.at_most(size).count.sum() == min(size, count.sum())


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_keys_encode_links(links):
    key = key_of(10, *(np.array([link]) for link in links))
    assert sequence_of(int(key[0]), 10) == tuple(links)


def star(leaves):
    """A hub with leaves, each joined to the next but one by another relation."""
    hub = [("hub", "has", f"leaf {i}") for i in range(leaves)]
    ring = [(f"leaf {i}", "next", f"leaf {(i + 2) % leaves}") for i in range(leaves)]
    return fivestar.read_graph(hub + ring)


def test_a_hub_takes_bounded_work(monkeypatch):
    graph = star(20_000)
    steps = Steps.of(graph.train, len(graph.relations))
    hub, one, other = (graph.entities.id_of(name) for name in ("hub", "leaf 0", "leaf 2"))
    taken = []
    walk = Steps.walk
    monkeypatch.setattr(
        Steps, "walk", lambda self, part: (taken.append(int(part.count.sum())), walk(self, part))[1]
    )
    for head, tail in ((hub, one), (one, hub), (one, other), (hub, hub)):
        triple = TripleIds(head, 1, tail)
        found = supporting_paths(graph, steps, triple, top=5)
        assert found.patterns
        assert found.complete
    a_measure = patterns_module.STEPS_PER_PAIR * patterns_module.ENOUGH_PAIRS
    assert max(taken) <= max(paths_module._CHUNK, a_measure)
    assert sum(taken) < 100 * len(graph.train)


def test_large_counts_are_sampled(monkeypatch):
    rng = np.random.default_rng(0)
    triples = Triples.of(rng.integers(0, [40, 2, 40], (1500, 3))).distinct()
    triples = triples.take(np.flatnonzero(triples.heads != triples.tails))
    steps = Steps.of(triples, 2)
    triple = TripleIds(0, 0, 1)
    whole = count_paths(steps, triple)
    judge = PathReliability(steps, triples, 40, triple)
    exact = judge.of((0, 1, 2))
    monkeypatch.setattr(paths_module, "_CHUNK", 200)
    monkeypatch.setattr(paths_module, "_MAX_PATHS", 2000)
    some = count_paths(steps, triple)
    assert whole.complete
    assert not some.complete
    assert 2000 <= some.by_length()[3] < whole.by_length()[3]
    monkeypatch.setattr(paths_module, "_MAX_PATHS", 10**9)
    monkeypatch.setattr(paths_module, "_MAX_STEPS", 500)
    assert not count_paths(steps, triple).complete
    monkeypatch.setattr(patterns_module, "STEPS_PER_PAIR", 1)
    sampled = judge.of((0, 1, 2), enough=900)
    assert exact.exact
    assert not sampled.exact
    assert 0 < sampled.pairs < exact.pairs
    assert sampled.confidence == pytest.approx(exact.confidence, abs=0.1)
    monkeypatch.undo()
    few = judge.of((0,), enough=100)
    assert not few.exact
    assert 100 <= few.pairs < judge.of((0,)).pairs


@pytest.mark.parametrize("tried", [20, 10**6])
def test_patterns_shared_with_other_triples_are_screened(tried, monkeypatch):
    rng = np.random.default_rng(1)
    noise = [(f"e{a}", f"r{r}", f"e{b}") for a, r, b in rng.integers(0, [30, 9, 30], (400, 3))]
    rule = [
        triple
        for i in range(0, 30, 3)
        for triple in (
            (f"e{i}", "first", f"e{i + 1}"),
            (f"e{i + 1}", "second", f"e{i + 2}"),
            (f"e{i}", "both", f"e{i + 2}"),
        )
    ]
    graph = fivestar.read_graph(noise + rule)
    steps = Steps.of(graph.train, len(graph.relations))
    e0, e2 = graph.entities.id_of("e0"), graph.entities.id_of("e2")
    triple = TripleIds(e0, graph.relations.id_of("both"), e2)
    monkeypatch.setattr(patterns_module, "_MAX_SCREENED", tried)
    monkeypatch.setattr(patterns_module, "_MAX_MEASURED", 5)
    found = supporting_paths(graph, steps, triple, top=3)
    assert found.num_screened == min(tried, found.num_patterns)
    assert found.num_patterns > 20
    best = found.patterns[0]
    assert [(link.relation.id, link.inverse) for link in best.links] == [
        ("first", False),
        ("second", False),
    ]
    assert (best.support, best.pairs, best.exact) == (9, 9, True)
    assert best.example_text() == "e0 —first→ e1 —second→ e2"
