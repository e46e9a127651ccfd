"""The table of docs/datasets.md says what the catalog says."""

from __future__ import annotations

import os
from pathlib import Path

from fivestar.graph.datasets.catalog import load_catalog

PAGE = Path(__file__).parents[3] / "docs" / "datasets.md"
START = "<!-- datasets: written by tests/graph/datasets/test_catalog_page.py -->\n"
END = "<!-- end of datasets -->"


def row(entry):
    facts = " / ".join(f"{split.lines:,}" for split in entry.splits.values())
    size = f"{entry.download_bytes / 1e6:,.1f} MB" if entry.download_bytes else "not known"
    counts = f"{entry.entities:,} | {entry.relations:,} | {facts}"
    return f"| {entry.name} | {counts} | {size} | {entry.verification} | {entry.license} |\n"


def test_the_table_of_datasets():
    titles = (
        "| name | entities | relations | train / valid / test | download | verified by | license |"
    )
    table = f"{titles}\n|{'---|' * 7}\n" + "".join(map(row, load_catalog().values()))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    written, _, after = rest.partition(END)
    if os.environ.get("UPDATE_DOCS"):
        written = f"\n{table}\n"
        PAGE.write_text(f"{before}{START}{written}{END}{after}", encoding="utf-8")
    assert written == f"\n{table}\n", "run it with UPDATE_DOCS=1"
