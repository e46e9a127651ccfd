"""When a graph grows: warm start from the run on the smaller graph, or train from scratch?

    FIVESTAR_DATA=... python experiments/warm_start/growing.py nell-995-h100

A tenth of the entities is withheld with all their facts, and a 5★E is trained on the rest. Then the
entities are added, and a second model is trained on all facts with the same settings, warm-started
from that run or from scratch. Validation only: the MRR after each epoch, and finally that of the
triples with a new entity and of the others. Writes results/growing.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.ledger import provenance

OUT = Path(__file__).parents[2] / "results" / "growing.json"


def without(graph: fivestar.KnowledgeGraph, new: set[str]) -> fivestar.KnowledgeGraph:
    """Return the graph without some entities and their facts."""
    splits = {}
    for name in ("train", "valid"):
        table = graph.named(graph.split(name))
        rows = zip(*(table[column].to_pylist() for column in table.column_names), strict=True)
        splits[name] = [row for row in rows if row[0] not in new and row[2] not in new]
    return fivestar.read_graph(splits)


def summarize(run: fivestar.TrainedModel, new: set[str]) -> dict[str, Any]:
    """Return the validation curve, and the MRR of triples with and without a new entity."""
    graph = run.graph
    ids = graph.entities.ids_of(sorted(new))
    is_new = np.isin(graph.valid.heads, ids) | np.isin(graph.valid.tails, ids)
    mrr = {
        name: round(evaluate(run.model, graph, graph.valid.take(mask)).metrics()["mrr"], 4)
        for name, mask in (("with a new entity", is_new), ("the others", ~is_new))
    }
    curve = [(round(x["seconds"], 1), round(x["valid_mrr"], 4)) for x in run.history]
    return {"seconds_and_mrr_by_epoch": curve, "mrr": mrr, "triples": int(is_new.sum())}


def main() -> None:
    """Train on the smaller graph, then on the whole graph in both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="nell-995-h100")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    graph = fivestar.read_graph(arguments.graph)
    names = sorted(graph.entities)
    order = np.random.default_rng(arguments.seed).permutation(len(names))
    new = {names[index] for index in order[: len(names) // 10]}

    def settings(epochs: int) -> dict[str, Any]:
        model = {"dim": arguments.dim, "pairing": "bilinear"}
        training = {
            "epochs": epochs,
            "evaluate_every": 1,
            "seed": arguments.seed,
            "threads": arguments.threads,
        }
        return {"defaults": 1, "model": model, "training": training}

    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first"
        before = fivestar.train(without(graph, new), settings(arguments.epochs), first)
        warm = fivestar.train(graph, settings(arguments.epochs // 2), warm_start=first)
    scratch = fivestar.train(graph, settings(arguments.epochs))
    results = {
        "settings": vars(arguments),
        "provenance": provenance(),
        "withheld": len(new),
        "facts_before": len(before.graph.train),
        "facts_after": len(graph.train),
        "from the smaller run": summarize(warm, new),
        "from nothing": summarize(scratch, new),
    }
    OUT.write_text(json.dumps(results, indent=1))
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
