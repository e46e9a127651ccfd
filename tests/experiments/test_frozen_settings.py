"""Settings recorded before a default changed keep their meaning and their hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fivestar.errors import SettingsError
from fivestar.experiments.ledger import read_ledger, settings_hash, settings_of
from fivestar.experiments.recipes import recipe
from fivestar.runs.defaults import baseline, with_saved_model
from fivestar.runs.settings import TrainingSettings, make_settings, read_settings

ROOT = Path(__file__).parents[2]
# Written with the code before version 2 of the defaults: a hash of every value, by its name then.
FROZEN = json.loads((ROOT / "tests/experiments/settings_before_0.2.json").read_text())


def as_then(settings):
    """Hash all values that settings had before 0.2, by the names of that time."""
    names = baseline()["names"]
    values = {
        section: {
            key: value
            for key, value in (
                (names.get(name, name), value)
                for name, value in json.loads(settings.model_dump_json())[section].items()
            )
            if key in FROZEN["fields"][section]
        }
        for section in ("model", "training")
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def test_every_old_ledger_line_resolves_to_the_same_settings_and_hash():
    entries = read_ledger(ROOT / "results/ledger.jsonl")
    for entry, frozen in zip(entries, FROZEN["ledger"], strict=False):
        settings = settings_of(entry)
        assert as_then(settings) == frozen, entry.experiment
        assert settings_hash(settings) == entry.settings
    assert len(entries) >= len(FROZEN["ledger"])


def test_every_setting_that_was_tried_resolves_to_the_same():
    lines = (ROOT / "results/tried.jsonl").read_text().splitlines()
    for line, frozen in zip(map(json.loads, lines), FROZEN["tried"], strict=False):
        model, training = line["settings_values"]["model"], line["settings_values"]["training"]
        full = {**baseline()["training"], **training, "seed": line["seed"]}
        assert as_then(make_settings({"model": model, "training": full})) == frozen


def test_saved_runs_and_lines_of_before_learned_all_entries_at_one_rate():
    assert make_settings({}).model.off_diagonal_lr == 0.1
    assert make_settings({"model": {"denominator": "phase"}}).model.off_diagonal_lr == 1
    assert make_settings({"defaults": 1}).model.off_diagonal_lr == 1
    assert make_settings(with_saved_model({})).model.off_diagonal_lr == 1
    given = {"model": {"off-diagonal-lr": 0.5}}
    assert make_settings(with_saved_model(given)).model.off_diagonal_lr == 0.5


@pytest.mark.parametrize("file", FROZEN["files"])
def test_old_settings_files_mean_the_same(file):
    if (ROOT / file).exists():
        assert as_then(read_settings(ROOT / file)) == FROZEN["files"][file]


@pytest.mark.parametrize("name", FROZEN["recipes"])
def test_old_recipes_keep_their_hash(name):
    graph, model = name.split("/")
    assert settings_hash(recipe(graph, model, {})) == FROZEN["recipes"][name]


def test_the_baseline_names_every_setting():
    """A new setting enters the baseline with the value that means "as before"."""
    absent = {"memory", "adversarial"}  # None, which TOML cannot write
    assert set(baseline()["training"]) == set(TrainingSettings.model_fields) - absent


def test_versions_of_defaults():
    old = make_settings({"defaults": 1, "model": {"dim": 7}})
    assert (old.model.init, old.model.dim) == ("identity", 7)
    assert make_settings({"defaults": 1, "model": {"denominator": "phase"}}).model.init == "small"
    assert make_settings({}).model.init == "rotation"
    assert make_settings({"model": {"start": "identity"}}).model.init == "identity"
    with pytest.raises(SettingsError, match="there are versions 1 and 2"):
        make_settings({"defaults": 3})
