"""The runs of docs/geometry.md: what is planned, and what the results say of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import fivestar
from fivestar.experiments.reproduction import RECIPES
from fivestar.runs.identity import learned_settings
from fivestar.runs.settings import read_settings

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "geometry_runs.jsonl"


@pytest.fixture
def script(monkeypatch):
    """Return experiments/geometry/train.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "geometry"))
    monkeypatch.delitem(sys.modules, "train", raising=False)
    import train  # noqa: PLC0415

    monkeypatch.delitem(sys.modules, "train")
    return train


@pytest.fixture
def planned(script):
    return script.planned()


def test_the_run_of_a_recipe_has_its_settings_and_one_thread(planned):
    settings = fivestar.make_settings(planned["wn18-fivestar"]["settings"])
    recipe = read_settings(RECIPES / "figures" / "wn18-fivestar.toml")
    assert learned_settings(settings) == learned_settings(recipe)
    assert settings.training.snapshot_epochs == recipe.training.snapshot_epochs != ()
    assert settings.training.threads == 1


def test_only_some_runs_are_trained(script, tmp_path, monkeypatch, capsys):
    def train(name, *_):
        return {"name": name, "valid_mrr": 0.5, "cpu_minutes": 1, "minutes": 2}

    def main(*names):
        out = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "runs.jsonl")]
        monkeypatch.setattr(sys, "argv", ["train.py", *out, "--only", *names])
        script.main()
        lines = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["name"] for line in lines]

    monkeypatch.setattr(script, "train", train)
    assert main("wn18-fivestar", "wn18-phase-n3-0") == ["wn18-fivestar", "wn18-phase-n3-0"]
    with pytest.raises(SystemExit):
        main("wn18")
    assert "invalid choice: 'wn18'" in capsys.readouterr().err


def test_minutes_of_a_resumed_run_include_those_before(script, planned, tmp_path, monkeypatch):
    metrics = {"epochs": 50, "seconds": 600.0, "valid": {"mrr": 0.9}}
    monkeypatch.setattr(script.fivestar, "resume", lambda _: SimpleNamespace(metrics=metrics))
    line = script.train("wn18-fivestar", planned["wn18-fivestar"], tmp_path)
    assert line["minutes"] == 10
    assert line["cpu_minutes"] is None  # only this process is known


def test_recorded_runs_are_planned_with_these_settings(planned):
    for line in map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines()):
        settings = fivestar.make_settings(planned[line["name"]]["settings"])
        assert line["seed"] == settings.training.seed, line["name"]
        assert line["epochs"] == settings.training.epochs, line["name"]
        learned = learned_settings(settings)
        for name in ("dim", "denominator", "pairing"):
            assert line["settings_values"]["model"].get(name) == learned["model"].get(name), (
                line["name"],
                name,
            )
