"""Compare negatives from all entities with typed ones and with known false triples.

Models are trained by negative sampling with the same settings and the same number of steps, which
takes the same time (recorded as the time of the processor), with negatives from all entities, from
those observed on that side of the relation, and, where the graph has types, from entities of the
same types: all of the negatives, or half of them. `own` samples half of the negatives from triples
that are known to be false: here one corruption of each training fact, checked against all facts of
the graph, with an observed head or tail. All are ranked on the validation facts among all entities
(the standard protocol), and among the observed candidates of each relation beside it.

python experiments/facts/typed_negatives.py --models complex
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.records import append_record, read_records
from fivestar.graph.relation_candidates import RelationCandidates
from fivestar.graph.triples import Triples
from fivestar.runs.settings import make_settings
from fivestar.training.train import train

GRAPHS = ("demo", "nations", "kinships", "umls")
MODELS = ("complex", "rotate")
# How much of the negatives comes from which candidates; half of `own` is known to be false.
ARMS: dict[str, dict[str, Any]] = {
    "all": {},
    "observed": {"negative_candidates": "observed", "negative_candidates_share": 1.0},
    "half observed": {"negative_candidates": "observed", "negative_candidates_share": 0.5},
    "types": {"negative_candidates": "types", "negative_candidates_share": 1.0},
    "half types": {"negative_candidates": "types", "negative_candidates_share": 0.5},
    "own": {},
}
TRAINING = {"objective": "negative-sampling", "num_negatives": 32, "epochs": 30, "patience": 0}
TRAINING |= {"evaluate_every": 5, "adversarial_temperature": 1.0}
DIM = 32
# The one with the best validation MRR of "all" is used by all arms.
RATES = (0.03, 0.1, 0.3)
OUT = Path(__file__).parents[2] / "results" / "typed_negatives.jsonl"


def false_triples(graph: fivestar.KnowledgeGraph, seed: int) -> Triples:
    """Return one false triple per training fact: another observed tail or head."""
    rng = np.random.default_rng(seed)
    pools = RelationCandidates.of("observed", graph.train, graph)
    known = set(map(tuple, graph.facts.array.tolist()))
    rows = []
    for h, r, t in graph.train.array.tolist():
        is_head = bool(rng.integers(2))
        pool = np.flatnonzero(pools.mask(r + is_head * len(graph.relations)))
        other = int(rng.choice(pool))
        row = (other, r, t) if is_head else (h, r, other)
        if row not in known:
            rows.append(row)
    return Triples.of(rows).distinct()


def measure(graph: fivestar.KnowledgeGraph, values: dict[str, Any]) -> dict[str, Any]:
    """Train and rank on validation."""
    began = time.process_time()
    run = train(graph, make_settings(values))
    seconds = time.process_time() - began
    metrics = evaluate(run.model, graph, graph.valid, candidates="observed").metrics()
    return {
        "epochs": run.metrics["epochs"],
        "best_epoch": run.metrics["best_epoch"],
        "cpu_seconds": round(seconds, 2),
        "valid_mrr": round(metrics["mrr"], 4),
        "valid_hits@10": round(metrics["hits@10"], 4),
        "valid_mrr_among_observed": round(metrics["among"]["mrr"], 4),
    }


def best_rate(graph: fivestar.KnowledgeGraph, model: str) -> float:
    """Return the learning rate with the best validation MRR, with negatives from all entities."""

    def mrr(rate: float) -> float:
        training = TRAINING | {"lr": rate}
        found = measure(graph, {"model": {"name": model, "dim": DIM}, "training": training})
        return float(found["valid_mrr"])

    return max(RATES, key=mrr)


def recorded_rate(path: Path, graph: str, model: str) -> float | None:
    """Return the learning rate of the other arms, if there are records of them."""
    rates = [
        float(line["lr"])
        for line in read_records(path)
        if (line["graph"], line["model"]) == (graph, model)
    ]
    return rates[-1] if rates else None


def main() -> None:
    """Train all arms on all graphs and append a record of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--arms", nargs="+", help="only these (default: all)")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    for name in options.graphs:
        graph = fivestar.read_graph(None if name == "demo" else name)
        for model in options.models:
            rate = recorded_rate(options.out, name, model) or best_rate(graph, model)
            for seed in range(options.seeds):
                for arm, changes in ARMS.items():
                    if "types" in arm and graph.types is None:
                        continue
                    if options.arms and arm not in options.arms:
                        continue
                    training = TRAINING | {"lr": rate, "seed": seed} | changes
                    chosen = graph
                    if arm == "own":
                        chosen = replace(graph, negatives=false_triples(graph, seed))
                    values = {"model": {"name": model, "dim": DIM}, "training": training}
                    found = measure(chosen, values)
                    line = {"graph": name, "model": model, "negatives": arm, "seed": seed}
                    append_record(options.out, {**line, "lr": rate, **found})
                    print(*line.values(), *found.values(), flush=True)


if __name__ == "__main__":
    main()
