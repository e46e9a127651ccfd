"""The generated pages of docs/ are what the committed results give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fivestar.experiments import comparisons
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


def test_times_to_quality_are_those_of_the_results():
    command = [sys.executable, str(ROOT / "benchmarks" / "time_to_quality.py"), "--table"]
    table = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    assert table.strip() in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_classes_of_relations_are_those_of_all_best_runs(monkeypatch):
    monkeypatch.setattr(comparisons, "_difference", lambda *_: None)  # slow, and not compared here
    ledger = ROOT / "results" / "ledger.jsonl"
    entries, searches = read_ledger(ledger), read_searches(ledger)
    recorded = {
        (line["data"], line["dim"], line["other"]): (line["settings"], line["search"])
        for line in read_records(ROOT / "results" / "relation_classes.jsonl")
    }
    expected = {
        (pair.data, pair.dim, other): (
            [cell.entries[0].settings for cell in pair.cells],
            comparisons.describe_equal_search(pair.search, pair.data, pair.dim),
        )
        for other in ("complex", "rotate", "quate")
        for pair in comparisons.compare_models(
            entries, ledger.parent, "fivestar", other, searches=searches
        )
        if all(entry.ranks for cell in pair.cells for entry in cell.entries)
    }
    assert recorded == expected, "run python experiments/paper_method/relation_classes.py"
