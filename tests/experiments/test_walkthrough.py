"""The commands of benchmarks/walkthrough.py run, on a small graph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import walkthrough

from fivestar.experiments.records import read_records
from fivestar.experiments.tables import format_metric


def test_the_answer_to_explain_is_the_first_one():
    output = "┃   ┃ answer ┃ score ┃\n│ 1 │ e233   │ 8.553 │\n│ 2 │ e371   │ 2.464 │\n"
    assert walkthrough.first_answer(output) == "e233"
    with pytest.raises(SystemExit, match="no answer"):
        walkthrough.first_answer("no matching answers")


def test_the_training_is_the_best_of_the_short_ones():
    root = Path(__file__).parents[2]
    lines = read_records(root / "results" / "short_training.jsonl")
    best = max(lines, key=lambda line: line["valid_mrr"])
    model, training = (best["settings_values"][part] for part in ("model", "training"))
    options = f"--dim {model['dim']} --num-candidates {training['candidates']} --precision auto"
    assert training["precision"] == "bf16"
    page = (root / "docs" / "how-to" / "large-graphs.md").read_text(encoding="utf-8")
    for text in (walkthrough.COMMANDS["train"], page):
        assert options in text
    assert f"MRR of {format_metric(best['valid_mrr'])}," in page


@pytest.mark.slow
def test_all_commands_run(tmp_path):
    results = tmp_path / "walkthrough.jsonl"
    walkthrough.walk(list(walkthrough.COMMANDS), tmp_path, 400, results)
    lines = {line["name"]: line for line in read_records(results)}
    codes = {name: line["returncode"] for name, line in lines.items()}
    assert codes == dict.fromkeys(walkthrough.COMMANDS, 0) | {"misspelled": 1, "serve": -15}
    assert "did you mean" in lines["misspelled"]["output"]
    assert "Paths between them" in lines["explain"]["output"]
    asked = lines["serve"]["asked"]
    assert [each["command"] for each in asked] == list(walkthrough.ASKED)
    assert '"e12"' in asked[0]["output"]
    assert asked[2]["output"].startswith("e102")
