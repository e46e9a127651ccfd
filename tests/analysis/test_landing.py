"""What is said about where heads land agrees with brute force, on two graphs and both pairings."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
import torch

import fivestar
from fivestar.analysis.landing import (
    Landing,
    choose_facts,
    describe_landing,
    fact_points,
    landings,
    nearest_tails,
)


def family():
    """Parents and children: heads with several tails, one tail of several heads."""
    facts = [(f"p{i}", "parent_of", f"c{i}") for i in range(12)]
    facts += [(f"p{i}", "parent_of", f"c{(i + 1) % 12}") for i in range(0, 12, 3)]
    return [*facts, *((f"c{i}", "likes", f"p{i}") for i in range(12))]


def trained(name, pairing):
    graph = fivestar.read_graph() if name == "demo" else fivestar.read_graph(family())
    model = {"name": "fivestar", "dim": 8, "pairing": pairing}
    training = {"epochs": 8 if name == "demo" else 40, "evaluate-every": 0}
    return fivestar.train(graph, {"model": model, "training": training})


@pytest.fixture(scope="module", params=[("demo", "hermitian"), ("family", "bilinear")])
def run(request):
    return trained(*request.param)


def on_sphere(z):
    return np.array([2 * z.real, 2 * z.imag, abs(z) ** 2 - 1]) / (abs(z) ** 2 + 1)


def complex_rows(run, name):
    number = run.graph.entities.find(name)
    row = run.model.entities[number].detach().double().numpy()
    return row[: len(row) // 2] + 1j * row[len(row) // 2 :]


def brute_force(run, relation, facts, dimension):
    """Count heads that land nearest their own tail, by names and plain numbers."""
    parts = run.model.relations[relation].detach().double().numpy().reshape(4, 2, -1)
    a, b, c, d = (part[0, dimension] + 1j * part[1, dimension] for part in parts)
    names = run.graph.named(facts).to_pylist()
    head = {row["head"]: complex_rows(run, row["head"])[dimension] for row in names}
    tail = {row["tail"]: complex_rows(run, row["tail"])[dimension] for row in names}
    if run.settings.model.options["pairing"] == "bilinear":
        tail = {name: z.conjugate() for name, z in tail.items()}
    moduli = [abs(head[row["head"]]) for row in names] + [abs(tail[row["tail"]]) for row in names]
    scale = 3 * sorted(moduli)[(len(moduli) - 1) // 2]
    relation_name = run.graph.relations.name_of(relation)
    known = {tuple(row.values()) for row in run.graph.named(run.graph.facts).to_pylist()}
    own = {h: {t for t in tail if (h, relation_name, t) in known} for h in head}
    nearest = {}
    for name, z in head.items():
        image = on_sphere((a * z + b) / (c * z + d) / scale)
        nearest[name] = min(
            tail, key=lambda t, at=image: np.linalg.norm(at - on_sphere(tail[t] / scale))
        )
    heads = [name for name in head if own[name]]
    count = sum(nearest[name] in own[name] for name in heads)
    return count, [[nearest[i] in own[j] for j in heads] for i in heads], nearest


def test_landings_agree_with_brute_force(run):
    telling = 0
    for relation in range(len(run.graph.relations)):
        facts = choose_facts(run.graph, relation, limit=14)
        points = fact_points(run.model, facts)
        found = landings(run.graph, facts, points)
        ids = nearest_tails(facts, points)
        for dimension, landing in enumerate(found):
            count, hits, nearest = brute_force(run, relation, facts, dimension)
            assert (landing.count, landing.total) == (count, len(hits))
            assert landing.expected == pytest.approx(np.mean(hits) * len(hits))
            for row, fact in zip(run.graph.named(facts).to_pylist(), ids, strict=True):
                assert run.graph.entities.name_of(int(fact[dimension])) == nearest[row["head"]]
            sentence = describe_landing(landing)
            assert (sentence is not None) == landing.is_telling
            if sentence is not None:
                telling += 1
                assert f": {count} of {len(hits)} land nearest their own" in sentence
    assert telling > 0


def test_baseline_is_that_of_all_permutations(run):
    """The mean and the deviation of six heads are those over all 720 permutations."""
    facts = choose_facts(run.graph, 0, limit=6)
    landing = landings(run.graph, facts, fact_points(run.model, facts))[3]
    _, hits, _ = brute_force(run, 0, facts, 3)
    rows = range(len(hits))
    counts = [
        sum(hits[i][j] for i, j in zip(rows, order, strict=True))
        for order in itertools.permutations(rows)
    ]
    assert landing.expected == pytest.approx(statistics.mean(counts))
    assert landing.deviation == pytest.approx(statistics.pstdev(counts))


def test_facts_are_prominent_and_varied():
    graph = fivestar.read_graph()
    facts = choose_facts(graph, graph.relations.find("in_country"), limit=24)
    assert len(np.unique(facts.heads)) == len(np.unique(facts.tails)) == 24
    names = [tuple(row.values()) for row in graph.named(facts).to_pylist()]
    assert ("Beijing", "in_country", "China") in names[:5]
    lyon = (graph.entities.find("Lyon"), graph.entities.find("France"))
    chosen = choose_facts(graph, graph.relations.find("in_country"), 5, first=lyon)
    assert (int(chosen.heads[0]), int(chosen.tails[0])) == lyon
    # Both ends of a new triple may be first, too, and a fact is never there twice.
    assert len({tuple(row) for row in chosen.array.tolist()}) == 5
    new = (lyon[1], lyon[0])
    chosen = choose_facts(graph, graph.relations.find("in_country"), 5, first=new)
    assert (int(chosen.heads[0]), int(chosen.tails[0])) == new


def test_heads_without_a_known_tail_are_not_counted(run):
    relation = 0
    facts = choose_facts(run.graph, relation, limit=6)
    stranger = int(
        np.setdiff1d(
            np.arange(len(run.graph.entities)),
            run.graph.facts.heads[run.graph.facts.relations == relation],
        )[0]
    )
    more = choose_facts(run.graph, relation, limit=7, first=(stranger, int(facts.tails[0])))
    found = landings(run.graph, more, fact_points(run.model, more))
    assert found[0].total == 6
    only = more.take(np.arange(1))
    assert landings(run.graph, only, fact_points(run.model, only))[0] == Landing(0, 0, 0.0, 0.0)


def test_bilinear_targets_are_conjugated():
    run = trained("family", "bilinear")
    facts = choose_facts(run.graph, 0, limit=3)
    tails = torch.complex(
        *run.model.entities.detach().double()[facts.tails.astype(np.int64)].chunk(2, dim=1)
    )
    assert torch.equal(fact_points(run.model, facts).targets, tails.conj())


@pytest.mark.parametrize(
    ("landing", "types", "sentence"),
    [
        (
            Landing(20, 24, 1.0, 0.9),
            ("city", "country"),
            "Brings cities to their countries: 20 of 24 land nearest their own",
        ),
        (
            Landing(8, 24, 1.0, 0.9),
            ("country", "country"),
            "Brings some countries to related countries: 8 of 24 land nearest their own",
        ),
        (
            Landing(20, 24, 1.0, 0.9),
            ("/film/film", "country"),
            "Brings heads to their tails: 20 of 24 land nearest their own",
        ),
        # Not above the baseline, too few heads, and everything nearest to everybody's tail.
        (Landing(4, 24, 1.0, 0.9), ("city", "country"), None),
        (Landing(4, 4, 1.0, 0.5), ("city", "country"), None),
        (Landing(24, 24, 24.0, 0.0), ("city", "continent"), None),
    ],
)
def test_sentence(landing, types, sentence):
    expected = None if sentence is None else f"{sentence} (1.0 expected at random)."
    assert describe_landing(landing, *types) == expected
