"""Settings recorded before a default changed keep their meaning and their hash."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from fivestar.errors import SettingsError
from fivestar.experiments.ledger import read_ledger, settings_of
from fivestar.experiments.reproduction import recipe
from fivestar.runs.defaults import as_saved, baseline
from fivestar.runs.identity import settings_hash
from fivestar.runs.renamed import RenamedSetting, original_names
from fivestar.runs.settings import TrainingSettings, make_settings, read_settings

ROOT = Path(__file__).parents[2]
# Written with the code before version 2 of the defaults: a hash of every value, by its name then.
FROZEN = json.loads((ROOT / "tests/experiments/settings_before_0.2.json").read_text())
# Recipes that better settings have replaced; the ledger keeps the former ones, if there was a run.
REPLACED = [
    *("wn18rr/fivestar", "nell-995/fivestar", "wn18/fivestar", "fb15k/fivestar"),
    "nell-995/murp",
]


def as_then(settings):
    """Hash all values that settings had before 0.2, by the names of that time."""
    # Options that a model did not have were None then.
    absent = dict.fromkeys(FROZEN["fields"]["model"])
    values = {
        section: (absent if section == "model" else {})
        | {
            key: value
            for key, value in original_names(
                json.loads(settings.model_dump_json())[section]
            ).items()
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


def test_the_settings_file_of_a_ledger_line_has_its_hash(tmp_path):
    """So experiments/ledger_settings.py gives a file that trains the same way."""
    path = tmp_path / "settings.toml"
    for entry in read_ledger(ROOT / "results/ledger.jsonl"):
        path.write_text(settings_of(entry).as_toml(), encoding="utf-8")
        assert settings_hash(read_settings(path)) == entry.settings


def test_every_tried_setting_resolves_to_the_same():
    lines = (ROOT / "results/tried.jsonl").read_text().splitlines()
    for line, frozen in zip(map(json.loads, lines), FROZEN["tried"], strict=False):
        model, training = line["settings_values"]["model"], line["settings_values"]["training"]
        sections = as_saved({"model": model, "training": training})
        full = {**baseline()["training"], **sections["training"], "seed": line["seed"]}
        assert as_then(make_settings({**sections, "training": full})) == frozen


def test_older_runs_and_lines_train_all_entries_at_one_rate():
    assert make_settings({}).model.off_diagonal_lr == 0.1
    assert make_settings({"model": {"denominator": "phase"}}).model.off_diagonal_lr == 1
    assert make_settings({"defaults": 1}).model.off_diagonal_lr == 1
    assert make_settings(as_saved({})).model.off_diagonal_lr == 1
    given = {"model": {"off-diagonal-lr": 0.5}}
    assert make_settings(as_saved(given)).model.off_diagonal_lr == 0.5


@pytest.mark.parametrize("file", FROZEN["files"])
def test_old_settings_files_mean_the_same(file):
    if file.startswith("experiments/"):
        # Removed: the ledger, which is tested above, has the same settings.
        assert not (ROOT / file).exists()
    elif not any(file.endswith(f"recipes/{name}.toml") for name in REPLACED):
        assert as_then(read_settings(ROOT / file)) == FROZEN["files"][file]


@pytest.mark.parametrize("name", FROZEN["recipes"])
def test_old_recipes_keep_their_hash(name):
    graph, model = name.split("/")
    found = settings_hash(recipe(graph, model, {}))
    file = re.sub(r"-h\d+$", "", graph)
    assert (found == FROZEN["recipes"][name]) is (f"{file}/{model}" not in REPLACED)


def test_the_baseline_has_every_setting():
    """A new setting enters the baseline with the value that means "as before"."""
    absent = {"memory", "adversarial_temperature"}  # None, which TOML cannot write
    assert set(baseline()["training"]) == set(TrainingSettings.model_fields) - absent


def test_versions_of_defaults():
    old = make_settings({"defaults": 1, "model": {"dim": 7}})
    assert (old.model.init, old.model.dim) == ("identity", 7)
    assert make_settings({"defaults": 1, "model": {"denominator": "phase"}}).model.init == "small"
    assert make_settings({}).model.init == "rotation"
    with pytest.raises(SettingsError, match="there are versions 1 and 2"):
        make_settings({"defaults": 3})


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [
        ("model", {"start": "identity"}, {"init": "identity"}),
        ("training", {"batch": 7}, {"batch_size": 7}),
        ("training", {"candidates": 7}, {"num_candidates": 7}),
        ("training", {"reg": 0.7}, {"reg_weight": 0.7}),
        ("training", {"regularizer": "n3-moved"}, {"regularizer": "n3-transformed"}),
        ("training", {"relation-weight": 1.0}, {"relation_loss_weight": 1.0}),
    ],
)
def test_older_names_are_read_with_a_note(section, old, new):
    with pytest.warns(RenamedSetting, match="is now .*the old names still work"):
        renamed = make_settings({section: old})
    assert renamed == make_settings({section: new})


def test_a_setting_cannot_be_given_by_both_names():
    with pytest.raises(SettingsError, match="reg is the former name of reg_weight: remove reg"):
        make_settings({"training": {"reg": 0.1, "reg_weight": 0.2}})
