"""Train with some settings and evaluate on validation only: a line of results/tried.jsonl.

    python experiments/tuning/try_settings.py wn18rr reg-weight=0.05 lr=0.2 num-candidates=4096

The best settings become a recipe (src/fivestar/experiments/recipes); only `fivestar reproduce`
evaluates on test. Settings that are not given are those of the recipe.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import fivestar
from fivestar.experiments.ledger import provenance
from fivestar.experiments.reproduction import recipe
from fivestar.files import file_lock
from fivestar.runs.identity import learned_settings
from fivestar.runs.settings import TrainingSettings
from fivestar.training.loop import Trainer

TRIED = Path(__file__).parents[2] / "results" / "tried.jsonl"


def main() -> None:
    """Train once and append the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("graph")
    arguments.add_argument("settings", nargs="*", help="as in reg-weight=0.05 name=complex dim=200")
    arguments.add_argument("--out", type=Path, default=TRIED)
    given = arguments.parse_args()
    changes: dict[str, dict[str, Any]] = {"model": {"dim": 100}, "training": {"patience": 0}}
    for text in given.settings:
        key, _, value = text.partition("=")
        key = key.replace("-", "_")
        section = "training" if key in TrainingSettings.model_fields else "model"
        changes[section][key] = _parsed(value)
    graph = fivestar.read_graph(given.graph)
    name = changes["model"].pop("name", "fivestar")
    settings = recipe(graph.name, name, changes)
    trainer = Trainer(graph, settings)
    curve: list[tuple[int, float, float, float]] = []

    def watch(line: dict[str, Any]) -> None:
        if "valid_mrr" in line:
            minutes = round(line["seconds"] / 60, 2)
            point = (line["epoch"], minutes, line["valid_mrr"], line["valid_hits@10"])
            curve.append(tuple(round(x, 4) for x in point))  # type: ignore[arg-type]
            print(graph.name, *given.settings, *curve[-1], flush=True)

    trainer.run(watch)
    best = max(curve, key=lambda point: point[2])
    line = {
        "data": graph.name,
        "given": " ".join(given.settings),
        "valid_mrr": best[2],
        "valid_hits@10": best[3],
        "best_epoch": best[0],
        "minutes": curve[-1][1],
        "threads": settings.training.threads,
        **provenance(),
        "settings_values": learned_settings(settings),
        "seed": settings.training.seed,
        "curve": curve,
    }
    with file_lock(given.out.with_name(f".{given.out.name}.lock")), given.out.open("a") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


if __name__ == "__main__":
    main()
