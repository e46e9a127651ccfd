"""Every model on one graph under one protocol: candidates for equal time, validation chooses.

Each candidate of candidates.toml trains for the same time. The one with the best validation MRR is
ranked on test, once: a line of results/ledger.jsonl, and its settings in experiments/models/GRAPH.
What is already there is not done again, so this can be stopped and started at will.

    FIVESTAR_DATA=... python experiments/models/compare.py umls --dim 50 --minutes 0.4
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import fivestar
from fivestar.experiments.ledger import read_ledger, record
from fivestar.models.registry import MODELS
from fivestar.runs.settings import Settings

HERE = Path(__file__).parent
LEDGER = HERE.parent.parent / "results" / "ledger.jsonl"


def candidates(model: str, arguments: argparse.Namespace) -> dict[str, Settings]:
    """The settings to try, by name."""
    found = {}
    for name, recipe in tomllib.loads((HERE / "candidates.toml").read_text()).items():
        if model in recipe["models"] and (not arguments.recipes or name in arguments.recipes):
            protocol = {
                "epochs": 100_000,
                "max_minutes": arguments.minutes,
                "evaluate_every": arguments.evaluate_every,
                "patience": 10,
                "seed": arguments.seed,
                "threads": arguments.threads,
            }
            values = {
                "defaults": 1,
                "model": {"name": model, "dim": arguments.dim} | recipe.get("model", {}),
                "training": protocol | recipe.get("training", {}),
            }
            found[name] = fivestar.make_settings(values)
    return found


def compare(graph: fivestar.KnowledgeGraph, model: str, arguments: argparse.Namespace) -> None:
    """Train all candidates, choose, rank on test, and write it down."""
    runs, diverged = {}, {}
    for name, settings in candidates(model, arguments).items():
        try:
            runs[name] = fivestar.train(graph, settings)
        except fivestar.FivestarError as error:
            diverged[name] = str(error)
            continue
        found = runs[name].metrics["valid"]["mrr"]
        print(f"{graph.name} {model} {name}: validation MRR {found:.4f}", flush=True)
    name, run = max(runs.items(), key=lambda item: item[1].metrics["valid"]["mrr"])
    more = {
        "recipe": name,
        "valid_mrr_of_all": {n: round(r.metrics["valid"]["mrr"], 4) for n, r in runs.items()},
        **({"failed": diverged} if diverged else {}),
    }
    folder = HERE / graph.name
    folder.mkdir(exist_ok=True)
    settings = run.settings.as_toml()
    (folder / f"{model}.toml").write_text(f"# Candidate {name!r} of compare.py.\n{settings}")
    record(run, LEDGER, f"models/{graph.name}/{model}", more)


def main() -> None:
    """All models, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", help="a graph by name or path; demo is the embedded one")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--evaluate-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--models", default=",".join(sorted(MODELS)))
    parser.add_argument("--recipes", type=lambda text: text.split(","), help="only these")
    arguments = parser.parse_args()
    graph = fivestar.read_graph(arguments.graph)
    done = {entry.experiment for entry in read_ledger(LEDGER)}
    for model in arguments.models.split(","):
        if f"models/{graph.name}/{model}" not in done:
            compare(graph, model, arguments)


if __name__ == "__main__":
    main()
