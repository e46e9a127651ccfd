"""Train short runs and measure on test how well their probabilities are calibrated.

    python experiments/answers/calibration.py --runs FOLDER

Each run is a folder FOLDER/GRAPH-MODEL and a line of results/calibration.jsonl, from which
`table.py` makes a table of docs/answers.md. Finished runs are loaded, and those that are measured
are skipped, so the command can be repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import fivestar
from fivestar.experiments.records import append_record, read_records
from fivestar.runs.identity import learned_settings

RESULTS = Path(__file__).parents[2] / "results" / "calibration.jsonl"
_SHORT = {"epochs": 12, "num_candidates": 1024}
# What differs from the default settings, by graph and model.
RUNS: dict[tuple[str, str], dict[str, int]] = {
    ("demo", "fivestar"): {},
    ("nell-995-h100", "fivestar"): _SHORT,
    ("nell-995-h100", "complex"): _SHORT,
    ("wn18rr", "fivestar"): _SHORT,
    ("wn18", "fivestar"): _SHORT | {"dim": 40},
    ("fb15k-237", "fivestar"): _SHORT | {"epochs": 3},
}


def trained(data: str, model: str, folder: Path) -> fivestar.TrainedModel:
    """Load a run, or resume or begin its training."""
    if (folder / "manifest.json").exists():
        return fivestar.load(folder)
    if folder.exists():
        return fivestar.resume(folder)
    return fivestar.train(data, model=model, out=folder, threads=1, **RUNS[data, model])


def measured(run: fivestar.TrainedModel) -> dict[str, Any]:
    """Return the line of a run."""
    return {
        "data": run.graph.name,
        "model": run.settings.model.name,
        "dim": run.settings.model.dim,
        "seed": run.settings.training.seed,
        "settings_values": learned_settings(run.settings),
        "epochs": run.metrics["epochs"],
        "minutes": round(run.metrics["seconds"] / 60, 2),
        "valid_mrr": round(run.metrics["valid"]["mrr"], 4),
        "method": run.metrics["calibration"]["method"],
        **{name: found.as_json() for name, found in run.reliability().items()},
    }


def main() -> None:
    """Train and measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    done = {(line["data"], line["model"]) for line in read_records(given.out)}
    for data, model in RUNS:
        run = trained(data, model, given.runs / f"{data}-{model}")
        if (data, model) not in done:
            line = append_record(given.out, measured(run))
            print(data, model, line["valid_mrr"], line["calibrated"]["brier"], flush=True)


if __name__ == "__main__":
    main()
