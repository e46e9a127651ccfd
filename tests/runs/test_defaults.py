"""Defaults by version, by method and by graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import SettingsError
from fivestar.runs.defaults import (
    GraphSize,
    as_saved,
    baseline,
    default_training,
    defaults_for,
    published_training,
    regularization_weight,
    source,
    with_defaults_of,
    with_method,
)
from fivestar.runs.settings import make_settings

SOFTMAX = {"objective": "softmax", "regularizer": "n3-transformed", "reciprocals": True}


def test_version_2_adds_nothing_and_version_1_what_it_meant():
    sections = {"model": {"dim": 8}, "training": {"lr": 0.5}}
    assert with_defaults_of(2, sections) == sections
    old = with_defaults_of(1, sections)
    assert old["model"]["init"] == baseline()["model"].get("init", "identity")
    assert old["model"]["dim"] == 8
    assert old["training"]["lr"] == 0.5
    assert old["training"]["optimizer"] == baseline()["training"]["optimizer"]
    other = with_defaults_of(1, {"model": {"name": "complex"}})
    assert "init" not in other["model"]
    phase = with_defaults_of(1, {"model": {"denominator": "phase"}})
    assert phase["model"]["denominator"] == "phase"


def test_the_learning_rate_falls_with_the_dimension_where_that_was_measured():
    def rate(name, dim, **training):
        settings = {"model": {"name": name, "dim": dim}, "training": training}
        return make_settings(settings).training.lr

    assert [rate("fivestar", dim) for dim in (20, 100, 200, 500)] == [0.3, 0.3, 0.178, 0.0897]
    assert rate("complex", 500) == rate("complex", 100) == 0.3
    assert rate("fivestar", 500, lr=0.3) == 0.3
    assert rate("fivestar", 500, objective="bce") == rate("fivestar", 100, objective="bce")


@pytest.mark.parametrize("version", [0, 3, True, "2", None])
def test_there_are_two_versions(version):
    with pytest.raises(SettingsError, match=r"there are versions 1 and 2"):
        with_defaults_of(version, {})


def test_the_method_of_the_paper():
    found = with_method("paper", {"model": {"dim": 4}, "training": {"lr": 0.7}, "graph": {"a": 1}})
    assert found["model"] == {
        "name": "fivestar",
        "denominator": "mobius",
        "pairing": "hermitian",
        "init": "small",
        "dim": 4,
    }
    assert found["training"]["lr"] == 0.7
    assert found["training"]["regularizer"] == "n3"
    assert found["training"]["epochs"] == 200
    assert set(baseline()["training"]) <= set(found["training"])
    assert found["graph"] == {"a": 1}
    code = with_method("paper", {"model": {"denominator": "phase"}})
    assert code["model"]["pairing"] == "bilinear"
    with pytest.raises(SettingsError, match="use 'published' for complex"):
        with_method("paper", {"model": {"name": "complex"}})


def test_the_published_method():
    published = published_training("complex")
    found = with_method("published", {"model": {"name": "complex"}, "training": {"lr": 0.7}})
    assert found["training"] == {**baseline()["training"], **published, "lr": 0.7}
    # Settings belong to their objective.
    other = with_method("published", {"model": {"name": "complex"}, "training": {"objective": "x"}})
    assert other["training"] == {**baseline()["training"], "objective": "x"}
    assert with_method("default", {"model": {"dim": 4}}) == {"model": {"dim": 4}}
    with pytest.raises(SettingsError, match="there are default, published, paper"):
        with_method("best", {})


def test_defaults_of_a_model_hold_for_its_objective():
    found = default_training("fivestar", {})
    assert found["lr"] == 0.3
    assert not {"num_candidates", "reg_weight", "source"} & set(found)
    assert default_training("fivestar", {"objective": "softmax"}) == found
    assert default_training("fivestar", {"objective": "bce"}) == {}
    assert default_training("no-such-model", {}) == {}
    assert source("fivestar").startswith("chosen over")
    assert source("no-such-model") == ""


@given(st.integers(1, 10**6), st.integers(0, 10**8))
def test_batches_and_epochs_follow_from_the_number_of_triples(entities, triples):
    found = defaults_for("fivestar", SOFTMAX, GraphSize(entities, triples, 0.1))
    assert found["batch_size"] == max(100, min(500, triples // 250))
    assert found["epochs"] == max(5, min(40, 8_000_000 // max(1, triples)))
    assert found["num_candidates"] == (4096 if entities > 4096 else 0)
    assert 0.02 <= found["reg_weight"] <= 0.1


def test_candidates_are_sampled_for_a_softmax_with_reciprocals_only():
    size = GraphSize(10_000, 1_000, 0.1)
    one_sided = defaults_for("fivestar", {**SOFTMAX, "reciprocals": False}, size)
    assert one_sided["num_candidates"] == 0
    assert "reg_weight" in one_sided
    assert "reg_weight" not in defaults_for("fivestar", {**SOFTMAX, "regularizer": "f2"}, size)
    bce = defaults_for("fivestar", {**SOFTMAX, "objective": "bce"}, size)
    assert set(bce) == {"batch_size", "epochs"}


@pytest.mark.parametrize(
    ("density", "redundancy", "weight"),
    [
        (4e-4, 0.0, 0.16),
        (5e-4, 0.5, 0.16),
        (5e-4 * 20**0.5, 0.5, 0.08),  # halfway between the logarithms
        (1e-2, 0.0, 0.04),
        (1.0, 0.0, 0.04),
        (4e-4, 0.51, 0.04),
    ],
)
def test_weights_between_sparse_and_dense_graphs(density, redundancy, weight):
    size = GraphSize(100_000, round(density * 100_000**2), redundancy)
    assert regularization_weight(0.04, 0.16, size) == pytest.approx(weight, rel=0.01)


@pytest.mark.parametrize(
    ("density", "redundancy", "weight"),
    [
        (4e-4, 0.51, 0.01),
        (5e-4 * 20**0.5, 0.51, 0.02),  # halfway between the logarithms
        (1e-2, 0.51, 0.04),  # a dense graph
        (4e-4, 0.5, 0.16),
    ],
)
def test_redundant_facts_need_less_regularization_in_sparse_graphs(density, redundancy, weight):
    size = GraphSize(100_000, round(density * 100_000**2), redundancy)
    assert regularization_weight(0.04, 0.16, size, 0.01) == pytest.approx(weight, rel=0.01)


def test_the_default_exponent_belongs_to_its_regularizer():
    assert make_settings({}).training.reg_exponent == 2.5
    assert make_settings({"training": {"regularizer": "dura"}}).training.reg_exponent == 3
    assert make_settings({"training": {"reg-exponent": 3}}).training.reg_exponent == 3


def test_graphs_without_triples_or_entities_have_a_weight():
    assert regularization_weight(0.04, 0.16, GraphSize(0, 0, 0.0)) == 0.04
    assert regularization_weight(0.04, 0.16, GraphSize(10_000, 0, 0.0)) == 0.16


def test_saved_settings_are_completed_with_the_options_of_their_time():
    found = as_saved({"model": {"name": "complex", "batch-norm": 1}, "training": {"reg": 1}})
    assert found == {"model": {"name": "complex", "batch_norm": 1}, "training": {"reg_weight": 1}}
    frozen = {k: v for k, v in baseline()["model"].items() if k not in ("name", "dim")}
    assert as_saved({"model": {"dim": 3}})["model"] == {**frozen, "dim": 3}
    assert as_saved({})["model"] == frozen
