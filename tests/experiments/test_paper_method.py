"""The pages of the paper's method, from artificial trials."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.entries import entry

PLANS = Path(__file__).parents[2] / "experiments" / "paper_method"


@pytest.fixture
def modules(monkeypatch):
    """Return the modules of the experiment, which is no package."""
    monkeypatch.syspath_prepend(str(PLANS))
    for name in ("table", "finals", "relation_classes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import finals  # noqa: PLC0415
    import relation_classes  # noqa: PLC0415
    import table  # noqa: PLC0415

    yield table, finals, relation_classes
    for name in ("table", "finals", "relation_classes"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def trial(plan, setting, valid, data="wn18rr", **more):
    return {"plan": plan, "setting": setting, "data": data, "valid_mrr": valid, **more}


def test_rows_are_in_the_order_of_the_plan_however_the_trials_finished(modules):
    table, *_ = modules
    names = ["schedule", "paper", "init"]
    lines = [trial("ablation", name, 0.4) for name in names] + [trial("ours", "ours", 0.45)]
    lines += [trial("ablation", "paper", 0.3, "nell-995-h100"), trial("grid", "other", 0.9)]
    ordered = table.in_order_of(["ablation", "ours"], lines[::-1])
    assert [line["setting"] for line in ordered] == ["paper", "paper", "init", "schedule", "ours"]
    assert [line["data"] for line in ordered[:2]] == ["nell-995-h100", "wn18rr"]
    rows = table.settings_table(ordered).splitlines()
    assert rows[2] == "| paper | **.300** | .400 |"
    assert rows[-1] == "| ours | – | **.450** |"


def test_a_row_of_the_ablation_says_what_changed(modules):
    table, *_ = modules
    names = ("paper", "init", "schedule")
    lines = [trial("ablation", name, 0.3, train_mrr=0.9) for name in names]
    lines.append(trial("ours", "ours", 0.4, train_mrr=0.8))
    assert table.ablation_table(lines).splitlines()[2:] == [
        "| method paper, denominator mobius, reg-weight 0.05 | .300 (gap .600) |",
        "| init rotation, off-diagonal-lr 1.0 | .300 (gap .600) |",
        "| lr 0.3, decay linear | .300 (gap .600) |",
        "| our defaults | **.400** (gap .400) |",
    ]


def test_each_form_has_its_best_setting_and_its_gap(modules):
    table, *_ = modules
    lines = [
        trial("forms", f"{form}-lr0_3-reg{reg}", valid, train_mrr=0.5)
        for form, reg, valid in (
            *(("phase", "0_03", 0.3), ("phase", "0_12", 0.2)),
            *(("released", "0_03", 0.1), ("mobius", "0_25", 0.4)),
        )
    ]
    assert table.forms_table(lines).splitlines()[2:] == [
        "| wn18rr | phase | 2 | lr0.3-reg0.03 | .300 | .500 | .200 |",
        "| wn18rr | released | 1 | lr0.3-reg0.03 | .100 | .500 | .400 |",
        "| wn18rr | mobius | 1 | lr0.3-reg0.25 | .400 | .500 | .100 |",
    ]


def test_the_best_point_of_each_form_and_graph_is_trained_to_the_end(modules):
    table, finals, _ = modules

    def values(lr):
        model = {"name": "fivestar", "dim": 100, "denominator": "phase", "pairing": "bilinear"}
        return {"model": model, "training": {"lr": lr, "grouping": "triples", "reg_weight": 0.05}}

    lines = [
        trial("grid", "phase-lr0_1", 0.3, settings_values=values(0.1)),
        trial("grid", "phase-lr0_05", 0.4, settings_values=values(0.05)),
        trial("forms", "phase-lr0_3", 0.9, settings_values=values(0.3)),
        {"plan": "grid", "setting": "phase-lr9", "data": "wn18rr", "failed": "diverged"},
    ]
    (job,) = finals.jobs(lines)
    training = job.settings.training
    assert (job.graph, training.lr, training.grouping) == ("wn18rr", 0.05, "triples")
    assert (training.epochs, training.patience) == (50, 3)
    shown = table.finals_table([entry(test=0.3)]).splitlines()
    assert shown[2].startswith("| wn18rr | published | .47 | .41 | .50 | .58 |")
    assert shown[3].startswith("| wn18rr | mobius | .300 | .150 | .300 | .450 | 0.1 | 0.1 |")


def test_a_gain_on_one_class_alone_is_found_and_equal_gains_are_not(modules):
    *_, relation_classes = modules
    rng = np.random.default_rng(0)
    other = rng.uniform(0, 1, (2, 600))
    inside = np.arange(600) < 300
    gap = relation_classes.gain_contrast(other + 0.2 * inside, other, inside)
    assert gap["low"] > 0.1
    assert gap["mrr"] == pytest.approx(0.2)
    equal = relation_classes.gain_contrast(other + rng.normal(0, 0.05, 600), other, inside)
    assert equal["low"] < 0 < equal["high"]
