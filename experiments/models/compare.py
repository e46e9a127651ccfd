"""Compare all models on a graph: candidate settings in equal time, the best by validation.

Each candidate of candidates.toml is trained for the same time. The one with the best validation MRR
is evaluated on test, once: a line of results/ledger.jsonl. Models that are in the ledger are
skipped, so the script can be stopped and started again at any time.

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
LEDGER = HERE.parents[1] / "results" / "ledger.jsonl"


def candidates(model: str, arguments: argparse.Namespace) -> dict[str, Settings]:
    """Return the candidate settings by name."""
    settings = {}
    names = arguments.candidates
    for name, candidate in tomllib.loads((HERE / "candidates.toml").read_text()).items():
        if model in candidate["models"] and (not names or name in names):
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
                "model": {"name": model, "dim": arguments.dim} | candidate.get("model", {}),
                "training": protocol | candidate.get("training", {}),
            }
            settings[name] = fivestar.make_settings(values)
    return settings


def compare(graph: fivestar.KnowledgeGraph, model: str, arguments: argparse.Namespace) -> None:
    """Train all candidates, choose the best on validation, and record it."""
    runs, diverged = {}, {}
    for name, settings in candidates(model, arguments).items():
        try:
            runs[name] = fivestar.train(graph, settings)
        except fivestar.FivestarError as error:
            diverged[name] = str(error)
            continue
        mrr = runs[name].metrics["valid"]["mrr"]
        print(f"{graph.name} {model} {name}: validation MRR {mrr:.4f}", flush=True)
    name, run = max(runs.items(), key=lambda item: item[1].metrics["valid"]["mrr"])
    more = {
        "recipe": name,
        "valid_mrr_of_all": {n: round(r.metrics["valid"]["mrr"], 4) for n, r in runs.items()},
        **({"failed": diverged} if diverged else {}),
    }
    record(run, LEDGER, f"models/{graph.name}/{model}", more)


def main() -> None:
    """Compare all models, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", help="name or path of a graph; demo is the bundled one")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--evaluate-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--models", default=",".join(sorted(MODELS)))
    parser.add_argument("--candidates", type=lambda text: text.split(","), help="only these")
    arguments = parser.parse_args()
    graph = fivestar.read_graph(arguments.graph)
    done = {entry.experiment for entry in read_ledger(LEDGER)}
    for model in arguments.models.split(","):
        if f"models/{graph.name}/{model}" not in done:
            compare(graph, model, arguments)


if __name__ == "__main__":
    main()
