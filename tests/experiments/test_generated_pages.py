"""The generated pages of docs/ are what the committed results give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fivestar.experiments import results
from fivestar.experiments.ledger import read_ledger
from fivestar.experiments.records import read_records
from fivestar.experiments.searches import read_searches

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("folder", "page"),
    [
        ("experiments/defaults", "defaults"),
        ("experiments/facts", "facts"),
        ("experiments/geometry", "geometry"),
        ("experiments/models", "models"),
        ("experiments/paper_method", "paper-method"),
        ("experiments/scale", "scale"),
        ("experiments/tuning", "recipes"),
        ("experiments/warm_start", "inside-5star"),
        ("benchmarks/side_by_side", "side-by-side"),
    ],
)
def test_page_matches_the_results(folder, page):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import table; print(table.page(), end='')"
    command = [sys.executable, "-c", code, str(ROOT / folder)]
    generated = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    assert generated == (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), (
        f"run python {folder}/table.py"
    )


@pytest.mark.parametrize(
    ("benchmark", "page"),
    [("time_to_quality", "benchmarks"), ("cold_start", "decisions/0025-cold-start")],
)
def test_table_is_that_of_the_results(benchmark, page):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{benchmark}.py"), "--table"]
    table = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    assert table.strip() in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def test_classes_of_relations_are_those_of_the_best_runs(monkeypatch):
    monkeypatch.setattr(results, "_difference", lambda *_: None)  # slow, and not compared here
    ledger = ROOT / "results" / "ledger.jsonl"
    entries, searches = read_ledger(ledger), read_searches(ledger)
    for line in read_records(ROOT / "results" / "relation_classes.jsonl"):
        names = "fivestar", line["other"]
        pairs = results.compare_models(entries, ledger.parent, *names, [line["data"]], searches)
        (pair,) = (pair for pair in pairs if pair.dim == line["dim"])
        assert line["settings"] == [cell.entries[0].settings for cell in pair.cells], (
            "run python experiments/paper_method/relation_classes.py"
        )
