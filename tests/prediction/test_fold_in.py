"""Inductive fold-in: nothing else changes, new triples are learned, misspellings are noticed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.fold_in import fold_in as command
from fivestar.cli.main import app
from fivestar.errors import GraphError, UnknownName
from fivestar.prediction.fold_in import EPOCHS, LEARNING_RATE, fold_in, possible_misspellings

FACTS = [("Neo", "lives_in", "c3"), ("p3", "knows", "Neo")]
FORMS = [
    {"name": "fivestar"},
    {"name": "fivestar", "pairing": "bilinear"},
    {"name": "complex"},
    {"name": "transe"},
    {"name": "conve", "dim": 16},
    {"name": "murp"},
    {"name": "mure"},
    {"name": "simple"},
]


def trained(**model):
    settings = {
        "defaults": 1,
        "model": {"dim": 8, **model},
        "training": {"objective": "softmax", "epochs": 30, "evaluate-every": 0, "reg_weight": 0.01},
    }
    return fivestar.train(people_graph(), settings)


@pytest.fixture(scope="module")
def model():
    return trained()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
def test_trained_parameters_do_not_change(form):
    model = trained(**form)
    larger = model.add_entities(FACTS)
    count = len(model.graph.entities)
    for name, table in model.model.state_dict().items():
        same = larger.model.state_dict()[name]
        same = same[: len(table)] if table.ndim else same
        torch.testing.assert_close(same, table, rtol=0, atol=0)
    assert len(larger.graph.entities) == count + 1
    assert torch.isfinite(larger.model.entities).all()
    untrained = fold_in(model, FACTS, epochs=0).run
    runs = (fivestar.TrainedModel.of(untrained), larger)
    before, after = (run.score("Neo", "lives_in", "c3").rank for run in runs)
    assert after <= before


def test_new_triples_are_learned(model):
    larger = model.add_entities(FACTS)
    assert larger.predict_tails("Neo", "lives_in", top=3)[0].id == "c3"
    assert larger.score("Neo", "lives_in", "c3").split == "train"
    assert larger.predict_tails("p3", "knows", top=3, types=()).query[0] == "p3"
    best = [answer.id for answer in larger.predict_tails("p3", "knows", top=5)]
    assert "Neo" in best
    # Those who live there too are like it.
    alike = [neighbor.entity.id for neighbor in larger.similar("Neo", top=8)]
    assert sum(name in {f"p{i}" for i in range(3, 60, 7)} for name in alike) >= 3
    assert model.graph.entities.find("p3") == larger.graph.entities.find("p3")
    with pytest.raises(UnknownName):
        model.graph.entities.find("Neo")


def test_old_answers_stay_in_place(model):
    newcomers = [(f"n{i}", "lives_in", f"c{i % 7}") for i in range(20)]
    larger = fivestar.TrainedModel.of(fold_in(model, newcomers).run)
    old = len(model.graph.entities)
    overtaken = 0
    for i in range(60):
        before, after = (run.predict_tails(f"p{i}", "knows", top=5) for run in (model, larger))
        assert [a.score for a in before] == pytest.approx(
            [larger.score(f"p{i}", "knows", a.id).score for a in before], abs=1e-5
        )
        overtaken += sum(larger.graph.entities.find(answer.id) >= old for answer in after)
    # Nobody knows a newcomer; without training queries they are 132 of these 300 answers.
    assert overtaken <= 80


def test_several_related_entities(model):
    facts = [*FACTS, ("Trinity", "knows", "Neo"), ("Trinity", "lives_in", "c3")]
    seen = []
    found = fold_in(model, facts, epochs=3, progress=lambda *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    found = fold_in(model, facts)
    assert found.new == ["Neo", "Trinity"]
    larger = fivestar.TrainedModel.of(found.run)
    assert larger.score("Trinity", "lives_in", "c3").rank <= 3
    assert found.run.metrics["folded_in"] == {"entities": 2, "facts": 4}


def test_deterministic(model):
    one, two = (model.add_entities(FACTS).model.entities for _ in range(2))
    np.testing.assert_array_equal(one.detach().numpy(), two.detach().numpy())


def test_without_reciprocals():
    settings = {"model": {"dim": 6}, "training": {"epochs": 10, "reciprocals": False}}
    larger = fivestar.train(people_graph(), settings).add_entities(FACTS)
    assert larger.score("Neo", "lives_in", "c3").rank <= 5


def test_bad_requests(model):
    with pytest.raises(GraphError, match="both entities are in the model"):
        model.add_entities([("p1", "lives_in", "c1")])
    with pytest.raises(UnknownName, match="did you mean 'lives_in'"):
        model.add_entities([("Neo", "live_in", "c1")])
    with pytest.raises(GraphError, match="no triples"):
        model.add_entities([])
    found = fold_in(model, [("somebody", "lives_in", "c1"), ("p33x", "knows", "p1")])
    assert list(possible_misspellings(found.new, model.graph.entities)) == ["p33x"]


def test_command_and_library_have_the_same_defaults():
    shown = inspect.signature(command).parameters
    assert (shown["epochs"].default, shown["lr"].default) == (EPOCHS, LEARNING_RATE)


def test_fold_in_command(tmp_path):
    settings = {"model": {"dim": 6}, "training": {"epochs": 5}}
    fivestar.train(people_graph(), settings, tmp_path / "run")
    facts = tmp_path / "facts.tsv"
    facts.write_text("Neo\tlives_in\tc3\np3\tknows\tNeo\n")
    words = ["fold-in", str(tmp_path / "run"), str(facts), "--out", str(tmp_path / "larger")]
    shown = CliRunner().invoke(app, [*words, "--epochs", "20", "--lr", "0.2"])
    assert shown.exit_code == 0, shown.output
    assert "1 new entity from 2 facts" in shown.output
    assert fivestar.load(tmp_path / "larger").score("Neo", "lives_in", "c3").rank <= 5
    again = CliRunner().invoke(app, words)
    assert "exists already" in str(again.exception)
    answered = CliRunner().invoke(app, ["ask", str(tmp_path / "larger"), "neo", "lives_in", "_"])
    assert "c3" in answered.output
