from __future__ import annotations

import tomllib

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph

from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS
from fivestar.runs.defaults import (
    GraphSize,
    default_training,
    defaults_for,
    published_training,
    regularization_weight,
    source,
)
from fivestar.runs.settings import (
    ModelSettings,
    Settings,
    TrainingSettings,
    make_settings,
    read_settings,
    read_values,
)
from fivestar.training.search.space import read_space


@given(
    dim=st.integers(1, 500),
    lr=st.floats(1e-6, 10),
    denominator=st.sampled_from(["mobius", "phase", "none"]),
    regularizer=st.sampled_from(["n3", "n3-transformed", "f2", "dura", "none"]),
)
def test_settings_survive_a_round_trip(tmp_path, dim, lr, denominator, regularizer):
    settings = make_settings(
        {
            "model": {"dim": dim, "denominator": denominator},
            "training": {"lr": lr, "regularizer": regularizer},
        }
    )
    path = tmp_path / "settings.toml"
    path.write_text(settings.as_toml())
    assert read_settings(path) == settings


def test_defaults_that_depend_on_others_are_filled_in():
    assert make_settings({}).model.denominator == "mobius"
    assert make_settings({}).model.init == "rotation"
    assert make_settings({"model": {"denominator": "phase"}}).model.init == "small"
    assert make_settings({"model": {"name": "complex"}}).model.options == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"training": {"epoch": 3}},
            r"\[training\]: unknown setting 'epoch'; did you mean 'epochs'",
        ),
        ({"training": {"evaluate_evry": 3}}, "did you mean 'evaluate_every'"),
        ({"trainin": {}}, "unknown setting 'trainin'; did you mean 'training'"),
        ({"model": {"zzz": 1}}, "known: name, dim"),
        ({"model": {"dim": 0}}, "model.dim: .*greater than or equal to 1.*not 0"),
        ({"training": {"lr": "fast"}}, "training.lr: .*not 'fast'"),
        ({"model": 7}, "must be a section"),
        ({"model": {"name": "komplex"}}, r"\[model\]: .*'komplex'.*did you mean 'complex'"),
        (
            {"model": {"name": "transe", "norm": "modulus"}},
            "options of TransE: norm: Input should be 'l1' or 'l2'.*not 'modulus'",
        ),
        ({"training": {"memory": "much"}}, "training.memory: .*as in 2GiB"),
        ({"training": {"snapshot_epochs": "0,x"}}, "training.snapshot_epochs"),
        (
            {"model": {"name": "complex", "denominator": "phase"}},
            "unknown setting 'denominator'; known: name, dim",
        ),
    ],
)
def test_wrong_settings_say_what_is_wrong(values, message):
    with pytest.raises(SettingsError, match=message):
        make_settings(values)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[model", "is not TOML"), (b"\xff", "is not TOML"), (b"[model]\ndimm = 3", "'dim'")],
)
def test_wrong_settings_files(tmp_path, content, message):
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        read_settings(path)
    path.write_text("# a comment\n" * 100_000)
    with pytest.raises(SettingsError, match="too large to be a settings file"):
        read_settings(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings(tmp_path / "nothing.toml")


def test_changes_win_over_the_file_however_keys_are_spelled(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("[training]\nevaluate-every = 7\nlr = 0.5\n")
    settings = read_settings(path, {"training": {"evaluate_every": 2}})
    assert (settings.training.evaluate_every, settings.training.lr) == (2, 0.5)


def test_every_setting_is_a_flag():
    command = typer.main.get_command(app).commands["train"]
    flags = {parameter.name for parameter in command.get_params(typer.Context(command))}
    options = {name for model in MODELS.values() for name in options_of(model)}
    names = {*ModelSettings.model_fields, *options, *TrainingSettings.model_fields, "model"}
    assert names - {"name"} <= flags


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_published_recipe(name):
    assert source(name, "published.toml")
    recipe = published_training(name)
    values = {"method": "published", "model": {"name": name}}
    training = make_settings(values).training.model_dump()
    assert {key: training[key] for key in recipe} == recipe
    assert make_settings({"recipe": "published", "model": {"name": name}}) == make_settings(values)
    with pytest.raises(SettingsError, match="there are default, published, paper"):
        make_settings({"method": "secret"})


@pytest.mark.parametrize(
    ("changes", "form"),
    [({}, ("mobius", "hermitian")), ({"denominator": "phase"}, ("phase", "bilinear"))],
)
def test_the_method_of_the_paper(changes, form):
    settings = make_settings({"method": "paper", "model": changes})
    model, training = settings.model, settings.training
    assert (model.options["denominator"], model.options["pairing"]) == form
    assert (model.options["init"], model.options["off_diagonal_lr"]) == ("small", 1.0)
    assert (training.objective, training.num_candidates) == ("softmax", 0)
    assert (training.regularizer, training.optimizer) == ("n3", "adagrad")
    assert (training.grouping, training.decay) == ("triples", "none")
    grid = read_space("paper", "wn18rr").choices
    for name in ("lr", "batch_size", "reg_weight"):
        assert getattr(training, name) in grid[f"training.{name}"]
    assert settings.is_concrete, "nothing is left to our defaults"


def test_given_settings_win_over_the_method_of_the_paper():
    values = {"model": {"pairing": "bilinear"}, "training": {"lr": 0.01}}
    settings = make_settings({"method": "paper", **values})
    assert (settings.model.options["pairing"], settings.training.lr) == ("bilinear", 0.01)


def test_other_models_have_no_method_of_the_paper():
    with pytest.raises(SettingsError, match="use 'published' for complex"):
        make_settings({"method": "paper", "model": {"name": "complex"}})


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_defaults_of_its_own(name):
    assert source(name)
    defaults = default_training(name, {})
    assert defaults["objective"]
    training = make_settings({"model": {"name": name}}).training.model_dump()
    assert {key: training[key] for key in defaults} == defaults


def test_given_settings_win_over_the_recipe():
    values = {"model": {"name": "rotate"}, "training": {"num_negatives": 7}}
    rotate = make_settings({**values, "method": "published"})
    assert (rotate.training.num_negatives, rotate.training.optimizer) == (7, "adam")
    assert Settings(**rotate.model_dump()) == rotate
    assert make_settings({"training": {"lr": 0.7}}).training.lr == 0.7


def test_with_another_objective_the_recipe_does_not_apply():
    values = {"model": {"name": "fivestar"}, "training": {"objective": "bce"}}
    assert make_settings(values).training == TrainingSettings(objective="bce")


SOFTMAX = {"objective": "softmax", "regularizer": "n3-transformed", "reciprocals": True}
GRAPH = GraphSize(20_000, 100_000, 0.1)


def test_defaults_follow_from_the_graph_unless_given():
    graph = people_graph()
    size = GraphSize(len(graph.entities), len(graph.train), graph.pair_redundancy)
    values = defaults_for("fivestar", SOFTMAX, size)
    assert set(values) == {"batch_size", "epochs", "num_candidates", "reg_weight"}
    resolved = make_settings({}).for_graph(graph)
    assert {name: getattr(resolved.training, name) for name in values} == values
    assert resolved.for_graph(graph) is resolved, "nothing is left to resolve"
    given = {"batch_size": 7, "epochs": 3, "num_candidates": 5, "reg_weight": 0.5}
    training = make_settings({"training": given}).for_graph(graph).training
    assert {name: getattr(training, name) for name in given} == given


def test_candidates_are_sampled_in_large_graphs_for_queries_with_reciprocals():
    assert defaults_for("fivestar", SOFTMAX, GRAPH)["num_candidates"] == 4096
    assert defaults_for("fivestar", SOFTMAX, GRAPH._replace(entities=4000))["num_candidates"] == 0
    without = SOFTMAX | {"reciprocals": False}
    assert defaults_for("fivestar", without, GRAPH)["num_candidates"] == 0
    assert "num_candidates" not in defaults_for("fivestar", SOFTMAX | {"objective": "bce"}, GRAPH)


def test_the_default_weight_belongs_to_its_regularizer():
    weight = defaults_for("fivestar", SOFTMAX, GRAPH)["reg_weight"]
    for change in ({"pair_redundancy": 0.9}, {"entities": 1000}):
        assert defaults_for("fivestar", SOFTMAX, GRAPH._replace(**change))["reg_weight"] < weight
    assert "reg_weight" not in defaults_for("fivestar", SOFTMAX | {"regularizer": "dura"}, GRAPH)
    assert "reg_weight" not in defaults_for("third-party", SOFTMAX, GRAPH)


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.floats(0, 1))
def test_the_default_weight_falls_with_density_and_redundancy(entities, triples, redundancy):
    graph = GraphSize(entities, triples, redundancy)
    weight = regularization_weight(0.03, 0.12, graph)
    assert 0.03 <= weight <= 0.12
    assert regularization_weight(0.03, 0.12, graph._replace(triples=2 * triples)) <= weight
    assert regularization_weight(0.03, 0.12, graph._replace(pair_redundancy=1.0)) <= weight


@given(st.integers(1, 10**10))
def test_larger_graphs_get_larger_batches_and_fewer_epochs(triples):
    sizes = (GRAPH._replace(triples=n) for n in (triples, 2 * triples))
    some, more = (defaults_for("fivestar", SOFTMAX, size) for size in sizes)
    assert some["batch_size"] <= more["batch_size"]
    assert some["epochs"] >= more["epochs"] >= 1


def test_strings_of_any_characters_survive_a_round_trip(tmp_path):
    settings = make_settings({})
    model = settings.model.model_copy(update={"name": '5★E \U0001f30d "\\\n'})
    values = tomllib.loads(settings.model_copy(update={"model": model}).as_toml())
    assert values["model"]["name"] == model.name


def test_unknown_objectives_and_regularizers_have_suggestions():
    for name, wrong, right in (
        ("objective", "sofmax", "softmax"),
        ("objective", "negative-samplin", "negative-sampling"),
        ("regularizer", "n3-transform", "n3-transformed"),
    ):
        with pytest.raises(SettingsError, match=rf"training.{name}: .*{right}.*not '{wrong}'"):
            make_settings({"training": {name: wrong}})


def test_settings_that_contradict_one_another_are_refused():
    for training, message in (
        ({"objective": "bce", "grouping": "triples"}, "use grouping queries"),
        ({"refit": True, "evaluate_every": 0}, "refit needs validation"),
        ({"relation_loss_weight": 0.1, "reciprocals": False}, "needs reciprocals"),
        ({"num_relation_candidates": 3}, "no effect without a relation_loss_weight"),
        (
            {"num_candidates": 9, "label_smoothing": 0.1, "reciprocals": False},
            "num_candidates with label_smoothing needs reciprocals",
        ),
        ({"margin": 3.0, "objective": "bce"}, "margin has no effect with the objective bce"),
    ):
        with pytest.raises(SettingsError, match=message):
            make_settings({"training": training})
    for training in (
        {"objective": "bce", "grouping": "queries"},
        {"objective": "softmax", "grouping": "triples"},
        {"refit": True, "evaluate_every": 1},
        {"relation_loss_weight": 0.1, "num_relation_candidates": 3},
        {"num_candidates": 9, "label_smoothing": 0.1},
        {"num_candidates": 9, "reciprocals": False},
    ):
        resolved = make_settings({"training": training}).training
        assert {name: getattr(resolved, name) for name in training} == training


def test_changed_values_have_one_key_each(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("[training]\nevaluate-every = 7\nlr = 0.5\n[model]\ndim = 3\n")
    values = read_values(path, {"training": {"evaluate_every": 2}})
    assert values == {"training": {"evaluate_every": 2, "lr": 0.5}, "model": {"dim": 3}}
