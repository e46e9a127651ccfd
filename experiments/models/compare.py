"""Every model on one graph under one protocol: candidates for equal time, validation chooses.

Each candidate of candidates.toml trains for the same time. The one with the best validation MRR is
ranked on test, once: a line of results/ledger.jsonl, and its settings in experiments/models/GRAPH.
What is already there is not done again, so this can be stopped and started at will.

    FIVESTAR_DATA=... python experiments/models/compare.py umls --dim 50 --minutes 0.4
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import torch

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.models.registry import MODELS
from fivestar.runs.settings import Settings

HERE = Path(__file__).parent
LEDGER = HERE.parent.parent / "results" / "ledger.jsonl"
KEPT = ("mrr", "hits@1", "hits@3", "hits@10")


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
        print(f"{graph.name} {model} {name}: {_figures(runs[name].metrics['valid'])}", flush=True)
    name, run = max(runs.items(), key=lambda item: item[1].metrics["valid"]["mrr"])
    test = evaluate(run.model, graph, graph.test).figures()
    settings = run.settings.as_toml()
    line = {
        "experiment": f"models/{graph.name}/{model}",
        "model": model,
        "data": graph.name,
        "dim": arguments.dim,
        "recipe": name,
        "settings": hashlib.sha256(settings.encode()).hexdigest()[:16],
        "seed": arguments.seed,
        "epochs": run.metrics["epochs"],
        "best_epoch": run.metrics["best_epoch"],
        "minutes": round(run.metrics["seconds"] / 60, 2),
        "machine": f"{os.cpu_count()} cores, {arguments.threads or os.cpu_count()} used, "
        f"torch {torch.__version__}",
        "commit": _commit(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "valid": _figures(run.metrics["valid"]),
        "test": _figures(test) | {"mrr_95": [round(bound, 4) for bound in test["mrr_95"]]},
        "valid_mrr_of_all": {n: round(r.metrics["valid"]["mrr"], 4) for n, r in runs.items()},
        **({"failed": diverged} if diverged else {}),
    }
    folder = HERE / graph.name
    folder.mkdir(exist_ok=True)
    (folder / f"{model}.toml").write_text(f"# Candidate {name!r} of compare.py.\n{settings}")
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(line, ensure_ascii=False) + "\n")


def _figures(metrics: dict[str, Any]) -> dict[str, float]:
    return {key: round(metrics[key], 4) for key in KEPT}


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


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
    done = {json.loads(line)["experiment"] for line in LEDGER.read_text().splitlines()}
    for model in arguments.models.split(","):
        if f"models/{graph.name}/{model}" not in done:
            compare(graph, model, arguments)


if __name__ == "__main__":
    main()
