"""Measure what weights of facts are worth: a graph with false training facts and noisy confidences.

30 % of the training facts get another head or tail, so that they are false. Every fact has a
confidence: Beta(4, 2) for a true one (mean 2/3), Beta(2, 4) for a false one (mean 1/3), so the two
overlap. Five trainings, each with the defaults: all facts alike, each fact with its confidence as
its weight, or with the square of it, only the facts of a confidence of at least 1/2, and only the
true ones, which nobody could know. All are ranked on the validation facts of the original graph,
known answers being those of the original graph.

python experiments/facts/weighted.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.records import append_record
from fivestar.graph.triples import Triples
from fivestar.runs.settings import make_settings
from fivestar.training.train import train

GRAPHS = ("demo", "nations", "kinships", "umls")
SHARE = 0.3
TRUE, FALSE = (4.0, 2.0), (2.0, 4.0)
OUT = Path(__file__).parents[2] / "results" / "weighted_facts.jsonl"


def corrupted(
    graph: fivestar.KnowledgeGraph, rng: np.random.Generator
) -> tuple[Triples, npt.NDArray[np.bool_]]:
    """Return the training facts with confidences as weights, and a mask of the false ones."""
    rows, known = graph.train.array.copy(), set(map(tuple, graph.facts.array.tolist()))
    is_false = np.zeros(len(rows), bool)
    is_false[rng.permutation(len(rows))[: round(SHARE * len(rows))]] = True
    for row in np.flatnonzero(is_false):
        fact = tuple(rows[row].tolist())
        while fact in known:
            changed = list(fact)
            changed[rng.choice([0, 2])] = int(rng.integers(len(graph.entities)))
            fact = tuple(changed)
        known.add(fact)
        rows[row] = fact
    weights = np.where(is_false, rng.beta(*FALSE, len(rows)), rng.beta(*TRUE, len(rows)))
    return Triples.of(rows).with_weights(weights), is_false


def arms(facts: Triples, is_false: npt.NDArray[np.bool_]) -> Iterator[tuple[str, Triples]]:
    """Yield the training facts of each arm."""
    plain = facts.with_weights(None)
    yield "all facts alike", plain
    yield "weighted by confidence", facts
    yield "weighted by squared confidence", facts.with_weights(facts.weights_or_ones**2)
    yield "confidence at least 1/2", plain.take(facts.weights_or_ones >= 0.5)
    yield "only true facts", plain.take(~is_false)


def main() -> None:
    """Train all arms on all graphs and append a record of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--arms", nargs="+", help="only these (default: all)")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    for name in options.graphs:
        graph = fivestar.read_graph(None if name == "demo" else name)
        for seed in range(options.seeds):
            facts, is_false = corrupted(graph, np.random.default_rng(seed))
            for arm, triples in arms(facts, is_false):
                if options.arms and arm not in options.arms:
                    continue
                began = time.process_time()
                run = train(
                    replace(graph, train=triples), make_settings({"training": {"seed": seed}})
                )
                seconds = time.process_time() - began
                metrics = evaluate(run.model, graph, graph.valid).metrics()
                record = {
                    "graph": name,
                    "arm": arm,
                    "seed": seed,
                    "train_facts": len(triples),
                    "false_facts": int(is_false.sum()) if len(triples) == len(facts) else None,
                    "epochs": run.metrics["epochs"],
                    "best_epoch": run.metrics["best_epoch"],
                    "cpu_seconds": round(seconds, 2),
                    "valid_mrr": round(metrics["mrr"], 4),
                    "valid_hits@10": round(metrics["hits@10"], 4),
                }
                append_record(options.out, record)
                print(name, arm, seed, record["valid_mrr"], record["cpu_seconds"], flush=True)


if __name__ == "__main__":
    main()
