"""Generated graphs: their size, and the patterns that were planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fivestar
from fivestar.errors import OutputError, SettingsError
from fivestar.graph import generation
from fivestar.graph.generation import GeneratedGraph, generate_graph
from fivestar.graph.relation_patterns import find_patterns

SMALL = GeneratedGraph(entities=2000, relations=20, triples=20_000, held_out=0.02)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "small"
    return generate_graph(SMALL, folder), fivestar.read_graph(folder)


def test_the_size_is_as_requested(small):
    counts, graph = small
    assert {split: len(triples) for split, triples in graph.splits.items()} == counts
    assert abs(sum(counts.values()) / SMALL.triples - 1) < 0.03
    assert abs(counts["test"] / (0.02 * SMALL.triples) - 1) < 0.25
    assert (len(graph.entities), len(graph.relations)) == (SMALL.entities, SMALL.relations)


def test_no_fact_is_repeated_and_no_held_out_name_is_unseen(small):
    _, graph = small
    assert len(graph.facts) == sum(map(len, graph.splits.values()))
    assert set(np.unique([graph.train.heads, graph.train.tails])) == set(range(SMALL.entities))
    assert not (graph.facts.heads == graph.facts.tails).any()


def test_degrees_follow_a_power_law(small):
    _, graph = small
    degrees = np.sort(np.bincount(graph.facts.heads, minlength=SMALL.entities))[::-1]
    ranks = np.arange(1, 301)
    slope = np.polyfit(np.log(ranks), np.log(degrees[:300]), 1)[0]
    assert -0.8 < slope < -0.4
    assert degrees[0] > 20 * np.median(degrees)


def test_the_planted_patterns_are_found_and_no_others(small):
    _, graph = small
    found = find_patterns(graph.facts, len(graph.entities), len(graph.relations))
    name = graph.relations.name_of
    assert {name(rule.then) for rule in found.symmetric} == {"symmetric_1", "symmetric_2"}
    assert {(name(rule.given[0]), name(rule.then)) for rule in found.inverse} == {
        pair
        for n in (1, 2)
        for pair in ((f"inverse_{n}", f"inverse_{n}_of"), (f"inverse_{n}_of", f"inverse_{n}"))
    }
    assert {(*map(name, rule.given), name(rule.then)) for rule in found.composed} == {
        (f"first_{n}", f"second_{n}", f"composed_{n}") for n in (1, 2)
    }
    assert not found.duplicate
    described = graph.relations.description_of(graph.relations.id_of("inverse_2_of"))
    assert described == "inverse of inverse_2"


def test_paths_and_loops_have_one_relation(small):
    _, graph = small
    rows = graph.facts.relations == graph.relations.id_of("path_and_loop_1")
    follows = dict(zip(graph.facts.heads[rows], graph.facts.tails[rows], strict=True))
    assert len(follows) == rows.sum(), "one tail per head"
    ends = {"loop": 0, "path": 0}
    for start, following in follows.items():
        here, seen = following, {start}
        while here in follows and here not in seen:
            seen.add(here)
            here = follows[here]
        ends["loop" if here == start else "path"] += 1
    assert min(ends.values()) > 0.15 * len(follows)


def test_noise_is_what_a_model_cannot_know(tmp_path):
    def groups_reached(noise):
        graph = GeneratedGraph(2000, 12, 20_000, noise=noise)
        generate_graph(graph, tmp_path / f"{noise}")
        read = fivestar.read_graph(tmp_path / f"{noise}")
        rank = generation._Generator(graph).rank_of
        rows = read.facts.relations == read.relations.id_of("plain_1_1")
        heads, tails = (
            rank(np.array([int(name[1:]) for name in read.entities.names_of(ids)])) % graph.groups
            for ids in (read.facts.heads[rows], read.facts.tails[rows])
        )
        _, counts = np.unique((tails - heads) % graph.groups, return_counts=True)
        return counts.max() / counts.sum()

    assert groups_reached(0.0) == 1
    assert groups_reached(0.3) == pytest.approx(0.7 + 0.3 / 10, abs=0.04)


def test_the_same_options_give_the_same_files_in_pieces_of_any_size(tmp_path, monkeypatch):
    graph = GeneratedGraph(300, 10, 3000)
    generate_graph(graph, tmp_path / "one", to="tsv")
    monkeypatch.setattr(generation, "_TRIPLES_PER_PIECE", 200)
    generate_graph(graph, tmp_path / "many", to="tsv")
    for split in ("train", "valid", "test"):
        one, many = (
            sorted((tmp_path / name / f"{split}.tsv").read_text().splitlines())
            for name in ("one", "many")
        )
        assert one == many
    generate_graph(GeneratedGraph(300, 10, 3000, seed=1), tmp_path / "other", to="tsv")
    files = [(tmp_path / name / "train.tsv").read_text() for name in ("many", "other")]
    assert files[0] != files[1]


@settings(max_examples=15)
@given(
    entities=st.integers(10, 400),
    relations=st.integers(1, 30),
    per_entity=st.floats(2, 5),
    seed=st.integers(0, 2**40),
)
def test_every_size_is_a_graph(tmp_path_factory, entities, relations, per_entity, seed):
    graph = GeneratedGraph(entities, relations, int(per_entity * entities) + 1, seed=seed)
    folder = tmp_path_factory.mktemp("any") / "graph"
    counts = generate_graph(graph, folder)
    read = fivestar.read_graph(folder)
    assert len(read.facts) == sum(counts.values())
    assert len(read.entities) == entities
    assert len({relation.name for relation in graph.named_relations()}) == relations


@pytest.mark.parametrize(
    "sizes",
    [(5, 1, 100), (100, 0, 300), (100, 1, 100), (100, 1, 10**6), (2**40, 1, 2**42)],
)
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(SettingsError):
        GeneratedGraph(*sizes)


@pytest.mark.parametrize("more", [{"noise": 2}, {"noise": np.nan}, {"held_out": 0.9}, {"seed": -1}])
def test_impossible_shares_are_refused(more):
    with pytest.raises(SettingsError):
        GeneratedGraph(100, 1, 300, **more)


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(OutputError, match="'foo' is not an output format"):
        generate_graph(SMALL, tmp_path / "graph", to="foo")
    assert not list(tmp_path.iterdir())
