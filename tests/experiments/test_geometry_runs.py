"""The runs of docs/geometry.md: what is planned, and what the results say of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import fivestar
from fivestar.experiments.reproduction import RECIPES
from fivestar.runs.identity import learned_settings
from fivestar.runs.settings import read_settings

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "geometry_runs.jsonl"


@pytest.fixture
def planned(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "geometry"))
    for name in ("train", "table"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import train  # noqa: PLC0415

    runs = train.planned()
    monkeypatch.delitem(sys.modules, "train")
    return runs


def test_the_run_of_a_recipe_has_its_settings_and_one_thread(planned):
    settings = fivestar.make_settings(planned["wn18-fivestar"]["settings"])
    recipe = read_settings(RECIPES / "figures" / "wn18-fivestar.toml")
    assert learned_settings(settings) == learned_settings(recipe)
    assert settings.training.snapshot_epochs == recipe.training.snapshot_epochs != ()
    assert settings.training.threads == 1


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
