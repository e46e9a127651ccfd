"""The commands and snippets of the pages run, in order, and print what the pages show.

How a page says what is run: scripts/run_docs.py.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from scripts.run_docs import run_page

import fivestar

ROOT = Path(__file__).parents[2]
# Each runs in a new folder, beside the run that `make demo` leaves in demo_run.
PAGES = ["README.md"]


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("demo") / "demo_run"
    fivestar.train(out=run)
    return run


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page, demo_run, tmp_path):
    shutil.copytree(demo_run, tmp_path / "demo_run")
    run_page(ROOT / page, tmp_path, path=str(Path(sys.executable).parent))


def test_the_numbers_of_the_readme_are_the_recorded_ones():
    text = (ROOT / "README.md").read_text()
    results = (ROOT / "docs/results.md").read_text()
    benchmarks = (ROOT / "docs/benchmarks.md").read_text()
    quality = {name: cells(text, f"| {name} | .") for name in ("fivestar", "published")}
    for number, graph in enumerate(("wn18rr", "fb15k-237", "nell-995-h100")):
        section = results.partition(f"\n### {graph}\n")[2].partition("\n### ")[0]
        assert f"| 5★E | 100 | ours | **{quality['fivestar'][number]}" in section
        assert f"| 5★E | 100 | published | {quality['published'][number]} |" in section
    for row, column, recorded in (
        ("| training, triples/s: fivestar", "step", "**fivestar**"),
        ("| training, triples/s: PyKEEN", "step", "pykeen"),
        ("| training, triples/s: released", "step", "authors"),
        ("| ranking the test set: fivestar", "ranking", "**fivestar**"),
        ("| ranking the test set: PyKEEN", "ranking", "pykeen"),
    ):
        table = benchmarks.partition(f"| case | {column} |")[2].partition("\n\n")[0]
        for value, case in zip(cells(text, row), ("WN18RR", "FB15k-237"), strict=True):
            assert f"| {case} d=100 | {recorded} | {value.removesuffix(' s')} |" in table


def cells(text, row):
    (line,) = [line for line in text.splitlines() if line.startswith(row)]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_links_of_the_readme_exist():
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
