from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import SettingsError, SplitImpossible
from fivestar.graph.reading import read_graph
from fivestar.graph.splitting import split_graph
from fivestar.graph.statistics import profile_graph

ENTITY = st.sampled_from("abcdef")
GRAPHS = st.lists(st.tuples(ENTITY, st.sampled_from("rs"), ENTITY), min_size=1, max_size=40)
SHARE = st.sampled_from([0.0, 0.1, 0.25, 0.4])


def named(graph, split):
    return list(zip(*graph.named(graph.split(split)).to_pydict().values(), strict=True))


@given(GRAPHS, SHARE, SHARE, st.integers(0, 5), st.sampled_from(["together", "free"]))
@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
def test_a_split_loses_nothing_leaks_nothing_and_shows_everything_in_train(
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


def test_the_wanted_sizes_are_met_where_they_can_be():
    parts = split_graph(read_graph(), valid=0.1, test=0.1, seed=3)
    assert (len(parts.valid), len(parts.test)) == (501, 501)


def test_another_seed_gives_another_split():
    first, second = (split_graph(read_graph(), seed=seed) for seed in (0, 1))
    assert first.test != second.test


def test_pairs_free_lets_mirror_images_apart():
    graph = read_graph([(a, "knows", b) for a in "abcdefgh" for b in "abcdefgh" if a != b])
    free = split_graph(graph, valid=0, test=0.3, pairs="free")
    assert profile_graph(free).held_out["test"].reverse_pair_in_train > 0


def test_no_entity_is_held_out_entirely_even_if_that_means_holding_out_less():
    path = read_graph([(f"e{i}", "r", f"e{i + 1}") for i in range(40)])
    parts = split_graph(path, valid=0.0, test=0.8)
    assert 0 < len(parts.test) < 32
    assert len(np.unique(np.concatenate([parts.train.heads, parts.train.tails]))) == 41


@pytest.mark.parametrize(
    "options",
    [{"valid": -0.1}, {"test": 1.0}, {"valid": 0.6, "test": 0.4}, {"seed": -1}, {"pairs": "x"}],
)
def test_impossible_settings(options):
    with pytest.raises(SettingsError):
        split_graph(read_graph(), **options)
