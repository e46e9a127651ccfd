"""Paths and loops side by side: their graphs, their ranks, and the tables of geometry."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fivestar.analysis.plots.structures import structures
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.experiments import geometry_tables
from fivestar.experiments.path_loop import (
    CLOSE_PATH,
    CLOSES_LOOP,
    NODES,
    RIVALS,
    PathLoopResult,
    Training,
    fivestar_forms,
    path_beside_loop,
    path_loop_graph,
    rank_triples,
)
from fivestar.experiments.results import markdown_table
from fivestar.experiments.structures import SHAPES, embed_in_plane, side_by_side, training_mrr
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
    models = RIVALS | fivestar_forms(["mobius", "phase"])
    small = Training("n3", 0.2, dim=2, epochs=3, seeds=2)
    counted = []
    held = path_beside_loop("held out", models, small, on_trained=counted.append)
    assert sum(counted) == 2 * len(models)
    assert held.triples[-3:] == ["t10 r3 t1", "h10 r3 h1", "h10 r1 h1"]
    assert set(held.ranks) == set(models)
    for name, found in held.ranks.items():
        assert found.shape == (2, 31, 2)
        assert found.min() >= 1
        assert found.max() <= 2 * NODES
        trained = found[:, :-3]
        assert held.fit(name) == pytest.approx((1 / trained).mean())
    one = Training(dim=2, epochs=3, seeds=1)
    closed = path_beside_loop("trained", {"TransE": RIVALS["TransE"]}, one)
    assert closed.triples == held.triples
    assert closed.fit("TransE") == pytest.approx((1 / closed.ranks["TransE"][:, :-2]).mean())


def test_recorded_ranks_are_not_measured_again(tmp_path):
    record, models = tmp_path / "ranks.jsonl", fivestar_forms(scores=["inner"])
    small = Training("none", dim=2, epochs=3, seeds=2)
    first = path_beside_loop("trained", models, small, record)
    (line,) = map(json.loads, record.read_text().splitlines())
    assert {"commit", "machine", "date", "minutes", "settings_values"} <= set(line)
    assert line["settings_values"]["model"]["start"] == "identity"
    line["ranks"][0][0] = [7, 8]
    record.write_text(json.dumps(line) + "\n")
    again = path_beside_loop("trained", models, small, record)
    (name,) = models
    assert again.ranks[name][0, 0].tolist() == [7, 8]
    np.testing.assert_array_equal(again.ranks[name][1], first.ranks[name][1])
    # Another setting, closing fact or number of seeds is another line.
    for closing, training in (
        ("held out", small),
        ("trained", Training("n3", dim=2, epochs=3, seeds=2)),
        ("trained", Training("none", dim=2, epochs=3, seeds=1)),
    ):
        before = len(record.read_text().splitlines())
        path_beside_loop(closing, models, training, record)
        assert len(record.read_text().splitlines()) == before + 1


def test_a_weight_without_a_regularizer_is_refused():
    with pytest.raises(SettingsError, match="reg_weight has no effect"):
        Training("none", 0.1).settings(RIVALS["TransE"], 0)


def test_separated_counts_seeds():
    marked = [
        [[1, 2], [11, 12], [11, 20]],  # separated by both
        [[2, 2], [20, 11], [10, 20]],  # by r₃ only
        [[1, 3], [20, 20], [20, 20]],  # the loop is not closed
        [[1, 1], [10, 20], [11, 11]],  # by r₁ only
        [[1, 1], [1, 1], [1, 1]],
    ]
    result = PathLoopResult("trained", ["a", "b", "c"], {"model": np.array(marked, float)})
    assert result.separated("model") == (2, 2)


@pytest.mark.parametrize(("heads", "tails"), list(product(SHAPES, SHAPES)))
def test_one_complex_number_per_entity_suffices(heads, tails):
    run = embed_in_plane(heads, tails)
    assert run.model.entities.shape == (12, 2)
    assert training_mrr(run) == 1


def test_no_node_of_the_figure_is_cut_off():
    figure = structures({"path beside loop": embed_in_plane("path", "loop", 3)})
    figure.draw_without_rendering()
    radius = 60**0.5 / 2 * figure.dpi / 72  # pixels, of markers with s=60
    for panel in figure.axes:
        box = panel.get_window_extent()
        for nodes in panel.collections:
            x, y = panel.transData.transform(nodes.get_offsets()).T
            assert min(x.min() - box.x0, box.x1 - x.max()) > radius
            assert min(y.min() - box.y0, box.y1 - y.max()) > radius


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
        shown = invoke(app, ["reproduce", name], env={"COLUMNS": "80"})
        assert shown.exit_code == 0, shown.output
        rows = invoke(app, ["reproduce", name, "--markdown"]).output.replace("|", " ").split()
        words = [word for word in rows if "\\" not in word and word != "---"]
        assert not set(words) - set(shown.output.replace("|", " ").split()), name
        markdown = invoke(app, ["reproduce", name, "--markdown"])
        assert markdown.output.splitlines()[1].startswith("| --- |")
    small = ["--seeds", "1", "--dim", "2", "--epochs", "2"]
    figure = tmp_path / "ranks.png"
    shown = invoke(app, ["reproduce", "path-beside-loop", *small, "--out", str(figure)])
    assert shown.exit_code == 0, shown.output
    assert "19 / 18" in shown.output
    assert "5★E mobius" in shown.output
    assert figure.read_bytes().startswith(b"\x89PNG")
    form = ["--denominator", "phase", "--pairing", "bilinear", "--score", "inner"]
    form += ["--init", "rotation", "--off-diagonal-lr", "0.5", "--no-rivals"]
    one = invoke(app, ["reproduce", "path-beside-loop", *small, *form, "--json"])
    (name,) = json.loads(one.output)[0]["ranks"]
    assert name == "5★E phase bilinear inner init rotation off-diagonal-lr 0.5"
    listed = json.loads(invoke(app, ["reproduce", "path-beside-loop", *small, "--json"]).output)
    assert [each["closing"] for each in listed] == ["trained", "held out"]
    figure = tmp_path / "structures.pdf"
    options = ["--nodes", "3", "--seed", "1", "--out", str(figure)]
    shown = invoke(app, ["reproduce", "structures", *options])
    assert shown.exit_code == 0, shown.output
    assert figure.read_bytes().startswith(b"%PDF")


def test_markdown_keeps_its_columns():
    assert markdown_table([["a", "b"], ["|x|", "y"]]).splitlines()[2] == "| \\|x\\| | y |"
