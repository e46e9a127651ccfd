"""Train the runs of `runs.toml` that docs/geometry.md measures and plots, one after the other.

    python experiments/geometry/train.py --runs FOLDER [--only NAME …]

A finished run is a folder FOLDER/NAME and a line of results/geometry_runs.jsonl, where NAME is
GRAPH-MODEL-REGULARIZER-SEED, or GRAPH-MODEL for that of a recipe. Finished runs are skipped and
begun ones resumed, so the command can be repeated. Only validation is ranked.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any

import fivestar
from fivestar.experiments.ledger import provenance
from fivestar.experiments.reproduction import RECIPES
from fivestar.runs.identity import learned_settings
from fivestar.runs.settings import read_values

PLAN = Path(__file__).parent / "runs.toml"
RESULTS = Path(__file__).parents[2] / "results" / "geometry_runs.jsonl"


def planned() -> dict[str, dict[str, Any]]:
    """Return the graph, the settings and the label of each run, by its name."""
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    runs = {}
    for group in plan["groups"]:
        for seed in group["seeds"]:
            for regularizer in group["regularizers"]:
                for label, model in group["models"].items():
                    own = {"regularizer": regularizer, "seed": seed}
                    runs[f"{group['graph']}-{label}-{regularizer}-{seed}"] = {
                        "graph": group["graph"],
                        "model": label,
                        "settings": {
                            "defaults": plan["defaults"],
                            "model": model,
                            "training": plan["training"] | group["training"] | own,
                        },
                    }
    for recipe in plan["recipes"]:
        name = f"{recipe['graph']}-{recipe['model']}"
        threads = {"threads": plan["training"]["threads"]}
        settings = read_values(RECIPES / "figures" / f"{name}.toml", {"training": threads})
        runs[name] = {**recipe, "settings": settings}
    return runs


def train(name: str, run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train (or resume) a run and return its line for the results."""
    settings = fivestar.make_settings(run["settings"])
    cpu, is_resumed = time.process_time(), folder.exists()
    if is_resumed:
        trained = fivestar.resume(folder)
    else:
        trained = fivestar.train(fivestar.read_graph(run["graph"]), settings, folder)
    return {
        "name": name,
        "graph": run["graph"],
        "model": run["model"],
        "settings_values": learned_settings(settings),
        "seed": settings.training.seed,
        "epochs": trained.metrics["epochs"],
        "valid_mrr": round(trained.metrics["valid"]["mrr"], 4),
        "minutes": round(trained.metrics["seconds"] / 60, 2),  # those before it was resumed, too
        "cpu_minutes": None if is_resumed else round((time.process_time() - cpu) / 60, 2),
        **provenance(),
    }


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    runs = planned()
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=runs, help="only these runs")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    for name in given.only or runs:
        run, folder = runs[name], given.runs / name
        if not (folder / "manifest.json").exists():
            line = train(name, run, folder)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(name, line["valid_mrr"], line["cpu_minutes"], line["minutes"], flush=True)


if __name__ == "__main__":
    main()
