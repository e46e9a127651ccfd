"""Validation: held out by default, ranked once, sampled if wanted, and trained on by a refit."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from itertools import cycle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph

import fivestar
from fivestar.errors import GraphWarning, SettingsError, SplitImpossible
from fivestar.evaluation.report import evaluate
from fivestar.evaluation.sampling import sample_triples
from fivestar.graph.triples import Triples
from fivestar.training import loop, validation
from fivestar.training.checkpoint import read_progress

TRAINING = {"epochs": 6, "batch_size": 40, "evaluate_every": 2, "threads": 1}


def small(**training):
    return {"model": {"dim": 6}, "training": {**TRAINING, **training}}


@pytest.fixture(scope="module")
def graph():
    return people_graph()


@pytest.fixture(scope="module")
def one_file():
    """The same facts without a split."""
    return people_graph(valid=0, test=0)


class Killed(BaseException):
    """As good as kill -9: nothing catches it."""


def tables(run):
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def counted_rankings(monkeypatch):
    ranked = []

    def count(*arguments):
        ranked.append(arguments)
        return evaluate(*arguments)

    monkeypatch.setattr(validation, "evaluate", count)
    return ranked


# --- held out ---------------------------------------------------------------------------------


def test_facts_are_held_out_by_default_and_kept_with_the_run(one_file, tmp_path):
    run = fivestar.train(one_file, small(), tmp_path / "run")
    assert len(run.graph.valid) == len(one_file.train) // 5
    assert len(run.graph.train) + len(run.graph.valid) == len(one_file.train)
    assert "valid" in run.metrics
    assert "calibration" in run.metrics
    again = fivestar.train(one_file, small(seed=5))
    assert again.graph == run.graph == fivestar.load(tmp_path / "run").graph


def test_a_resumed_run_has_the_same_validation_facts(one_file, tmp_path):
    def kill(line):
        if line["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        fivestar.train(one_file, small(), tmp_path / "run", on_epoch=kill, valid=10)
    resumed = fivestar.resume(tmp_path / "run")
    whole = fivestar.train(one_file, small(), valid=10)
    assert len(resumed.graph.valid) == 10
    assert resumed.graph == whole.graph
    assert same(tables(resumed), tables(whole))


def test_valid_0_holds_out_nothing(one_file):
    with pytest.warns(GraphWarning, match="no early stopping, .* no calibrated probabilities"):
        run = fivestar.train(one_file, small(), valid=0)
    assert run.graph == one_file
    assert "valid" not in run.metrics


def test_a_share_and_a_number(one_file):
    for valid, count in ((0.1, 12), (7, 7)):
        assert len(fivestar.train(one_file, small(epochs=1), valid=valid).graph.valid) == count


@pytest.mark.parametrize("valid", [0, 0.1, 10])
def test_a_graph_with_validation_triples_gets_no_others(graph, valid):
    with pytest.raises(SettingsError, match="validation facts of its own"):
        fivestar.train(graph, small(), valid=valid)


def test_a_tiny_graph_is_trained_without_validation_and_warns():
    tiny = fivestar.read_graph([("a", "r", "b"), ("b", "r", "c")])
    with pytest.warns(GraphWarning, match="no fact of graph can be held out"):
        run = fivestar.train(tiny, small())
    assert "valid" not in run.metrics
    with pytest.raises(SplitImpossible):
        fivestar.train(tiny, small(), valid=1)


@pytest.mark.parametrize("refit", [False, True])
def test_training_triples_of_the_source_run_are_not_held_out(one_file, tmp_path, refit):
    first = fivestar.train(one_file, small(epochs=1), tmp_path / "first", refit=refit)
    known = [tuple(row.values()) for row in one_file.named(one_file.train).to_pylist()]
    new = [(f"p{i}", "knows", f"p{(i + 11) % 60}") for i in range(60)]
    grown = fivestar.read_graph(known + new)
    second = fivestar.train(grown, small(epochs=1), warm_start=tmp_path / "first")
    trained = first.graph.train + first.graph.valid if refit else first.graph.train
    assert len(second.graph.valid) == (60 if refit else 60 + len(first.graph.valid)) // 5
    assert not second.graph.valid.are_in(first.graph.translated(trained, grown)).any()


def test_validation_triples_seen_by_the_source_run_cause_a_warning(one_file, tmp_path):
    run = fivestar.train(one_file, small(epochs=1), tmp_path / "first", refit=True)
    with pytest.warns(GraphWarning, match="24 of 24 validation facts were trained on by the run"):
        fivestar.train(run.graph, small(epochs=1), warm_start=tmp_path / "first")
    fivestar.train(run.graph, small(epochs=1), tmp_path / "second")
    fivestar.train(run.graph, small(epochs=1), warm_start=tmp_path / "second")


# --- ranked once ------------------------------------------------------------------------------


def test_every_validation_is_ranked_once(graph, tmp_path, monkeypatch):
    ranked = counted_rankings(monkeypatch)
    run = fivestar.train(graph, small(lr=0.5), tmp_path / "run")
    assert len(ranked) == sum("valid_mrr" in line for line in run.history) == 3
    assert run.metrics["valid"] == evaluate(run.model, graph, graph.valid).metrics()
    before = json.loads((tmp_path / "run" / "metrics.json").read_text())
    fivestar.resume(tmp_path / "run")
    assert len(ranked) == 3
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == before


@pytest.mark.parametrize("epoch", [2, 3, 6])
def test_a_resumed_run_knows_the_metrics_of_its_best_epoch(graph, tmp_path, monkeypatch, epoch):
    whole = fivestar.train(graph, small(lr=0.5, average=2))

    def kill(line):
        if line["epoch"] == epoch:
            raise Killed

    ranked = counted_rankings(monkeypatch)
    with pytest.raises(Killed):
        fivestar.train(graph, small(lr=0.5, average=2), tmp_path / "run", on_epoch=kill)
    resumed = fivestar.resume(tmp_path / "run")
    assert len(ranked) == 3
    assert resumed.metrics["valid"] == whole.metrics["valid"]
    assert resumed.metrics["best_epoch"] == whole.metrics["best_epoch"]


def test_without_evaluate_every_there_is_one_validation_at_the_end(graph, monkeypatch):
    ranked = counted_rankings(monkeypatch)
    run = fivestar.train(graph, small(evaluate_every=0))
    assert len(ranked) == 1
    assert run.metrics["best_epoch"] == 6


def test_validation_and_calibration_report_progress(graph):
    reported = []
    fivestar.train(graph, small(epochs=2), on_stage=lambda *stage: reported.append(stage))
    assert [stage for stage, _, _ in reported] == ["validation", "calibration"]
    assert all(done == total > 0 for _, done, total in reported)


# --- sampled ----------------------------------------------------------------------------------


@given(st.integers(0, 30), st.integers(0, 70))
def test_a_sample_is_a_part_of_the_triples_in_their_order(count, queries):
    triples = Triples.of([(i, 0, i + 1) for i in range(count)])
    sample = sample_triples(triples, queries)
    assert len(sample) == (min(count, -(-queries // 2)) if queries else count)
    assert sample.heads.tolist() == sorted(set(sample.heads.tolist()))
    assert sample.are_in(triples).all() if count else True
    assert sample == sample_triples(triples, queries)


def test_validation_on_a_sample_is_recorded_and_comparable_between_seeds(graph, tmp_path):
    settings = small(validation_queries=8)
    run = fivestar.train(graph, settings, tmp_path / "run")
    assert run.metrics["validation"] == {"triples": 12, "ranked": 4}
    assert run.metrics["valid"]["count"] == 8
    sample = sample_triples(graph.valid, 8)
    assert run.metrics["valid"] == evaluate(run.model, graph, sample).metrics()
    assert "Ranked: 4 of 12 validation triples." in (tmp_path / "run" / "README.md").read_text()
    whole = fivestar.train(graph, small())
    assert whole.metrics["validation"] == {"triples": 12, "ranked": 12}
    assert whole.metrics["valid"] != run.metrics["valid"]
    assert whole.metrics["calibration"] != run.metrics["calibration"]


# --- refit ------------------------------------------------------------------------------------


def everything(graph):
    none = np.zeros(len(graph.valid), bool)
    together = (graph.train + graph.valid).distinct()
    return dataclasses.replace(graph, train=together, valid=graph.valid.take(none))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"decay": "linear", "warmup": 1.0},
        {"objective": "negative-sampling", "average": 2},
        {"objective": "margin", "corruption": "bernoulli", "negatives_from": "unknown"},
    ],
    ids=str,
)
def test_a_refit_is_the_training_on_all_facts_up_to_the_best_epoch(graph, tmp_path, more):
    settings = small(lr=0.5, **more)
    plain = fivestar.train(graph, settings)
    best = plain.metrics["best_epoch"]
    run = fivestar.train(graph, settings, tmp_path / "run", refit=True)
    # The schedule is that of all epochs; only the time limit ends it earlier.
    longer = settings["training"] | {"evaluate_every": 0}
    trainer = loop.Trainer(everything(graph), fivestar.make_settings(small(**longer)))
    trainer.progress.before_refit = {"best_epoch": best}
    assert same(tables(run), trainer.run().state_dict())
    assert not same(tables(run), tables(plain))
    for key in ("valid", "calibration", "best_epoch", "epochs", "validation"):
        assert run.metrics[key] == plain.metrics[key]
    refit = run.metrics["refit"]
    assert refit["epochs"] == best
    assert refit["train_triples"] == len(graph.train) + len(graph.valid)
    assert "measured before the refit" in refit["note"]
    assert run.graph == graph
    lines = [line["epoch"] for line in run.history if line.get("refit")]
    assert lines == list(range(1, best + 1))
    assert len(run.history) == 6 + best
    assert fivestar.load(tmp_path / "run").metrics == json.loads(json.dumps(run.metrics))
    assert "before the refit" in (tmp_path / "run" / "README.md").read_text()


def test_a_refit_without_a_schedule_is_a_plain_training_of_that_many_epochs(graph):
    constant = {"lr": 0.5, "decay": "none"}
    run = fivestar.train(graph, small(**constant), refit=True)
    with pytest.warns(GraphWarning, match="without validation"):
        plain = fivestar.train(
            everything(graph), small(**constant, epochs=run.metrics["best_epoch"]), valid=0
        )
    assert same(tables(run), tables(plain))


@pytest.mark.parametrize("source", [False, True])
def test_a_run_killed_in_either_phase_resumes_to_the_same_result(graph, tmp_path, source):
    settings = small(batch_size=20, checkpoint_minutes=1e-9, decay="linear", average=2, refit=True)
    settings["training"]["snapshot_epochs"] = (0, 3)
    begin = partial(fivestar.train, graph, settings)
    if source:
        with pytest.warns(GraphWarning, match="without validation"):
            fivestar.train(
                dataclasses.replace(graph, valid=Triples.of([])),
                small(epochs=1),
                tmp_path / "source",
                valid=0,
            )
        begin = partial(fivestar.train, graph, settings, warm_start=tmp_path / "source")
    whole = begin(out=tmp_path / "whole")
    begin = partial(begin, out=tmp_path / "killed")
    phases = set()
    resumed = None
    for steps in cycle((3, 11, 6, 17)):
        killer = iter(range(steps))

        def kill(_, killer=killer):
            if next(killer, None) is None:
                raise Killed

        try:
            resumed = begin(on_step=kill)
            break
        except Killed:
            progress = read_progress(tmp_path / "killed" / "checkpoint.safetensors")
            phases.add(bool(progress.before_refit))
        begin = partial(fivestar.resume, tmp_path / "killed")
    assert phases == {False, True}
    assert same(tables(whole), tables(resumed))
    assert [line["loss"] for line in whole.history] == [line["loss"] for line in resumed.history]
    for key in ("valid", "calibration", "best_epoch", "epochs"):
        assert whole.metrics[key] == resumed.metrics[key]
    names = [
        {str(path.relative_to(tmp_path / run)) for path in (tmp_path / run).rglob("*")}
        for run in ("whole", "killed")
    ]
    assert names[0] == names[1]
    for name in ("settings.toml", "model.safetensors", "snapshots/epoch-3.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


@pytest.mark.parametrize("stage", ["calibration", "refit"])
def test_a_run_killed_between_training_and_refit_resumes(graph, tmp_path, monkeypatch, stage):
    whole = fivestar.train(graph, small(), refit=True)

    def kill(reached, done, total):
        if reached == stage:
            raise Killed

    with pytest.raises(Killed):
        fivestar.train(graph, small(), tmp_path / "run", refit=True, on_stage=kill)
    ranked = counted_rankings(monkeypatch)
    assert same(tables(whole), tables(fivestar.resume(tmp_path / "run")))
    assert not ranked


def test_a_refit_after_a_warm_start_starts_from_the_same_run(graph, tmp_path):
    fivestar.train(graph, small(epochs=3), tmp_path / "source")
    refit = fivestar.train(graph, small(), warm_start=tmp_path / "source", refit=True)
    afresh = fivestar.train(graph, small(), refit=True)
    assert not same(tables(refit), tables(afresh))
    assert refit.metrics["started_from"]["entities"]["kept"] == len(graph.entities)


def test_half_of_the_time_is_left_for_the_refit(graph):
    run = fivestar.train(graph, small(epochs=1000, max_minutes=1e-6), refit=True)
    assert run.metrics["epochs"] == run.metrics["refit"]["epochs"] == 1
    limited = loop.Trainer(graph, fivestar.make_settings(small(max_minutes=1, refit=True)))
    for seconds, over in ((29, False), (31, True)):
        limited.progress.seconds = seconds
        assert limited._out_of_time() == over


def test_a_refit_needs_validation(graph, one_file):
    with pytest.raises(SettingsError, match="refit needs validation"):
        fivestar.train(graph, small(refit=True, evaluate_every=0))
    with (
        pytest.warns(GraphWarning, match="without validation"),
        pytest.raises(SettingsError, match="no validation triples, so there is no best number"),
    ):
        fivestar.train(one_file, small(), valid=0, refit=True)


def test_a_refit_model_is_not_calibrated_on_what_it_was_trained_on(graph):
    run = fivestar.train(graph, {**small(), "model": {"name": "complex", "dim": 6}}, refit=True)
    assert run.predict_tails("p1", "knows", which="new")[0].probability is not None
    converted = run.to_fivestar()
    assert converted.metrics["valid"] == run.metrics["valid"]
    assert "refit" in converted.metrics
    assert converted.predict_tails("p1", "knows", which="new")[0].probability is None
