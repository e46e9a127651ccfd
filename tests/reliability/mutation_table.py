"""Write the table of mutants in docs/reliability.md from results/mutation.jsonl.

python -m tests.reliability.mutation_table

survivors.toml says why mutants survive that were looked at: `equivalent` ones behave like the
original wherever it matters, others are gaps.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.reliability.mutants import SCOPE

from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDS = ROOT / "results" / "mutation.jsonl"
REASONS = HERE / "survivors.toml"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- mutants: generated from results/mutation.jsonl -->\n"
END = "<!-- end of mutants -->\n"
Row = Mapping[str, Any]


def key(row: Row) -> str:
    """Return how survivors.toml names a mutant."""
    return f"{row['module']} {row['function']}: {row['change']}"


def reasons() -> list[dict[str, Any]]:
    """Return the classes of survivors: `reason`, `equivalent` and `mutants` of each."""
    classes: list[dict[str, Any]] = tomllib.loads(REASONS.read_text("utf-8"))["class"]
    return classes


def part_of(module: str) -> str:
    """Return the part of the scope that a module belongs to."""
    patterns = ((part, pattern) for part in SCOPE for pattern in SCOPE[part])
    return next(part for part, pattern in patterns if fnmatch(module, pattern))


def table(population: Mapping[str, int], rows: Sequence[Row]) -> str:
    """Return the figures of each part, and of all."""
    equivalent = {name for one in reasons() if one["equivalent"] for name in one["mutants"]}
    counts = ("mutants", "tested", "killed", "of these timeouts", "survived", "of these equivalent")
    lines = [["part", *counts, "kill rate", "without equivalents", "first run"]]
    for name in (*SCOPE, "all"):
        chosen = [row for row in rows if name in {"all", part_of(row["module"])}]
        total = sum(population.values()) if name == "all" else population[name]
        lines.append([name, f"{total:,}", *_cells(chosen, equivalent)])
    return markdown_table(lines)


def _cells(rows: Sequence[Row], equivalent: set[str]) -> list[str]:
    now = Counter(row["status"] for row in rows)
    before = Counter(row.get("first", row["status"]) for row in rows)
    same = sum(row["status"] == "survived" and key(row) in equivalent for row in rows)
    tested = len(rows) - now["invalid"]
    killed = now["killed"] + now["timeout"]
    counts = [tested, killed, now["timeout"], now["survived"], same]
    rates = [killed / tested, killed / (tested - same), (tested - before["survived"]) / tested]
    return [
        *(f"{count:,}" for count in counts),
        *(f"{rate:.1%}".replace("%", " %") for rate in rates),
    ]


def page() -> str:
    """Return docs/reliability.md with the table of the records."""
    head, *rows = read_records(RECORDS)
    runs = "; ".join(
        f"{run['mutants']:,} mutants in {run['minutes']:.0f} minutes, commit {run['commit']}"
        for run in head["runs"]
    )
    last = head["runs"][-1]
    survivors = Counter(key(row) for row in rows if row["status"] == "survived")
    counts = [sum(survivors[name] for name in one["mutants"]) for one in reasons()]
    classes = [["survivors", "number", "equivalent"]]
    for one, count in zip(reasons(), counts, strict=True):
        classes.append([one["reason"], str(count), "yes" if one["equivalent"] else "no"])
    classes.append(["not looked at", str(survivors.total() - sum(counts)), ""])
    text = (
        f"{table(head['population'], rows)}\n\n"
        f"Tested: {len(rows):,} mutants, a random sample (seed {head['seed']}). Runs: {runs} "
        f"({last['machine']}, {last['date']}). The first run is that before survivors "
        "were tested again, with tests that were added because of them.\n\n"
        f"{markdown_table(classes)}\n"
    )
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + text + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
