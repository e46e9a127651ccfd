"""The commands around a run, once from the beginning to the end."""

from __future__ import annotations

import json

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import GraphWarning


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    result = run(
        "train",
        "--dim",
        16,
        "--epochs",
        12,
        "--reg-weight",
        0.02,
        "--evaluate-every",
        6,
        "--out",
        folder,
    )
    assert result.exit_code == 0, result.output
    assert "12 epochs" in result.stdout
    assert "validation MRR" in result.stdout
    assert "epoch 12/12  loss" in result.stderr
    return folder


def test_evaluate_prints_figures_and_json(trained):
    figures = json.loads(run("evaluate", trained, "--json", "--by", "relation").stdout)
    assert 0.2 < figures["mrr"] < 1
    assert figures["count"] == 1002
    assert figures["by_relation"]["in_country"]["count"] == 276
    assert {"hits@1", "hits@3", "hits@10", "mrr_95", "heads", "tails", "amri"} <= set(figures)
    other = json.loads(run("evaluate", trained, "--json", "--split", "valid").stdout)
    assert other["mrr"] == json.loads((trained / "metrics.json").read_text())["valid"]["mrr"]
    assert "both sides" in run("evaluate", trained, "--by", "seen").stdout


def test_evaluate_explains_self_answers_where_they_matter(tmp_path):
    graph = people_graph()
    settings = {
        "model": {"dim": 8, "init": "identity"},
        "training": {"epochs": 40, "reg_weight": 0.0, "evaluate-every": 0},
    }
    fivestar.train(graph, settings, tmp_path / "run")
    for split, is_notable in (("test", True), ("train", False)):
        figures = json.loads(run("evaluate", tmp_path / "run", "--json", "--split", split).stdout)
        text = " ".join(run("evaluate", tmp_path / "run", "--split", split).stdout.split())
        assert f"Self-answer rate {figures['self_answer_rate']:.1%} " in text
        sentence = f"MRR without self-answers {figures['mrr_without_self']:.4f}, hits@1"
        assert (sentence in text) == is_notable
        assert (abs(figures["mrr_without_self"] - figures["mrr"]) > 0.005) == is_notable
        for side in ("heads", "tails"):
            assert {"self_answer_rate", "hits@10_without_self"} <= set(figures[side])


def test_ask_answers_each_slot_by_name(trained):
    tails = json.loads(run("ask", trained, "Lyon", "in_country", "_", "--json").stdout)
    assert [answer["rank"] for answer in tails] == list(range(1, 11))
    assert [answer["score"] for answer in tails] == sorted(
        (a["score"] for a in tails), reverse=True
    )
    heads = json.loads(
        run("ask", trained, "?", "capital_of", "France", "--top", 2000, "--json").stdout
    )
    assert {answer["id"] for answer in heads if answer["split"]} == {"Paris"}
    relations = json.loads(run("ask", trained, "Paris", "_", "France", "--json").stdout)
    assert {a["id"] for a in relations if a["split"]} == {"capital_of", "in_country"}
    assert "Lyon  in_country  _" in run("ask", trained, "Lyon", "in_country", "_").stdout


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (["Lion", "in_country", "_"], "no entity 'Lion'; did you mean"),
        (["Lyon", "in_county", "_"], "no relation 'in_county'; did you mean 'in_country'"),
        (["Lyon", "_", "_"], "exactly one"),
        (["Lyon", "in_country", "France"], "exactly one"),
    ],
)
def test_bad_questions(trained, question, message):
    assert message in str(run("ask", trained, *question).exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--resume", "x", "--dim", 3], "omit all other options"),
        (["train", "--resume", "nothing"], "not the folder of a run"),
        (["train", "--out", "x", "--dim", 0], "greater than or equal to 1"),
        (["train", "--out", "x", "--model", "compleks"], "did you mean 'complex'"),
        (["train", "--out", "x", "--settings", "none.toml"], "cannot be read"),
        (["evaluate", "nothing"], "no folder nothing"),
    ],
)
def test_bad_calls_write_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in str(run(*arguments).exception)
    assert not (tmp_path / "x").exists()


def test_resuming_a_finished_run_changes_nothing(trained):
    before = (trained / "model.safetensors").read_bytes()
    assert run("train", "--resume", trained).exit_code == 0
    assert (trained / "model.safetensors").read_bytes() == before


