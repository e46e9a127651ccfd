"""The generated pages of docs/ are what the committed results give."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fivestar.experiments import comparisons
from fivestar.experiments.ledger import read_ledger
from fivestar.experiments.records import read_records
from fivestar.experiments.searches import read_searches
from fivestar.experiments.tables import best_on_validation, format_metric

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("folder", "page"),
    [
        ("experiments/answers", "answers"),
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


def test_shapes_and_clusters_are_as_the_page_of_geometry_says():
    lines = read_records(ROOT / "results" / "geometry.jsonl")
    for line in lines:
        if line["measurement"] == "shapes":
            for key, found in line["counted"].items():
                strict, changes = key.endswith(" at 0.2"), found["counts"]
                if "-mobius-" in line["run"] and (strict or line["run"].startswith("wn18")):
                    assert changes["circle → line"] == changes["line → circle"] == 0
                if "-phase-" in line["run"] and strict:
                    assert changes["line → circle"] == 0
                    assert changes["circle → line"] == 0 or line["run"].startswith("nell")
                assert found["baseline"]["line → circle"] == 0
                if key.startswith("_hypernym"):
                    assert found["baseline"]["circle → line"] == 0
    clusters = [line for line in lines if line["measurement"] == "clusters"]
    ours = [line for line in clusters if "-fivestar-" in line["run"]]
    others = [line for line in clusters if line not in ours]
    for metric in ("between", "silhouette"):
        assert max(line[metric] for line in ours) < min(line[metric] for line in others)


def test_the_concept_of_training_has_the_recorded_numbers():
    page = (ROOT / "docs" / "concepts" / "training-the-exact-form.md").read_text(encoding="utf-8")
    runs = {run["name"]: run for run in read_records(ROOT / "results" / "geometry_runs.jsonl")}
    for row, form in (
        ("exact (`mobius`) | hermitian", "mobius"),
        ("`phase` | bilinear", "phase"),
    ):
        names = (f"nell-995-h100-{form}-{name}-0" for name in ("n3", "n3-transformed"))
        mrrs = (format_metric(runs[name]["valid_mrr"]) for name in names)
        assert f"| {row} | {' | '.join(mrrs)} |" in page
    said = " ".join(page.split())
    ledger = read_ledger(ROOT / "results" / "ledger.jsonl")
    for pairing, claim in (
        ("hermitian", "the best hermitian settings have validation MRR"),
        ("bilinear", "had"),
    ):
        cell = best_on_validation(
            entry
            for entry in ledger
            if (entry.data, entry.model, entry.dim) == ("nell-995-h100", "fivestar", 100)
            and entry.experiment == "table-nell"
            and entry.settings_values["model"]["pairing"] == pairing
        )
        mrrs = sorted(entry.valid.mrr for entry in cell.entries)
        assert len(mrrs) == 3
        assert f"{claim} {format_metric(mrrs[0])} to {format_metric(mrrs[-1])}" in said


def test_decisions_say_when_their_numbers_were_measured():
    for page in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if re.search(r"(?<![\w./-])\.?\d[\d.,]* (ms|s|µs|MB|GB)\b|[ .]\.\d\d|MRR", text):
            assert re.search(r"20\d\d-\d\d-\d\d", text), page.name


@pytest.mark.parametrize(
    ("benchmark", "page"),
    [("time_to_quality", "benchmarks"), ("cold_start", "decisions/0025-cold-start")],
)
def test_table_is_that_of_the_results(benchmark, page):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{benchmark}.py"), "--table"]
    table = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    assert table.strip() in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


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
