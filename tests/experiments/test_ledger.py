"""The ledger: no line is lost or repeated, and test is evaluated once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.experiments.entries import entry
from tests.graphs import people_graph

from fivestar.errors import DamagedLedger, SettingsError
from fivestar.experiments import ledger as ledgers
from fivestar.experiments.ledger import (
    Entry,
    append,
    read_ledger,
    record,
)
from fivestar.experiments.saved_ranks import load_ranks
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS
from fivestar.runs.identity import NOT_LEARNED, settings_hash
from fivestar.runs.run import Run
from fivestar.runs.settings import ModelSettings, TrainingSettings, make_settings
from fivestar.training.train import train

COMMITTED = Path(__file__).parents[2] / "results" / "ledger.jsonl"
QUICK = {"model": {"dim": 4}, "training": {"epochs": 2, "evaluate_every": 1, "threads": 1}}


def test_every_committed_line_is_read_and_written_as_it_is():
    entries = read_ledger(COMMITTED)
    assert len(entries) >= 59
    assert [json.loads(e.as_line()) for e in entries] == [
        json.loads(line) for line in COMMITTED.read_text().splitlines()
    ]


def test_appended_lines_are_read_back(tmp_path):
    path = tmp_path / "new" / "ledger.jsonl"
    assert read_ledger(path) == []
    lines = [entry(seed=seed, note="5★E") for seed in range(3)]
    for line in lines:
        append(line, path)
    assert read_ledger(path) == lines
    with pytest.raises(DamagedLedger, match="already"):
        append(entry(seed=1, test=0.9), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-20] + "\n", "line 2: is not JSON"),
        (lambda line: line.replace('"seed"', '"sede"'), "line 2: seed: Field required"),
        (lambda line: line.replace('"mrr": 0.3', '"mrr": 30'), "line 2: test.mrr"),
        (lambda line: line.replace('"reg": 0.5', '"reg": 0.4'), "not the hash"),
        (lambda line: line.replace('{"exp', '{"more": 1, "exp'), "line 2: more: Extra inputs"),
        (lambda _: entry().as_line(), "line 2: .* of line 1 again"),
        (lambda _: "\n", "line 2: is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, change, message):
    path = tmp_path / "ledger.jsonl"
    path.write_text(entry().as_line() + change(entry(reg=0.5).as_line()) + entry(seed=7).as_line())
    with pytest.raises(DamagedLedger, match=message):
        read_ledger(path)


def test_a_line_is_validated_once_per_process(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    path.write_text(entry(note="validated once").as_line())
    first = read_ledger(path)
    monkeypatch.setattr(Entry, "model_validate", None)
    assert read_ledger(path) == first


def test_a_truncated_last_line_is_ignored(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text(entry().as_line() + entry(seed=1).as_line()[:50])
    assert read_ledger(path) == [entry()]
    append(entry(seed=1), path)
    assert read_ledger(path) == [entry(), entry(seed=1)]


def test_a_last_line_without_a_line_break_counts(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text(entry().as_line().rstrip())
    append(entry(seed=1), path)
    assert read_ledger(path) == [entry(), entry(seed=1)]


def test_many_processes_append_at_once(tmp_path):
    path = tmp_path / "ledger.jsonl"
    code = """
import sys
from pathlib import Path
from fivestar.experiments.ledger import append
from tests.experiments.entries import entry
for seed in range(20):
    append(entry(reg=float(sys.argv[2]), seed=seed), Path(sys.argv[1]))
