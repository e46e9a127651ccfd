"""Train the paper's own method to the end at the best point of its grid, and evaluate it on test.

    python experiments/paper_method/finals.py --minutes 60

For the equation and for the released code, and each graph: the point with the best validation MRR
in grid.toml (results/paper_method.jsonl). The runs have a ledger of their own,
results/paper_method/ledger.jsonl, so that they are not taken for our settings of a table. Recorded
runs are skipped, and an interrupted one is resumed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fivestar.cli.long_work import WatchedJobs
from fivestar.experiments.records import read_records
from fivestar.experiments.reproduction import Job, reproduce
from fivestar.graph.reading import read_graph
from fivestar.runs.settings import make_settings

RESULTS = Path(__file__).parents[2] / "results"
LEDGER = RESULTS / "paper_method" / "ledger.jsonl"
# Validation every 5 epochs; early stopping may end a training before its last epoch.
LENGTH = {"epochs": 50, "evaluate_every": 5, "patience": 3}


def best_points(lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the line with the best validation MRR of each form and graph."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        if line["plan"] != "grid" or "failed" in line:
            continue
        key = line["setting"].split("-")[0], line["data"]
        if key not in best or line["valid_mrr"] > best[key]["valid_mrr"]:
            best[key] = line
    return best


def jobs(lines: list[dict[str, Any]]) -> list[Job]:
    """Return the trainings: the settings of the best points, with enough epochs."""
    made = []
    for (_, data), line in best_points(lines).items():
        values = line["settings_values"]
        training = {**values["training"], **LENGTH, "threads": 1, "seed": 0}
        settings = make_settings({"defaults": 1, "model": values["model"], "training": training})
        made.append(Job(data, settings))
    return made


def main() -> None:
    """Train and record what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0, help="pause after this time (0: never)")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    given = parser.parse_args()
    planned = jobs(read_records(RESULTS / "paper_method.jsonl"))
    outcome = reproduce(
        planned, LEDGER, given.runs, "paper-method", read_graph, WatchedJobs(), given.minutes
    )
    print(f"{len(outcome.remaining)} of {len(planned)} runs left")


if __name__ == "__main__":
    main()
