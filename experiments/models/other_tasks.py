"""Evaluate runs on test in triple classification and relation prediction.

    python experiments/models/other_tasks.py RUN ...

Each run is one line of results/other_tasks.jsonl, from which `table.py` makes a table of
docs/models.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import fivestar
from fivestar.experiments.records import append_record
from fivestar.runs.identity import learned_settings

RESULTS = Path(__file__).parents[2] / "results" / "other_tasks.jsonl"


def measured(run: fivestar.TrainedModel) -> dict[str, Any]:
    """Return the line of a run."""
    tasks = {task: run.evaluate("test", task=task) for task in ("classification", "relations")}
    return {
        "data": run.graph.name,
        "model": run.settings.model.name,
        "seed": run.settings.training.seed,
        "settings_values": learned_settings(run.settings),
        "epochs": run.metrics["epochs"],
        "minutes": round(run.metrics["seconds"] / 60, 2),
        **{task: dict(metrics) for task, metrics in tasks.items()},
    }


def main() -> None:
    """Evaluate all runs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", type=Path)
    arguments.add_argument("--out", type=Path, default=RESULTS)
    given = arguments.parse_args()
    for folder in given.runs:
        line = append_record(given.out, measured(fivestar.load(folder)))
        print(line["data"], line["model"], line["classification"], line["relations"], flush=True)


if __name__ == "__main__":
    main()
