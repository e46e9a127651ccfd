"""Probabilities: as shares really are, never falling, and never certain."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.evaluation.calibration import (
    Calibration,
    _isotonic,
    _platt,
    calibrate,
    calibration_report,
    reliability,
    top_answers,
)

TRAINING = {"epochs": 15, "evaluate-every": 0, "reg_weight": 0.02}


@pytest.fixture(scope="module")
def run():
    graph = fivestar.read_graph()
    return fivestar.train(graph, {"model": {"dim": 16}, "training": TRAINING})


def random_sample(seed, count=300):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=count), 2)
    return scores, (rng.random(count) < 1 / (1 + np.exp(-3 * scores + 1))).astype(float)


@given(st.integers(0, 10**6))
def test_isotonic_pools_are_those_of_scikit_learn(seed):
    scores, truth = random_sample(seed)
    scores = scores + 1e-7 * np.arange(len(scores))  # no ties, which both may treat their own way
    found = _isotonic(scores, truth)
    theirs = np.round(IsotonicRegression().fit_transform(scores, truth), 9)
    # The same pools: at their centres it is their share, but for one more of each kind.
    for value in np.unique(theirs):
        pool = theirs == value
        inside = (truth[pool].sum() + 1) / (pool.sum() + 2)
        at = float(found([scores[pool].mean()])[0])
        assert at >= inside - 1e-6  # shares may not fall, so a small pool is lifted by the last
    assert (np.diff(found(np.sort(scores))) >= 0).all()
    assert 0 < found([-1e9])[0] < found([1e9])[0] < 1


def test_platt_is_the_logistic_regression():
    scores, truth = random_sample(3, 2000)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], truth)
    at = np.linspace(-3, 3, 20)
    found = _platt(scores, truth)(at)
    np.testing.assert_allclose(found, theirs.predict_proba(at[:, None])[:, 1], atol=1e-4)
    # Reported apart perfectly, a logistic curve would be infinitely steep: it stays finite.
    assert np.isfinite(_platt(np.array([0.0, 1.0]), np.array([0.0, 1.0]))([0.5])).all()


def test_probability_never_falls_with_the_log_probability():
    scores, truth = random_sample(0)
    for method in (_isotonic, _platt):
        falling = method(scores, 1 - truth)(np.array([-3.0, 0.0, 3.0]))
        assert falling[0] <= falling[1] <= falling[2]
        assert falling[1] == pytest.approx((1 - truth).mean(), abs=0.05)


def test_reliability_by_hand():
    found = reliability(np.array([0.1, 0.1, 0.9, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert found.brier == pytest.approx((0.01 + 0.81 + 0.01 + 0) / 4)
    assert found.calibration_error == pytest.approx((2 * 0.4 + 2 * 0.05) / 4)
    assert found.bins[0] == pytest.approx((0.1, 0.5, 0.5))
    assert sum(weight for _, _, weight in found.bins) == pytest.approx(1)


def test_the_sample_of_calibration(run):
    """Answers that no other split holds; true are exactly the facts of this one."""
    graph = run.graph
    best, truth = top_answers(run.model, graph, graph.valid, np.random.default_rng(0))
    assert 0 < truth.mean() < 0.5
    assert len(truth) == (best.ids >= 0).sum()
    # Both questions of each fact: at least the share that are among the best ten.
    assert truth.sum() > len(graph.valid)


def test_calibrated_probabilities_beat_softmax_and_sigmoid(run):
    found = calibration_report(run.model, run.graph, calibrate(run.model, run.graph))
    assert found["calibrated"].brier < found["softmax"].brier
    assert found["calibrated"].calibration_error < found["softmax"].calibration_error
    assert found["calibrated"].calibration_error < 0.1
    json.dumps({name: each.as_json() for name, each in found.items()})


def test_training_stores_the_calibration(run, tmp_path):
    run.save(tmp_path / "run")
    again = fivestar.load(tmp_path / "run")
    stored = Calibration.from_json(again.metrics["calibration"])
    assert stored == calibrate(run.model, run.graph)
    assert again.calibration == stored


@pytest.mark.parametrize("method", [_isotonic, _platt])
def test_json(method):
    scores, truth = random_sample(0)
    found = method(scores, truth)
    again = Calibration.from_json(json.loads(json.dumps(found.as_json())))
    np.testing.assert_array_equal(found(scores), again(scores))


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_nothing_held_out():
    graph = fivestar.read_graph([("a", "r", "b"), ("b", "r", "c")])
    run = fivestar.train(graph, {"model": {"dim": 2}, "training": {"epochs": 1}})
    with pytest.raises(SettingsError, match="held-out"):
        calibrate(run.model, graph)
    assert run.predict_tails("a", "r")[0].probability is None
    assert run.score("a", "r", "b").probability is None
    assert torch.isfinite(run.model.entities).all()


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_the_command(run, tmp_path):
    run.save(tmp_path / "run")
    invoke = CliRunner().invoke
    figure = tmp_path / "reliability.svg"
    shown = invoke(app, ["calibration", str(tmp_path / "run"), "--out", str(figure)])
    assert shown.exit_code == 0, shown.output
    assert "Brier" in shown.output
    assert figure.read_bytes().startswith(b"<?xml")
    listed = json.loads(invoke(app, ["calibration", str(tmp_path / "run"), "--json"]).output)
    assert listed["method"] in {"isotonic", "platt"}
    assert listed["calibrated"]["brier"] < listed["sigmoid"]["brier"]
    graph = fivestar.read_graph([("a", "r", "b"), ("b", "r", "c")])
    fivestar.train(graph, {"model": {"dim": 2}, "training": {"epochs": 1}}, tmp_path / "blind")
    assert "no validation triples" in str(
        invoke(app, ["calibration", str(tmp_path / "blind")]).exception
    )
