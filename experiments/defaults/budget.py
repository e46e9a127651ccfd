"""Train within a time budget on every graph and record what it found.

    python experiments/defaults/budget.py --budgets 5m 15m --graphs umls wn18rr

Each finished training is one line of results/budget.jsonl; recorded ones are skipped. Only
validation is used; test is never ranked. One thread.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import fivestar
from fivestar.experiments.records import append_record, read_records

RESULTS = Path(__file__).parents[2] / "results" / "budget.jsonl"
GRAPHS = [
    *("nations", "kinships", "umls", "demo"),
    *("nell-995-h100", "nell-995-h75", "nell-995-h50", "nell-995-h25"),
    *("wn18rr", "wn18", "wd50k", "fb15k-237", "fb15k"),
]


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budgets", nargs="+", default=["5m", "15m"])
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    done = {(line["data"], line["budget"]) for line in read_records(RESULTS)}
    for budget in given.budgets:
        for name in given.graphs:
            if (name, budget) in done:
                continue
            graph = fivestar.read_graph(name)
            wall, cpu = time.monotonic(), time.process_time()
            model = fivestar.train(graph, budget=budget, threads=1)
            line = {
                "data": name,
                "budget": budget,
                "valid_mrr": round(model.metrics["valid"]["mrr"], 4),
                **model.metrics["budget"],
                "wall_seconds": round(time.monotonic() - wall, 1),
                "cpu_seconds": round(time.process_time() - cpu, 1),
                "epochs": model.metrics["epochs"],
                "seed": model.settings.training.seed,
            }
            append_record(RESULTS, line)
            print(name, budget, line["valid_mrr"], line["wall_seconds"], flush=True)


if __name__ == "__main__":
    main()
