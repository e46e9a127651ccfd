"""Paths and loops side by side: their graphs, their ranks, and the tables of geometry."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fivestar.cli.main import app
from fivestar.experiments import geometry_tables
from fivestar.experiments.results import markdown_table
from fivestar.experiments.structures import (
    CLOSE_PATH,
    CLOSES_LOOP,
    MODELS,
    NODES,
    embed_in_plane,
    path_beside_loop,
    path_loop_graph,
    rank_triples,
    side_by_side,
    training_mrr,
)
from fivestar.graph.known_answers import with_reciprocals
from fivestar.training.train import train


def rows(triples):
    columns = (triples.heads.tolist(), triples.relations.tolist(), triples.tails.tolist())
    return set(zip(*columns, strict=True))


def test_the_facts():
    graph = side_by_side("path", "loop", 4)
    named = {tuple(row.values()) for row in graph.named(graph.train).to_pylist()}
    path = {("h1", "r1", "h2"), ("h2", "r1", "h3"), ("h3", "r1", "h4")}
    loop = {("t1", "r3", "t2"), ("t2", "r3", "t3"), ("t3", "r3", "t4"), ("t4", "r3", "t1")}
    assert named == path | loop | {(f"h{i}", "r2", f"t{i}") for i in range(1, 5)}


def test_without_its_closing_fact_the_loop_equals_the_path():
    """h ↔ t, r₁ ↔ r₃, r₂ reversed: the same facts. So no model can know which one closes."""
    graph = path_loop_graph("held out")
    facts = rows(with_reciprocals(graph.train, 3))
    other_relation = {0: 2, 1: 4, 2: 0, 3: 5, 4: 1, 5: 3}

    def swap(entity):
        return (entity + NODES) % (2 * NODES)

    assert {(swap(h), other_relation[r], swap(t)) for h, r, t in facts} == facts
    # And the query about the loop becomes that about the path.
    head, relation, tail = CLOSES_LOOP
    assert (swap(head), other_relation[relation], swap(tail)) == CLOSE_PATH[1]
    # With it there is no such symmetry.
    facts = rows(with_reciprocals(path_loop_graph("trained").train, 3))
    assert {(swap(h), other_relation[r], swap(t)) for h, r, t in facts} != facts
    assert rows(graph.test) == {CLOSES_LOOP}


def test_ranks_against_a_sorted_list():
    graph = path_loop_graph("held out")
    run = train(graph, {"model": {"name": "complex", "dim": 4}, "training": {"epochs": 20}})
    facts = [*rows(graph.train), CLOSES_LOOP, *CLOSE_PATH]
    found = rank_triples(run, facts)
    everyone = np.arange(2 * NODES)
    known = rows(with_reciprocals(graph.train, 3))
    for (left, right), (head, relation, tail) in zip(found, facts, strict=True):
        for rank, (given, asked, wanted) in (
            (left, (tail, relation + 3, head)),
            (right, (head, relation, tail)),
        ):
            query = (torch.tensor([given]), torch.tensor([asked]))
            scores = run.model.score_tails(*query)[0].detach().numpy()
            rivals = [e for e in everyone if e == wanted or (given, asked, e) not in known]
            above = sum(scores[e] > scores[wanted] for e in rivals)
            assert rank == above + 1


def test_the_experiment():
    counted = []
    held = path_beside_loop("held out", range(2), 2, 3, lambda: counted.append(1))
    assert len(counted) == 2 * len(MODELS)
    assert held.triples[-3:] == ["t10 r3 t1", "h10 r3 h1", "h10 r1 h1"]
    assert set(held.ranks) == set(MODELS)
    for name, found in held.ranks.items():
        assert found.shape == (2, 31, 2)
        assert found.min() >= 1
        assert found.max() <= 2 * NODES
        trained = found[:, :-3]
        assert held.fit(name) == pytest.approx((1 / trained).mean())
    closed = path_beside_loop("trained", range(1), 2, 3)
    assert closed.triples == held.triples
    assert closed.fit("TransE") == pytest.approx((1 / closed.ranks["TransE"][:, :-2]).mean())


@pytest.mark.parametrize(("heads", "tails"), [("path", "loop"), ("loop", "loop")])
def test_one_complex_number_per_entity_suffices(heads, tails):
    run = embed_in_plane(heads, tails)
    assert run.model.entities.shape == (12, 2)
    assert training_mrr(run) == 1


def test_transformations_are_those_of_the_paper():
    assert geometry_tables.transformations("transe") == {"translation"}
    assert geometry_tables.transformations("rotate") == {"rotation"}
    assert geometry_tables.transformations("complex") == {"rotation", "homothety"}
    assert geometry_tables.transformations("quate") == {"rotation"}
    assert geometry_tables.transformations("fivestar") == set(geometry_tables.TRANSFORMATIONS)
    assert geometry_tables.transformations_table()[-1] == ["5★E", *"★★★★★"]


def test_the_classes_of_mobius_maps():
    table = geometry_tables.mobius_classes_table()
    by_class = {row[0]: row for row in table[1:]}
    assert by_class["parabolic"][4] == "1"
    assert {by_class[name][4] for name in by_class if name != "parabolic"} == {"2"}
    assert by_class["circular"][5:] == ["0", "-1"]


def test_commands(tmp_path):
    invoke = CliRunner().invoke
    for name in ("table-transformations", "table-mobius"):
        shown = invoke(app, ["reproduce", name])
        assert shown.exit_code == 0, shown.output
        markdown = invoke(app, ["reproduce", name, "--markdown"])
        assert markdown.output.splitlines()[1].startswith("| --- |")
    small = ["--seeds", "1", "--dim", "2", "--epochs", "2"]
    figure = tmp_path / "ranks.png"
    shown = invoke(app, ["reproduce", "path-beside-loop", *small, "--out", str(figure)])
    assert shown.exit_code == 0, shown.output
    assert "19 / 18" in shown.output
    assert figure.read_bytes().startswith(b"\x89PNG")
    listed = json.loads(invoke(app, ["reproduce", "path-beside-loop", *small, "--json"]).output)
    assert [each["closing"] for each in listed] == ["held out", "trained"]
    figure = tmp_path / "structures.pdf"
    options = ["--nodes", "3", "--seed", "1", "--out", str(figure)]
    shown = invoke(app, ["reproduce", "structures", *options])
    assert shown.exit_code == 0, shown.output
    assert figure.read_bytes().startswith(b"%PDF")


def test_markdown_keeps_its_columns():
    assert markdown_table([["a", "b"], ["|x|", "y"]]).splitlines()[2] == "| \\|x\\| | y |"
