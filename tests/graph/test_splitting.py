from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import SettingsError, SplitImpossible
from fivestar.graph.reading import read_graph
from fivestar.graph.splitting import hold_out_validation, split_graph
from fivestar.graph.statistics import profile_graph

ENTITY = st.sampled_from("abcdef")
GRAPHS = st.lists(st.tuples(ENTITY, st.sampled_from("rs"), ENTITY), min_size=1, max_size=40)
SHARE = st.sampled_from([0.0, 0.1, 0.25, 0.4])


def named(graph, split):
    return list(zip(*graph.named(graph.split(split)).to_pydict().values(), strict=True))


@given(GRAPHS, SHARE, SHARE, st.integers(0, 5), st.sampled_from(["together", "free"]))
@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
def test_splits_are_complete_without_leaks_and_train_has_all_names(
    triples, valid, test, seed, pairs
):
    graph = read_graph(triples)
    try:
        parts = split_graph(graph, valid=valid, test=test, seed=seed, pairs=pairs)
    except SplitImpossible:
        return
    everything = [fact for split in ("train", "valid", "test") for fact in named(parts, split)]
    assert sorted(everything) == sorted(set(triples))
    assert len(parts.valid) <= round(valid * len(graph.facts))
    assert len(parts.test) <= round(test * len(graph.facts))
    held_out = profile_graph(parts).held_out.values()
    assert all(part.unseen_entities == part.unseen_relations == 0 for part in held_out)
    if pairs == "together":
        leaks = [part.reverse_pair_in_train + part.same_pair_in_train for part in held_out]
        assert not any(leaks)
    again = split_graph(graph, valid=valid, test=test, seed=seed, pairs=pairs)
    assert again == parts


def test_the_requested_sizes_are_met_if_possible():
    parts = split_graph(read_graph(), valid=0.1, test=0.1, seed=3)
    assert (len(parts.valid), len(parts.test)) == (501, 501)


def test_another_seed_gives_another_split():
    first, second = (split_graph(read_graph(), seed=seed) for seed in (0, 1))
    assert first.test != second.test


def test_pairs_free_splits_reversed_facts():
    graph = read_graph([(a, "knows", b) for a in "abcdefgh" for b in "abcdefgh" if a != b])
    free = split_graph(graph, valid=0, test=0.3, pairs="free")
    assert profile_graph(free).held_out["test"].reverse_pair_in_train > 0


def test_no_entity_is_held_out_entirely_even_if_fewer_facts_are_held_out():
    path = read_graph([(f"e{i}", "r", f"e{i + 1}") for i in range(40)])
    parts = split_graph(path, valid=0.0, test=0.8)
    assert 0 < len(parts.test) < 32
    assert len(np.unique(np.concatenate([parts.train.heads, parts.train.tails]))) == 41


@pytest.mark.parametrize(
    "options",
    [{"valid": -0.1}, {"test": 1.0}, {"valid": 0.6, "test": 0.4}, {"seed": -1}, {"pairs": "x"}],
)
def test_invalid_shares_are_refused(options):
    with pytest.raises(SettingsError):
        split_graph(read_graph(), **options)


def bipartite(facts):
    """Return a graph with this number of facts, all of which can be held out."""
    size = int(np.ceil(np.sqrt(facts)))
    pairs = [(f"a{i // size}", "r", f"b{i % size}") for i in range(facts)]
    return read_graph(pairs)


@given(GRAPHS, st.sampled_from([None, 0.2, 0.5, 3]), st.sets(st.integers(0, 39), max_size=8))
@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
def test_held_out_facts_leave_train_without_a_leak(triples, valid, trained):
    graph = read_graph(triples)
    mask = np.isin(np.arange(len(graph.train)), list(trained))
    try:
        parts = hold_out_validation(graph, valid, trained=graph.train.take(mask))
    except SplitImpossible:
        return
    except SettingsError:
        assert valid >= len(graph.train)
        return
    assert len(parts.valid) > 0
    assert sorted(named(parts, "train") + named(parts, "valid")) == sorted(set(triples))
    assert not parts.valid.are_in(parts.train).any()
    assert not parts.valid.are_in(graph.train.take(mask)).any()
    held_out = profile_graph(parts).held_out["valid"]
    assert held_out.unseen_entities == held_out.unseen_relations == 0
    assert held_out.reverse_pair_in_train == held_out.same_pair_in_train == 0
    if valid is None:
        assert len(parts.valid) <= len(graph.train) / 5
    else:
        assert len(parts.valid) <= max(1, round(valid if valid >= 1 else valid * len(graph.train)))
    assert hold_out_validation(graph, valid, trained=graph.train.take(mask)) == parts


@pytest.mark.parametrize(
    ("facts", "held_out"),
    [(20, 4), (499, 99), (501, 100), (2000, 100), (4000, 200), (250_000, 10_000)],
)
def test_default_number_of_held_out_facts(facts, held_out):
    assert len(hold_out_validation(bipartite(facts)).valid) == held_out


@pytest.mark.parametrize(("valid", "held_out"), [(0.1, 40), (0.001, 1), (37, 37), (1, 1)])
def test_a_share_or_a_number_is_held_out(valid, held_out):
    assert len(hold_out_validation(bipartite(400), valid).valid) == held_out


@pytest.mark.parametrize("valid", [0, -1, -0.1, 1.5, 400, float("nan"), float("inf")])
def test_invalid_validation_sizes_are_refused(valid):
    with pytest.raises(SettingsError, match="a share between 0 and 1 or a number of facts below"):
        hold_out_validation(bipartite(400), valid)


def test_a_graph_with_validation_facts_keeps_them():
    with pytest.raises(SettingsError, match="has 250 validation facts of its own"):
        hold_out_validation(split_graph(read_graph(), test=0))


def test_test_facts_are_unchanged_and_the_report_adds_up():
    graph = split_graph(read_graph(), valid=0, test=0.1)
    parts = hold_out_validation(graph)
    assert parts.test == graph.test
    for name, split in parts.splits.items():
        assert parts.report.splits[name].lines == parts.report.splits[name].triples == len(split)


@pytest.mark.parametrize("facts", [[("a", "r", "b")], [(f"a{i}", "r", f"b{i}") for i in range(20)]])
def test_graphs_that_cannot_be_split_are_refused(facts):
    with pytest.raises(SplitImpossible, match="can be held out for validation"):
        hold_out_validation(read_graph(facts))
