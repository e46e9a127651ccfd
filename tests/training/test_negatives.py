"""Typed negatives and known false triples, against sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.test_relation_candidates import FACTS, TYPED, brute_force, graph_of
from tests.graphs import people_graph

import fivestar
from fivestar.errors import SettingsError
from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.negatives import with_negatives
from fivestar.graph.relation_candidates import candidates_of
from fivestar.graph.triples import Triples
from fivestar.runs.identity import graph_hash
from fivestar.runs.settings import make_settings
from fivestar.training.loop import Trainer
from fivestar.training.negatives import NegativeSampler, own_negatives
from fivestar.training.train import resume, train

MANY = 200


def queries_of(graph):
    both = with_reciprocals(graph.train, 2)
    return both, *(torch.tensor(c.tolist()) for c in (both.heads, both.relations))


@settings(max_examples=30, deadline=None)
@given(FACTS, TYPED.filter(bool), st.sampled_from(["observed", "types"]), st.booleans())
def test_typed_negatives_are_the_candidates_of_the_relation(facts, typed, choice, filtered):
    graph = graph_of(facts, typed)
    both, entities, sides = queries_of(graph)
    known = both if filtered else None
    sampler = NegativeSampler(MANY, 6, known, candidates=candidates_of(graph, choice))
    torch.manual_seed(0)
    negatives = sampler.sample(entities, sides)
    expected, true = brute_force(facts, typed, choice), set(map(tuple, both.array.tolist()))
    rows = zip(entities.tolist(), sides.tolist(), negatives.tolist(), strict=True)
    for entity, side, found in rows:
        possible = set(expected[side])
        if filtered:
            possible -= {t for h, r, t in true if (h, r) == (entity, side)}
            # Where all candidates are true, any entity that is not.
            others = set(range(6)) - {t for h, r, t in true if (h, r) == (entity, side)}
            possible = possible or others or set(range(6))
        assert set(found) == possible


def test_a_share_of_the_negatives_is_typed():
    graph = graph_of([(0, 0, 1), (2, 0, 3)])
    _, entities, sides = queries_of(graph)
    sampler = NegativeSampler(MANY, 6, candidates=candidates_of(graph, "observed"), share=0.25)
    torch.manual_seed(0)
    for row, side in zip(sampler.sample(entities, sides).tolist(), sides.tolist(), strict=True):
        assert set(row[: -MANY // 4]) == set(range(6))
        assert set(row[-MANY // 4 :]) == ({1, 3} if side == 0 else {0, 2})


def test_half_of_the_negatives_are_known_false_answers_where_there_are_some():
    graph = graph_of([(0, 0, 1), (2, 0, 3), (4, 1, 5)])
    false = Triples.of([(0, 0, 4), (0, 0, 5), (1, 0, 3)])
    _, entities, sides = queries_of(graph)
    own = own_negatives(false, graph.train, 2)
    sampler = NegativeSampler(MANY + 1, 6, own=own)
    torch.manual_seed(0)
    negatives = sampler.sample(entities, sides)
    found = {
        (e, s): (set(row[::2]), set(row[1::2]))
        for e, s, row in zip(entities.tolist(), sides.tolist(), negatives.tolist(), strict=True)
    }
    every = set(range(6))
    assert found[0, 0] == ({4, 5}, every)
    assert found[3, 2] == ({1}, every)  # the head query of (2, 0, 3)
    for query in ((2, 0), (4, 1), (1, 2), (5, 3)):
        assert found[query] == (every, every)


# Some of these share a query with a training fact, however the facts are split.
FALSE = [(f"p{i}", "knows", f"p{i + 1}") for i in range(9)]


def changed(graph, **training):
    values = {"epochs": 3, "num_negatives": 4, "objective": "negative-sampling", "threads": 1}
    model = {"name": "complex", "dim": 4}
    settings = make_settings({"model": model, "training": values | training})
    return Trainer(graph, settings).run().entities.detach()


def test_every_choice_changes_what_is_learned():
    graph = people_graph()
    tables = [
        changed(graph),
        changed(graph, negative_candidates="observed"),
        changed(graph, negative_candidates="observed", negative_candidates_share=1.0),
        changed(with_negatives(graph, FALSE)),
        changed(with_negatives(graph, FALSE), negative_candidates="observed"),
    ]
    for number, table in enumerate(tables):
        assert all(not torch.equal(table, other) for other in tables[:number])


def test_negatives_that_would_have_no_effect_are_refused():
    graph = people_graph()
    false = with_negatives(graph, FALSE)
    with pytest.raises(SettingsError, match="no effect with the objective softmax"):
        changed(false, objective="softmax", num_negatives=64)
    with pytest.raises(SettingsError, match="negative_candidates has no effect with the objective"):
        make_settings({"training": {"negative_candidates": "observed"}})
    with pytest.raises(SettingsError, match="negative_candidates_share has no effect if"):
        changed(graph, negative_candidates_share=1.0)
    with pytest.raises(SettingsError, match="negatives would have no effect"):
        changed(with_negatives(graph, [("c0", "knows", "c1")]))
    with pytest.raises(fivestar.FivestarError, match="has no types"):
        changed(graph, negative_candidates="types")


def test_a_run_keeps_its_negatives_and_resumes_with_them(tmp_path):
    graph = with_negatives(people_graph(), FALSE)
    assert graph_hash(graph) != graph_hash(people_graph())
    values = {"epochs": 3, "objective": "margin", "num_negatives": 2, "checkpoint_every": 1}
    settings = make_settings({"model": {"name": "complex", "dim": 4}, "training": values})
    whole = train(graph, settings, tmp_path / "whole")

    def stop(line):
        if line["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(graph, settings, tmp_path / "cut", stop)
    resumed = resume(tmp_path / "cut")
    assert resumed.graph.negatives == graph.negatives
    assert torch.equal(resumed.model.entities, whole.model.entities)


def test_train_takes_negatives_from_any_source():
    graph = people_graph()
    source = [tuple(row.values()) for row in graph.named(graph.train).to_pylist()]
    options = {"objective": "margin", "num_negatives": 2, "model": "complex", "dim": 4}
    model = fivestar.train(source, negatives=FALSE, epochs=1, **options)
    named = model.graph.named(model.graph.negatives).to_pylist()
    assert [tuple(row.values()) for row in named] == FALSE
    assert np.isfinite(model.model.entities.detach().numpy()).all()
