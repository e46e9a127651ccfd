"""Positive premises and conclusions, against exact maps and a loop over all triples."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.inference import _paths, _permutation_within, inference
from fivestar.analysis.relations import entity_points, relation_maps
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import apply, compose, inverse

FACTS = [(f"e{i}", "parent", f"e{i + 1}") for i in range(40)]
FACTS += [(t, "child", h) for h, _, t in FACTS[:25]]
FACTS += [(f"e{i}", "grandparent", f"e{i + 2}") for i in range(25)]
FACTS += [(f"e{i}", "friend", f"e{(i + 13) % 30}") for i in range(30)]
FACTS += [(t, "friend", h) for h, _, t in FACTS[-30:-10]]


def random_run(**model):
    graph = fivestar.read_graph(FACTS)
    run = fivestar.train(graph, {"model": {"dim": 8, **model}, "training": {"epochs": 0}})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        run.model.entities.normal_(generator=generator)
        run.model.relations.normal_(generator=generator)
    return run


@pytest.mark.parametrize("pairing", ["hermitian", "bilinear"])
def test_exact_conclusions_against_the_maps(pairing):
    run = random_run(pairing=pairing)
    found = {(one.pattern, one.map): one for one in inference(run) if one.source == "facts"}
    maps, points = relation_maps(run.model), entity_points(run.model, torch.arange(41))
    bar = torch.conj if pairing == "hermitian" else (lambda z: z)

    def score(m, h, t):
        return float((apply(m, points[h]) * bar(points[t])).sum().real)

    def back(m):
        return inverse(m if pairing == "hermitian" else m.conj())

    facts = run.graph.train.array.tolist()
    held = [score(back(maps[r]), t, h) > 0 for h, r, t in facts if score(maps[r], h, t) > 0]
    one = found["inverse", "exact"]
    assert one.num_premises == len(facts)
    assert one.premises == pytest.approx(len(held) / len(facts))
    assert one.conclusions == pytest.approx(np.mean(held))
    assert ("composed", "exact") in found or pairing == "bilinear"
    if pairing == "hermitian":
        paths = [(x, r, y, s, z) for x, r, y in facts for y2, s, z in facts if y == y2]
        held = [
            score(compose(maps[s], maps[r]), x, z) > 0
            for x, r, y, s, z in paths
            if score(maps[r], x, y) > 0 and score(maps[s], y, z) > 0
        ]
        one = found["composed", "exact"]
        assert one.num_premises == len(paths)
        assert one.conclusions == pytest.approx(np.mean(held))


def test_learned_conclusions_were_not_trained():
    run = random_run()
    graph = run.graph
    found = {(one.pattern, one.map): one for one in inference(run) if one.source == "facts"}
    train = {tuple(row) for row in graph.train.array.tolist()}
    friend = graph.relations.id_of("friend")
    new = [(h, t) for h, r, t in train if r == friend and (t, r, h) not in train]
    assert found["symmetric", "learned"].num_premises == len(new)
    ids = torch.tensor(new)
    relation = torch.full((len(new),), friend)
    premises = run.model.score(ids[:, 0], relation, ids[:, 1]) > 0
    conclusions = run.model.score(ids[:, 1], relation, ids[:, 0]) > 0
    expected = float(conclusions[premises].float().mean())
    assert found["symmetric", "learned"].conclusions == pytest.approx(expected)
    assert found["composed", "learned"].num_premises > 0


def test_the_inverse_of_a_rotation_scores_the_same():
    """Re Σ (a h) conj(t) = Re Σ (ā t) conj(h): there positive premises are enough."""
    run = random_run()
    with torch.no_grad():
        a, b, c, d = run.model.matrix(run.model.relations)
        size = (a.real**2 + a.imag**2).sqrt()
        for part, value in ((a.real, a.real / size), (a.imag, a.imag / size), (d.real, 1.0)):
            part.copy_(torch.as_tensor(value))
        for part in (b.real, b.imag, c.real, c.imag, d.imag):
            part.zero_()
    found = {(one.pattern, one.map): one for one in inference(run) if one.source == "facts"}
    assert found["inverse", "exact"].conclusions == 1
    assert found["inverse", "exact"].baseline < 1
    (one,) = (x for x in inference(run) if (x.pattern, x.source) == ("inverse", "random"))
    assert one.conclusions == 1
    assert 0.2 < one.premises < 0.8


def test_random_premises_have_the_relations_of_facts():
    """Scores of random maps are positive or negative alike, whatever the premises."""
    found = [one for one in inference(random_run()) if one.source == "random"]
    assert [one.pattern for one in found] == ["inverse", "composed"]
    for one in found:
        assert one.map == "exact"
        assert 0.05 < one.premises < 0.95
        assert 0.05 < one.conclusions < 0.95


@given(st.lists(st.integers(0, 4)), st.integers(0, 100))
def test_rows_are_permuted_within_their_group(groups, seed):
    groups = np.array(groups, dtype=np.int64)
    permutation = _permutation_within(groups, np.random.default_rng(seed))
    assert sorted(permutation.tolist()) == list(range(len(groups)))
    assert (groups[permutation] == groups).all()
    alone = np.bincount(groups, minlength=5)[groups] == 1
    np.testing.assert_array_equal(permutation == np.arange(len(groups)), alone)


TRIPLES = st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=8).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 3)
)


@given(TRIPLES, TRIPLES, st.integers(1, 100))
def test_paths_are_all_pairs_that_meet(first, second, limit):
    every = [(tuple(a), tuple(b)) for a in first for b in second if a[2] == b[0]]
    one, two = _paths(first, second, limit, np.random.default_rng(0))
    found = [(tuple(a), tuple(b)) for a, b in zip(one, two, strict=True)]
    if len(every) <= limit:
        assert sorted(found) == sorted(every)
    else:
        assert 0 < len(found) <= limit
        assert set(found) <= set(every)


def test_a_distance_is_refused():
    with pytest.raises(SettingsError, match="score inner"):
        inference(random_run(score="distance"))


def test_the_command_records_its_line(tmp_path):
    random_run().save(tmp_path / "run")
    record = tmp_path / "patterns.jsonl"
    arguments = ["patterns", str(tmp_path / "run"), "--record", str(record)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "Positive premises" in shown.output
    line = json.loads(record.read_text())
    assert {"data", "seed", "settings_values", "commit", "machine", "date"} <= set(line)
    assert [one["map"] for one in line["inference"]][:2] == ["exact", "exact"]
