"""What metrics.json and history.jsonl may hold: what a run writes, and nothing else."""

from __future__ import annotations

import json

import pytest

from fivestar.errors import DamagedRun
from fivestar.runs.metrics_file import read_history, read_metrics


def metrics_of(tmp_path, values):
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(values))
    return read_metrics(path)


@pytest.mark.parametrize(
    "curve",
    [
        {"method": "platt", "points": [1.5, -2.0], "probabilities": []},
        {"method": "isotonic", "points": [-3.0], "probabilities": [0.5]},
        {"method": "isotonic", "points": [-3.0, -3.0, 0.0], "probabilities": [0.0, 0.5, 0.5]},
    ],
)
def test_curves_that_a_run_writes(tmp_path, curve):
    assert metrics_of(tmp_path, {"calibration": curve, "own": [1]})["calibration"] == curve


@pytest.mark.parametrize(
    ("method", "points", "probabilities", "problem"),
    [
        ("platt", [1.0], [], "a coefficient and an intercept"),
        ("platt", [1.0, 2.0, 3.0], [], "a coefficient and an intercept"),
        ("platt", [1.0, 2.0], [0.5], "a coefficient and an intercept"),
        ("isotonic", [], [], "as many points as probabilities"),
        ("isotonic", [1.0, 2.0], [0.5], "as many points as probabilities"),
        ("isotonic", [1.0, 0.5], [0.1, 0.2], "does not fall"),
        ("isotonic", [0.5, 1.0], [0.2, 0.1], "does not fall"),
        ("isotonic", [0.5, 1.0], [0.2, 1.1], "less than or equal to 1"),
        ("cubic", [0.5], [0.2], "calibration.method"),
    ],
)
def test_other_curves_are_refused(tmp_path, method, points, probabilities, problem):
    curve = {"method": method, "points": points, "probabilities": probabilities}
    with pytest.raises(DamagedRun, match=problem):
        metrics_of(tmp_path, {"calibration": curve})


def test_the_message_names_the_file_and_the_field(tmp_path):
    with pytest.raises(DamagedRun, match=r"metrics\.json: .*\(validation\.triples: .*restore it"):
        metrics_of(tmp_path, {"validation": {"triples": -1, "ranked": 0}})
    with pytest.raises(DamagedRun, match=r"\(the file: "):
        metrics_of(tmp_path, [1])
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(DamagedRun, match=r"is not what a run writes \(Expecting"):
        read_metrics(tmp_path / "metrics.json")


def test_histories(tmp_path):
    path = tmp_path / "history.jsonl"
    lines = [{"epoch": 0, "loss": 1.5}, {"epoch": 1, "seconds": 0.25, "own": "é"}]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    assert read_history(path) == lines
    path.write_text('{"epoch": 0}\n{"epoch": -1}\n')
    with pytest.raises(DamagedRun, match=r"\(1\.epoch: "):
        read_history(path)
    with pytest.raises(DamagedRun, match=r"none\.jsonl: is not what a run writes"):
        read_history(tmp_path / "none.jsonl")
