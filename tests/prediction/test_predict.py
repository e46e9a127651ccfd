"""Queries by name: which answers, in which order, and which errors."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import AmbiguousName, GraphWarning, SettingsError, UnknownName
from fivestar.notebook import html_table
from fivestar.prediction import trained_model

PEOPLE = [(f"p{i}", "lives_in", f"c{i % 5}") for i in range(40)]
KNOWS = [(f"p{i}", "knows", f"p{(i + 5) % 40}") for i in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("asked")
    graph = place / "graph"
    graph.mkdir()
    lines = ["\t".join(fact) for fact in PEOPLE + KNOWS]
    (graph / "train.txt").write_text("\n".join(lines[:70]) + "\n")
    (graph / "valid.txt").write_text("\n".join(lines[70:75]) + "\n")
    (graph / "test.txt").write_text("\n".join(lines[75:]) + "\n")
    labels = [f"p{i}\tPerson {i}" for i in range(38)] + ["p38\tTwin", "p39\tTwin"]
    (graph / "entity_labels.tsv").write_text("\n".join(labels) + "\n")
    types = [f"p{i}\tperson" for i in range(40)] + [f"c{i}\tcity" for i in range(5)]
    (graph / "entity_types.tsv").write_text("\n".join(types) + "\n")
    settings = {
        "model": {"dim": 8},
        "training": {"epochs": 20, "evaluate-every": 0, "reg_weight": 0.0},
    }
    fivestar.train(fivestar.read_graph(graph), settings, place / "run")
    return place / "run"


@pytest.fixture(scope="module")
def model(folder):
    return fivestar.load(folder)


def test_predictions_are_sorted_by_score(model):
    found = model.predict_tails("p3", "lives_in", top=45)
    scores = [answer.score for answer in found]
    # Nobody lives in themselves.
    assert {answer.id for answer in found} == set(model.graph.entities) - {"p3"}
    assert scores == sorted(scores, reverse=True)
    assert [answer.rank for answer in found] == list(range(1, 45))
    head, relation = (
        torch.tensor([v.id_of(n)])
        for v, n in ((model.graph.entities, "p3"), (model.graph.relations, "lives_in"))
    )
    whole = model.model.score_tails(head, relation)[0].detach()
    whole[head] = -torch.inf
    assert scores[0] == pytest.approx(float(whole.max()))
    assert found[0].id == model.graph.entities.name_of(int(whole.argmax()))
    assert {answer.id for answer in found if answer.split} == {"c3"}
    assert [answer.id for answer in found if answer.probability is None] == ["c3"]
    likely = [answer.probability for answer in found if answer.id != "c3"]
    assert all(a >= b for a, b in itertools.pairwise(likely))


def test_filters_by_known_new_and_types(model):
    only = model.predict_heads("lives_in", "c1", top=40, which="known")
    assert {answer.id for answer in only} == {f"p{i}" for i in range(1, 40, 5)}
    new = model.predict_heads("lives_in", "c1", top=100, which="new")
    assert not any(answer.split for answer in new)
    assert len(new) + len(only) == 44
    cities = model.predict_tails("p1", "lives_in", top=45, types=["city"])
    assert {answer.id for answer in cities} == {f"c{i}" for i in range(5)}
    both = model.predict_tails("p1", "lives_in", top=99, types=["city", "person"])
    assert len(both) == 44


def test_splits_of_answers(model):
    graph = model.graph
    for split in ("train", "valid", "test"):
        h, r, t = graph.split(split).array[0].tolist()
        head, tail = graph.entities.name_of(h), graph.entities.name_of(t)
        relation = graph.relations.name_of(r)
        assert model.score(head, relation, tail).split == split
        tails = {a.id: a.split for a in model.predict_tails(head, relation, top=45)}
        heads = {a.id: a.split for a in model.predict_heads(relation, tail, top=45)}
        relations = {a.id: a.split for a in model.predict_relations(head, tail)}
        assert tails[tail] == heads[head] == relations[relation] == split
    assert model.score("p1", "knows", "p2").split is None


def test_repr_is_short_and_html_is_escaped(model):
    text = repr(model)
    assert text.startswith("TrainedModel(model fivestar, dim 8")
    assert len(text) < 200
    assert "<table>" in model._repr_html_()
    found = model.predict_tails("p3", "lives_in", top=2)
    assert found._repr_html_().count("<tr>") == 3
    assert "&lt;b&gt;" in html_table(["<b>"], [])
    for part in (
        model.similar("p3", top=2),
        model.explain("p3", "lives_in", "c3"),
        model.complete(top=2),
        model.evaluate(),
    ):
        assert part._repr_html_().startswith("<table>")
        assert len(repr(part)) < 5000


def test_evaluate_and_calibrate(folder, model):
    metrics = fivestar.evaluate(folder, by="relation")
    assert metrics["mrr"] == model.evaluate("test")["mrr"]
    assert set(metrics["by_relation"]) <= {"lives_in", "knows"}
    assert model.evaluate(task="relations")["count"] == len(model.graph.test)
    with pytest.raises(SettingsError, match="task links"):
        model.evaluate(task="relations", by="side")
    again = fivestar.load(folder)
    assert again.calibrate() == again.calibration
    assert set(again.reliability()) == {"sigmoid", "softmax", "calibrated"}


def test_relations(model):
    found = model.predict_relations("p3", "c3")
    assert {answer.id for answer in found} == {"lives_in", "knows"}
    assert {answer.id for answer in found if answer.split} == {"lives_in"}
    assert [a.id for a in model.predict_relations("p3", "c3", which="new")] == ["knows"]
    assert len(model.predict_relations("p3", "c3", top=1)) == 1


def test_score_of_one_triple(model):
    found = model.score("Person 3", "lives_in", "c3")
    listed = {a.id: a for a in model.predict_tails("p3", "lives_in", top=45)}["c3"]
    assert (found.id, found.split) == ("c3", "train")
    assert found.score == pytest.approx(listed.score)
    assert found.rank == listed.rank
    for answer in model.predict_tails("p7", "knows", top=45):
        assert model.score("p7", "knows", answer.id).rank == answer.rank
    new = model.score("p3", "knows", "p9")
    listed = {a.id: a for a in model.predict_tails("p3", "knows", top=45)}["p9"]
    heads = {a.id: a for a in model.predict_heads("knows", "p9", top=45)}["p3"]
    assert new.probability == pytest.approx((listed.probability + heads.probability) / 2)


def test_a_fact_is_in_train_held_out_or_new(model):
    graph, entities = model.graph, model.graph.entities
    seen = set()
    for split in ("train", "valid", "test"):
        h, r, t = graph.split(split).array[0].tolist()
        names = entities.name_of(h), graph.relations.name_of(r), entities.name_of(t)
        tails = {a.id: a for a in model.predict_tails(*names[:2], top=45)}
        heads = {a.id: a for a in model.predict_heads(*names[1:], top=45)}
        relations = {a.id: a for a in model.predict_relations(names[0], names[2])}
        found = [model.score(*names), tails[names[2]], heads[names[0]], relations[names[1]]]
        seen.add(model.explain(*names).state_text)
        for each in found:
            assert each.split == split
            assert each.state == ("in train" if split == "train" else "held out")
            # A probability of what the model was trained on would say nothing.
            assert (each.probability is None) == (split == "train")
        others = [a for a in tails.values() if a.split is None]
        assert {a.state for a in others} == {"new"}
        assert None not in {a.probability for a in others}
        assert (
            "in train" in repr(model.predict_tails(*names[:2], which="known")) or split != "train"
        )
    assert seen == {"in train", "held out (valid)", "held out (test)"}
    assert model.explain("p3", "knows", "p9").state == "new"


def test_a_refit_has_seen_the_validation_facts():
    graph = fivestar.split_graph(fivestar.read_graph(PEOPLE + KNOWS), valid=0.1, test=0.1)
    refit = fivestar.train(graph, dim=4, epochs=2, refit=True)
    for split, state in (("valid", "in train"), ("test", "held out")):
        h, r, t = graph.split(split).array[0].tolist()
        names = graph.entities.name_of(h), graph.relations.name_of(r), graph.entities.name_of(t)
        assert (refit.score(*names).split, refit.score(*names).state) == (split, state)
        assert refit.explain(*names).state == state


def test_names(model):
    for name in ("p7", "Person 7", "person 7", "P7"):
        assert model.predict_tails(name, "LIVES_IN", top=1).query[0] == name
    with pytest.raises(UnknownName, match="did you mean 'Person 7'"):
        model.predict_tails("Persn 7", "lives_in")
    with pytest.raises(
        AmbiguousName, match=r"'twin' is ambiguous, it matches 2 names: p38 \(Twin\), p39"
    ):
        model.predict_tails("twin", "lives_in")
    with pytest.raises(SettingsError, match="exactly one"):
        model.predict([("p1", "lives_in", "c1")])
    with pytest.raises(UnknownName, match="did you mean 'city'"):
        model.predict_tails("p1", "lives_in", types=["citi"])
    with pytest.raises(SettingsError, match="a relation has none"):
        model.predict([("p1", "_", "c1")], types=["city"])
    with pytest.raises(SettingsError, match="at least 1"):
        model.predict_tails("p1", "lives_in", top=0)


def test_names_without_training_triples_warn(tmp_path):
    for split, rows in (
        ("train", [f"p{i}\tknows\tp{(i + 1) % 9}" for i in range(9)]),
        ("valid", ["p1\tknows\tp5"]),
        ("test", ["p1\thates\tnobody"]),
    ):
        (tmp_path / f"{split}.txt").write_text("\n".join(rows) + "\n")
    graph = fivestar.read_graph(tmp_path)
    model = fivestar.train(graph, {"model": {"dim": 4}, "training": {"epochs": 1}})
    with pytest.warns(GraphWarning, match="relation 'hates' has no triple in train"):
        assert len(model.predict_tails("p1", "hates", top=3)) == 3
    with pytest.warns(GraphWarning, match="entity 'nobody' has no triple in train"):
        model.predict_heads("knows", "nobody")


def test_tables(model):
    found = model.predict_tails("p3", "lives_in", top=4)
    frame = found.to_pandas()
    columns = ["rank", "id", "label", "score", "probability", "split", "state"]
    assert list(frame.columns) == columns
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert "p3 lives_in _" in repr(found)
    assert found[:2] == [found[0], found[1]]
    empty = model.predict_relations("p3", "p4", which="known")
    assert list(empty.to_pandas().columns) == list(frame.columns)


def test_many_queries_are_answered_in_order(model):
    queries = [("p1", "lives_in", "_"), ("_", "knows", "p4"), ("p1", "_", "p6")] * 5
    for query, found in zip(queries, model.predict(queries, 3), strict=True):
        assert found.query == query
        (alone,) = model.predict([query], 3)
        assert [a.id for a in alone] == [a.id for a in found]
        np.testing.assert_allclose([a.score for a in alone], [a.score for a in found], rtol=1e-5)


@pytest.mark.parametrize("which", ["all", "new", "known"])
def test_a_large_graph_is_not_indexed_for_a_few_queries(folder, model, which, monkeypatch):
    queries = [("p3", "lives_in", "_"), ("_", "knows", "p9"), ("_", "lives_in", "c2")]
    wanted = [list(found) for found in model.predict(queries, top=45, which=which)]
    monkeypatch.setattr(trained_model, "_MANY_FACTS", 1)
    large = fivestar.load(folder)
    assert [list(found) for found in large.predict(queries, top=45, which=which)] == wanted
    assert "known_answers" not in large.__dict__
    large.predict(queries * 10, top=1)
    assert "known_answers" in large.__dict__


def test_without_reciprocals():
    settings = {"model": {"dim": 4}, "training": {"epochs": 2, "reciprocals": False}}
    graph = fivestar.split_graph(fivestar.read_graph(PEOPLE + KNOWS), valid=0.1, test=0.1)
    run = fivestar.train(graph, settings)
    found = run.predict_heads("lives_in", "c1", top=3)
    relation, tail = graph.relations.id_of("lives_in"), graph.entities.id_of("c1")
    scores = run.model.score_heads(relation, torch.tensor([tail]))[0]
    assert found[0].score == pytest.approx(float(scores.max()))


def invoke(*words):
    return CliRunner().invoke(app, ["ask", *map(str, words)])


def test_ask_command(folder):
    shown = invoke(folder, "Person 3", "lives_in", "_", "--top", 2)
    assert shown.exit_code == 0, shown.output
    assert "probability" in shown.output
    answers = json.loads(invoke(folder, "_", "lives_in", "c1", "--only-known", "--json").output)
    columns = {"rank", "id", "label", "score", "probability", "split", "state"}
    assert set(answers[0]) == columns
    assert all(answer["split"] for answer in answers)
    new = json.loads(invoke(folder, "?", "lives_in", "c1", "--exclude-known", "--json").output)
    assert not any(answer["split"] for answer in new)
    cities = invoke(folder, "p1", "lives_in", "_", "--types", "city", "--json")
    assert {answer["id"] for answer in json.loads(cities.output)} == {f"c{i}" for i in range(5)}
    nothing = invoke(folder, "p1", "_", "p2", "--only-known")
    assert "no matching answers" in nothing.output


def test_file_of_queries(folder, tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("p1\tlives_in\t_\n\n_\tknows\tPerson 4\np1\t_\tc1\n")
    lines = invoke(folder, "--queries", path, "--top", 2).output.splitlines()
    assert lines[0].split("\t")[:4] == ["head", "relation", "tail", "rank"]
    assert len(lines) == 1 + 6
    objects = invoke(folder, "--queries", path, "--top", 2, "--json").output.splitlines()
    parsed = [json.loads(line) for line in objects]
    assert [each["query"] for each in parsed][1] == ["_", "knows", "Person 4"]
    assert len(parsed[0]["answers"]) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no queries"),
        ("p1\tlives_in\n", "line 1: has 2 fields"),
        ("p1\tlives_in\t_\np1\tlives_in\tc1\n", "line 2: .*exactly one"),
        ("p1\tlives_in\t_\nnobody\tlives_in\t_\n", "line 2: no entity 'nobody'"),
    ],
)
def test_bad_queries(folder, tmp_path, content, message):
    path = tmp_path / "queries.tsv"
    path.write_text(content)
    result = invoke(folder, "--queries", path)
    assert result.output == ""  # nothing is answered before all is read
    with pytest.raises(Exception, match=message):
        raise result.exception


def test_bad_arguments(folder, tmp_path):
    for words, message in (
        (["p1", "lives_in"], "pass either HEAD RELATION TAIL"),
        (["p1", "lives_in", "_", "--queries", tmp_path / "x"], "pass either HEAD RELATION TAIL"),
        (["--queries", tmp_path / "x"], "no file"),
        (["p1", "lives_in", "_", "--only-known", "--exclude-known"], "exclude each other"),
    ):
        assert message in str(invoke(folder, *words).exception)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00p")
    assert "UTF-8" in str(invoke(folder, "--queries", binary).exception)