"""
    root = Path(__file__).parents[2]
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), reg], cwd=root)
        for reg in ("0.1", "0.2")
    ]
    assert [process.wait() for process in processes] == [0, 0]
    assert len({e.key for e in read_ledger(path)}) == 40


# Another value for every setting, grouped by the objective or model that it applies to.
OTHER = {
    "model": {
        "name": "complex",
        "dim": 7,
        "denominator": "phase",
        "pairing": "bilinear",
        "score": "distance",
        "init": "small",
        "epsilon": 1e-3,
        "off_diagonal_lr": 0.5,
    },
    "of distances": {"norm": "l1"},
    "of other models": {
        "relation_dim": 5,
        "input_dropout": 0.05,
        "feature_dropout": 0.05,
        "hidden_dropout": 0.05,
    },
    "training": {
        "objective": "bce",
        "epochs": 7,
        "batch_size": 7,
        "optimizer": "adam",
        "lr": 0.7,
        "regularizer": "f2",
        "reg_weight": 0.7,
        "reg_exponent": 2.5,
        "label_smoothing": 0.1,
        "average": 7,
        "relation_loss_weight": 0.7,
        "warmup": 1.0,
        "decay": "linear",
        "clip": 1.0,
        "reciprocals": False,
        "grouping": "triples",
        "patience": 7,
        "evaluate_every": 7,
        "validation_queries": 7,
        "refit": True,
        "checkpoint_every": 7,
        "checkpoint_minutes": 7.0,
        "snapshot_epochs": (0, 7),
        "seed": 7,
        "threads": 7,
        "memory": "7GiB",
        "device": "cpu",
        "table": "mmap",
        "partitions": 7,
        "query_groups": 7,
        "precision": "bf16",
        "max_minutes": 7.0,
    },
    "of sampled candidates": {"num_candidates": 7},
    "of sampled relations": {"num_relation_candidates": 7},
    "of sampled negatives": {
        "num_negatives": 7,
        "negatives_from": "unknown",
        "corruption": "bernoulli",
        "margin": 7.0,
        "adversarial_temperature": 0.7,
        "negative_candidates": "observed",
    },
    "of sampled typed negatives": {"negative_candidates_share": 0.7},
}
BASE = {
    "model": {},
    "training": {},
    "of distances": {"model": {"score": "distance"}},
    "of other models": {"model": {"name": "tucker"}},
    "of sampled candidates": {"training": {"objective": "softmax"}},
    "of sampled relations": {"training": {"relation_loss_weight": 0.7}},
    "of sampled negatives": {"training": {"objective": "negative-sampling"}},
    "of sampled typed negatives": {
        "training": {"objective": "negative-sampling", "negative_candidates": "observed"}
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, values in OTHER.items() for name in values]
)
def test_the_hash_ignores_exactly_the_settings_that_do_not_change_what_is_learned(kind, name):
    section = "training" if kind == "training" or kind.startswith("of sampled") else "model"
    base = {"defaults": 1, **BASE[kind]}
    changed = {**base, section: {**base.get(section, {}), name: OTHER[kind][name]}}
    same = settings_hash(make_settings(base)) == settings_hash(make_settings(changed))
    assert same == (name in NOT_LEARNED)


def test_the_hash_test_covers_every_setting():
    tested = {name for values in OTHER.values() for name in values}
    options = {name for model in MODELS.values() for name in options_of(model)}
    assert tested == {*ModelSettings.model_fields, *options, *TrainingSettings.model_fields}


def test_the_hash_of_a_default_is_that_of_the_same_value_given():
    assert settings_hash(make_settings({})) == settings_hash(
        make_settings({"model": {"pairing": "hermitian"}, "training": {"lr": 0.3}})
    )


@pytest.fixture(scope="module")
def run():
    return train(people_graph(), QUICK)


def test_test_is_evaluated_once_per_settings_and_seed(run, tmp_path, monkeypatch):
    evaluations = []
    evaluate = ledgers.evaluate
    monkeypatch.setattr(ledgers, "evaluate", lambda *a: evaluations.append(a) or evaluate(*a))
    path = tmp_path / "ledger.jsonl"
    first, is_new = record(run, path, "a test", {"note": "hello"})
    assert is_new
    assert (first.data, first.dim, first.epochs, first.note) == ("graph", 4, 2, "hello")
    assert first.valid.mrr == pytest.approx(run.metrics["valid"]["mrr"], abs=1e-6)
    assert [epoch for epoch, _, _ in first.curve] == [1, 2]
    assert max(mrr for _, _, mrr in first.curve) == first.valid.mrr
    assert first.test.mrr_pessimistic <= first.test.mrr <= first.test.mrr_optimistic
    assert record(run, path, "another test") == (first, False)
    other_threads = make_settings({**QUICK, "training": {**QUICK["training"], "memory": "1GiB"}})
    other_threads = other_threads.for_graph(run.graph)
    again = Run(run.graph, other_threads, run.model, run.metrics)
    assert record(again, path, "again") == (first, False)
    assert len(evaluations) == 1
    other_seed = make_settings({**QUICK, "training": {**QUICK["training"], "seed": 1}}).for_graph(
        run.graph
    )
    second, is_new = record(Run(run.graph, other_seed, run.model, run.metrics), path, "seed 1")
    assert is_new
    assert len(evaluations) == 2
    assert read_ledger(path) == [first, second]


def test_the_saved_ranks_give_the_metrics(run, tmp_path):
    recorded, _ = record(run, tmp_path / "ledger.jsonl", "a test")
    saved = load_ranks(recorded.ranks, tmp_path)
    assert saved.reciprocal.shape == (len(run.graph.test), 2)
    assert saved.reciprocal.mean() == pytest.approx(recorded.test.mrr, abs=1e-6)
    (tmp_path / "ranks" / recorded.ranks).write_bytes(b"nothing")
    with pytest.raises(DamagedLedger, match="restore it"):
        load_ranks(recorded.ranks, tmp_path)


def test_two_processes_evaluate_once(run, tmp_path):
    run.save(tmp_path / "run")
    code = """
import sys
from pathlib import Path
from fivestar.experiments.ledger import record
from fivestar.runs.run import load_run
print(record(load_run(sys.argv[1]), Path(sys.argv[2]), "both")[1])
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "ledger.jsonl")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0].strip() for process in processes) == ["False", "True"]
    assert len(read_ledger(tmp_path / "ledger.jsonl")) == 1


def test_a_warm_started_run_is_refused(run, tmp_path):
    metrics = {**run.metrics, "started_from": {}}
    with pytest.raises(SettingsError, match="trained from scratch"):
        record(Run(run.graph, run.settings, run.model, metrics), tmp_path / "l", "x")


def test_the_key_of_an_entry_survives_a_round_trip():
    assert Entry.model_validate(json.loads(entry().as_line())).key == entry().key
