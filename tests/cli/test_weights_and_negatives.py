"""Weights, own negatives and typed candidates on the command line."""

from __future__ import annotations

import json

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.graph.storage import load_graph
from fivestar.graph.writing import write_graph


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture
def weighted(tmp_path):
    path = tmp_path / "graph.csv"
    rows = [f"p{i},knows,p{(i + 7) % 60},{0.5 if i % 2 else 2}" for i in range(60)]
    path.write_text("head,relation,tail,votes\n" + "\n".join(rows))
    return path


def test_weights_from_a_column_are_shown_kept_and_trained_with(weighted, tmp_path):
    shown = json.loads(invoke("graph", "info", weighted, "--weight-column", "votes", "--json"))
    expected = {"facts": 60, "minimum": 0.5, "mean": 1.25, "maximum": 2.0}
    assert shown["weights"] == {"train": expected}
    assert "weights of" in invoke("graph", "info", weighted, "--weight-column", "3")
    assert "weights of" not in invoke("graph", "info", weighted)
    invoke(
        *("graph", "split", weighted, "--weight-column", "votes", "--valid", "0.1"),
        *("--test", "0.1", "--out", tmp_path / "parts"),
    )
    parts = fivestar.read_graph(tmp_path / "parts", weight="weight")
    assert {0.5, 2.0} == set(parts.train.weights.tolist())
    assert len(parts.valid.weights) == 6
    invoke(
        *("train", tmp_path / "parts", "--weight-column", "weight", "--epochs", 1, "--dim", 4),
        *("--out", tmp_path / "run"),
    )
    assert load_graph(tmp_path / "run" / "graph").train.weights.tolist() == (
        parts.train.weights.tolist()
    )


def test_errors_name_the_flag(weighted):
    for column, message in (("vote", "no column 'vote'"), ("9", "no column 9 with weights")):
        with pytest.raises(fivestar.FivestarError, match=message):
            invoke("graph", "info", weighted, "--weight-column", column)
    from fivestar.cli.terminal import with_flags  # noqa: PLC0415

    text = "weight='confidence': pass the position; weight=3 is that of …; omit weight"
    assert with_flags(text) == (
        "--weight-column confidence: pass the position; --weight-column 3 is that of …; omit "
        "--weight-column"
    )


def test_own_negatives_and_typed_candidates(tmp_path):
    graph = people_graph()
    write_graph(graph, tmp_path / "people")
    false = tmp_path / "false.tsv"
    false.write_text("".join(f"p{i}\tknows\tp{i + 1}\n" for i in range(9)))
    run = tmp_path / "run"
    invoke(
        *("train", tmp_path / "people", "--negatives", false, "--epochs", 1, "--dim", 4),
        *("--objective", "margin", "--negative-candidates", "observed", "--out", run),
    )
    model = fivestar.load(run)
    assert len(model.graph.negatives) == 9
    assert model.settings.training.negative_candidates == "observed"
    shown = json.loads(invoke("evaluate", run, "--candidates", "observed", "--json"))
    assert shown["among"] == json.loads(
        json.dumps(model.evaluate("test", candidates="observed")["among"])
    )
    text = invoke("evaluate", run, "--candidates", "observed")
    assert "not the standard protocol" in text
    assert f"{shown['mrr']:.4f}" in text
    assert "not the standard" not in invoke("evaluate", run)
    ask = ("ask", run, "p0", "lives_in", "_", "--top", 80, "--json")
    assert len(json.loads(invoke(*ask))) > 7
    answers = json.loads(invoke(*ask, "--candidates", "observed"))
    assert sorted(answer["id"] for answer in answers) == [f"c{i}" for i in range(7)]
    false.write_text("p0\tknows\tnobody\n")
    with pytest.raises(fivestar.FivestarError, match="has entities that people lacks: 'nobody'"):
        invoke("train", tmp_path / "people", "--negatives", false, "--objective", "margin")
