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
from fivestar.evaluation import calibration
from fivestar.evaluation.calibration import (
    Calibration,
    _isotonic,
    _platt,
    calibrate,
    calibration_report,
    reliability,
    top_answers,
)
from fivestar.evaluation.topk import TopK

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
    # A falling curve means no information: the share of true answers, never 0 or 1.
    for wrong in (1 - truth, np.array([1.0, 0.0])):
        share = (wrong.sum() + 1) / (len(wrong) + 2)
        assert _platt(np.sort(scores)[: len(wrong)], np.sort(wrong)[::-1])([0.0]) == pytest.approx(
            share
        )


CURVES = st.one_of(
    st.tuples(st.floats(0.1, 5), st.floats(-5, 5)).map(lambda c: Calibration("platt", c, ())),
    st.integers(0, 10**6).map(lambda seed: _isotonic(*random_sample(seed, 40))),
)


@given(CURVES, st.floats(0.001, 0.999))
def test_the_least_log_probability_of_a_probability(curve, probability):
    least = curve.min_log_prob(probability)
    if np.isfinite(least):
        assert float(curve(least)) == pytest.approx(probability)
        assert float(curve(least - 1e-3)) <= probability
    else:
        # All answers have it, or none has.
        assert (float(curve(-1e9)) >= probability) is (least < 0)
        assert (float(curve(1e9)) >= probability) is (least < 0)


def test_probabilities_that_all_or_no_answers_have():
    inf = float("inf")
    rising, flat = Calibration("platt", (2.0, 0.0), ()), Calibration("platt", (0.0, 0.0), ())
    assert [rising.min_log_prob(p) for p in (-1.0, 0.0, 0.5, 1.0, 2.0)] == [-inf, -inf, 0, inf, inf]
    assert [flat.min_log_prob(p) for p in (0.0, 0.4, 0.5, 0.6)] == [-inf, -inf, -inf, inf]
    steps = Calibration("isotonic", (-2.0, -1.0, 0.0), (0.2, 0.4, 0.8))
    found = [steps.min_log_prob(p) for p in (0.2, 0.3, 0.4, 0.6, 0.8, 0.9)]
    assert found == pytest.approx([-inf, -1.5, -1.0, -0.5, 0.0, inf])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_reliability_by_definition(rows):
    probabilities, truth = (np.array(column, float) for column in zip(*rows, strict=True))
    found = reliability(probabilities, truth)
    assert found.brier == pytest.approx(np.mean((probabilities - truth) ** 2))
    bins, error = [], 0.0
    for k in range(10):
        last = k == 9
        inside = (probabilities * 10 >= k) & ((probabilities * 10 < k + 1) | last)
        if inside.any():
            p, t, share = probabilities[inside].mean(), truth[inside].mean(), inside.mean()
            bins.append((p, t, share))
            error += share * abs(p - t)
    np.testing.assert_allclose(found.bins, bins, atol=1e-12)
    assert found.calibration_error == pytest.approx(error)
    shown = found.as_json()
    assert (shown["brier"], shown["calibration_error"]) == (found.brier, found.calibration_error)
    assert [
        tuple(one[key] for key in ("probability", "true", "answers")) for one in shown["bins"]
    ] == (found.bins)


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
    # Each query once, ten answers each, and a smaller sample has fewer queries.
    asked = {(h, r, 0) for h, r, _ in graph.valid.array.tolist()}
    asked |= {(t, r, 1) for _, r, t in graph.valid.array.tolist()}
    assert best.ids.shape == (len(asked), 10)
    few, truth_of_few = top_answers(run.model, graph, graph.valid, np.random.default_rng(0), 5)
    assert 5 < len(few.ids) <= 10
    assert len(truth_of_few) == (few.ids >= 0).sum()


def test_the_report_compares_three_probabilities_of_the_same_answers(run):
    curve = Calibration("platt", (0.5, 1.0), ())
    found = calibration_report(run.model, run.graph, curve, seed=3)
    best, truth = top_answers(run.model, run.graph, run.graph.test, np.random.default_rng(3))
    scores, shares = (x[best.ids >= 0].astype(float) for x in (best.scores, best.log_probs))
    assert found == {
        "sigmoid": reliability(1 / (1 + np.exp(-scores)), truth),
        "softmax": reliability(np.exp(shares), truth),
        "calibrated": reliability(curve(shares), truth),
    }


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_the_method_that_predicts_the_other_half_better_is_chosen(method, monkeypatch, run):
    rng = np.random.default_rng(1)  # not that of the halves
    # A step is no logistic curve; of a logistic one, few answers say less than its form does.
    at = np.linspace(-4, 0, 4_000 if method == "isotonic" else 300)[:, None]
    share = 1 / (1 + np.exp(-2 * at - 3)) if method == "platt" else np.where(at < -1, 0.4, 0.6)
    truth = (rng.random(at.shape) < share).astype(float)[:, 0]
    best = TopK(np.ones(at.shape, np.int64), at, at, np.zeros(at.shape, bool))
    monkeypatch.setattr(calibration, "top_answers", lambda *_: (best, truth))
    found = calibrate(run.model, run.graph)
    assert found.method == method
    assert found == {"platt": _platt, "isotonic": _isotonic}[method](at[:, 0], truth)


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


def test_the_answers_of_the_calibration_are_in_no_other_split(run):
    graph = run.graph
    relations = len(graph.relations)
    best, truth = top_answers(run.model, graph, graph.valid, np.random.default_rng(0))
    both = [(h, r, t) for h, r, t in graph.valid.array.tolist()]
    both += [(t, r + relations, h) for h, r, t in graph.valid.array.tolist()]
    queries = sorted({(entity, relation) for entity, relation, _ in both})
    others = {tuple(row) for split in (graph.train, graph.test) for row in split.array.tolist()}
    others |= {(t, r + relations, h) for h, r, t in others}
    answers = [
        (*query, answer)
        for query, row in zip(queries, best.ids.tolist(), strict=True)
        for answer in row
        if answer >= 0
    ]
    assert not others.difference(both) & set(answers)
    assert [float(answer in set(both)) for answer in answers] == truth.tolist()


def test_a_weak_relation_is_still_a_logistic_regression():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=4000)
    truth = (rng.random(4000) < 1 / (1 + np.exp(-0.4 * scores + 0.3))).astype(float)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], truth)
    at = np.linspace(-3, 3, 20)
    np.testing.assert_allclose(
        _platt(scores, truth)(at), theirs.predict_proba(at[:, None])[:, 1], atol=1e-4
    )