def test_a_file_of_settings_and_flags_that_win(tmp_path):
    (tmp_path / "s.toml").write_text(
        '[model]\nname = "distmult"\ndim = 4\n[training]\nepochs = 9\n'
    )
    arguments = ["--settings", tmp_path / "s.toml", "--epochs", 1, "--out", tmp_path / "run"]
    assert run("train", *arguments).exit_code == 0
    text = (tmp_path / "run" / "settings.toml").read_text()
    assert 'name = "distmult"' in text
    assert "epochs = 1\n" in text


def test_the_demo_trains_tests_and_answers(tmp_path):
    result = run("demo", "--epochs", 2, "--out", tmp_path / "kept")
    assert fivestar.load(tmp_path / "kept").metrics["epochs"] == 2
    assert result.exit_code == 0, result.output
    for text in ("both sides", "Lyon  in_country  _", "_  neighbour_of  Germany", "fivestar ask"):
        assert text in result.stdout


def test_evaluate_ranks_another_graph_by_name(trained, tmp_path):
    (tmp_path / "more.tsv").write_text("Paris\tin_country\tFrance\nAtlantis\tin_country\tFrance\n")
    with pytest.warns(GraphWarning, match=r"1 of 2 train triples .* not in the model"):
        result = run("evaluate", trained, "--graph", tmp_path / "more.tsv", "--split", "train")
    assert "both sides" in result.stdout
    missing = run("evaluate", trained, "--graph", tmp_path / "more.tsv")
    assert "there are no test triples" in str(missing.exception)


def test_evaluate_takes_any_k_each_side_and_a_bound_of_memory(trained):
    plain = json.loads(run("evaluate", trained, "--json").stdout)
    options = ["--hits", "5,20", "--by", "side", "--memory", "110MiB", "--json"]
    found = json.loads(run("evaluate", trained, *options).stdout)
    assert found["mrr"] == plain["mrr"]
    assert 0 < found["hits@5"] < found["hits@20"] < 1
    assert "hits@10" not in found
    assert found["by_side"]["heads"] == found["heads"]
    assert "hits@20" in run("evaluate", trained, "--hits", "20").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hits", "0"], "whole numbers from 1 on"),
        (["--hits", "x"], "whole numbers from 1 on"),
        (["--memory", "lots"], "'lots' is not an amount of memory; write it as in 2GiB"),
        (["--memory", "1MiB"], "ranking needs at least"),
    ],
)
def test_evaluate_refuses_what_it_cannot_do(trained, options, message):
    assert message in str(run("evaluate", trained, *options).exception)


def test_evaluate_has_other_tasks(trained):
    classified = json.loads(run("evaluate", trained, "--task", "classification", "--json").stdout)
    assert 0.5 < classified["accuracy"] <= 1
    named = json.loads(run("evaluate", trained, "--task", "relations", "--json").stdout)
    assert named["mrr"] > 0.5
    assert named["count"] == 501
    assert "accuracy" in run("evaluate", trained, "--task", "classification").stdout
    refused = run("evaluate", trained, "--task", "relations", "--by", "side")
    assert "need --task links" in str(refused.exception)


@pytest.mark.parametrize("reciprocals", ["--reciprocals", "--no-reciprocals"])
def test_a_run_is_converted_with_the_same_figures_and_trained_further(tmp_path, reciprocals):
    options = ("--dim", 8, "--epochs", 4, reciprocals)
    assert run("train", "--model", "complex", *options, "--out", tmp_path / "one").exit_code == 0
    converted = run("convert", tmp_path / "one", tmp_path / "two", "--to", "fivestar")
    assert converted.exit_code == 0, converted.output
    assert "5★E with the same scores" in converted.stdout
    before, after = (
        json.loads(run("evaluate", tmp_path / name, "--json").stdout) for name in ("one", "two")
    )
    for side in ("heads", "tails"):
        assert after[side] == pytest.approx(before[side], rel=1e-4)
    further = run("train", "--from", tmp_path / "two", "--epochs", 1, "--out", tmp_path / "three")
    assert further.exit_code == 0, further.output
    assert "entities: 2,149 kept, 0 new, 0 vanished" in further.stdout
    refused = run("convert", tmp_path / "two", tmp_path / "four")
    assert "is one already" in str(refused.exception)
    assert not (tmp_path / "four").exists()
