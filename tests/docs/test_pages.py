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


def test_the_ratios_of_the_overview_are_the_measured_ones():
    """Whole numbers between the smallest and the largest measured ratio, up to rounding."""
    overview = " ".join((ROOT / "docs/overview.md").read_text().split())
    benchmarks = (ROOT / "docs/benchmarks.md").read_text()
    steps, ranking = (
        benchmarks.partition(f"| case | {name} |")[2].partition("\n\n")[0]
        for name in ("step", "ranking")
    )
    for table, contestant, said in (
        (steps, "authors", r"1/(\d+) to 1/(\d+) of the time of the authors' code"),
        (steps, "pykeen", r"1/(\d+) to 1/(\d+) of PyKEEN's;"),
        (ranking, "pykeen", r"ranking takes 1/(\d+) to 1/(\d+) of PyKEEN's"),
    ):
        rows = [line.split("|")[1:-1] for line in table.splitlines() if f" {contestant} |" in line]
        ratios = [float(row[3]) for row in rows]
        lowest, highest = map(int, re.search(said, overview).groups())
        assert abs(min(ratios) - lowest) <= 0.5
        assert abs(max(ratios) - highest) <= 0.5


def test_the_load_on_the_page_about_deployment_is_the_measured_one():
    deploy = " ".join((ROOT / "docs/how-to/deploy.md").read_text().split())
    load = (ROOT / "docs/http.md").read_text().partition("\n## Load\n")[2]
    one, two = (
        re.search(rf"\| now, {workers} \| ([\d,]+) \|", load)[1]
        for workers in ("1 worker", "2 workers")
    )
    busy = re.search(r"([\d,]+) and ([\d,]+) now", " ".join(load.split()))
    assert f"two workers answered {two} queries per second and one {one}" in deploy
    assert f"beside two trainings {busy[2]} and {busy[1]} (" in deploy


def cells(text, row):
    (line,) = [line for line in text.splitlines() if line.startswith(row)]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_links_of_the_readme_exist():
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
