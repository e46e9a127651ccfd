"""Compare MKL with oneDNN for float32 products, in turns: bare, in training and in ranking.

    python benchmarks/products.py fb15k-237 --models fivestar complex mure --record

CPU time of one thread, medians over the rounds, whichever of the two fivestar/models/products.py
chooses on this processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.ledger import provenance
from fivestar.experiments.records import append_record
from fivestar.models import products
from fivestar.training.loop import Trainer
from fivestar.training.validation import sample_triples

RESULTS = Path(__file__).parents[1] / "results" / "products.jsonl"
STEPS, RANKED = 10, 1000
SHAPES = ((500, 960, 200), (500, 960, 1000), (32, 960, 200))


class EnoughSteps(Exception):  # noqa: N818  (no error)
    """Ends a training after some steps."""


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU time of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def in_turns(work: Callable[[], float], rounds: int) -> dict[str, float]:
    """Return the median of what `work` measures, with MKL and with oneDNN."""
    taken: dict[str, list[float]] = {"mkl": [], "onednn": []}
    for _ in range(rounds):
        for name, found in taken.items():
            with patch.object(products, "is_onednn_faster", lambda name=name: name == "onednn"):
                found.append(work())
    return {name: median(found) for name, found in taken.items()}


def bare(rows: int, candidates: int, dim: int) -> float:
    """Return the CPU seconds of a hundred times the three products of a tile."""
    query, table = torch.randn(rows, dim), torch.randn(candidates, dim)
    scores, query_grad, grad = (torch.empty(rows, candidates), query.clone(), table.clone())

    def work() -> None:
        for _ in range(100):
            products.write_product(query, table.T, scores)
            products.add_product(scores, table, query_grad)
            products.add_product(scores.T, query, grad)

    return seconds(work)


def step_seconds(graph: fivestar.KnowledgeGraph, settings: fivestar.Settings) -> float:
    """Return the CPU seconds of a training step, without the first steps."""
    times: list[float] = []

    def on_step(_: float) -> None:
        times.append(time.process_time())
        if len(times) > STEPS + 3:
            raise EnoughSteps

    with suppress(EnoughSteps):
        Trainer(graph, settings).run(lambda _: None, on_step)
    return (times[-1] - times[3]) / (len(times) - 4)


def main() -> None:
    """Measure and print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--models", nargs="+", default=["fivestar"])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    graph = fivestar.read_graph(given.graph)
    lines = [
        {"what": "products", "shape": shape, **in_turns(partial(bare, *shape), given.rounds)}
        for shape in SHAPES
    ]
    for model in given.models:
        training = {"threads": 1, "precision": "float32", "epochs": 2}
        named = {"name": model, "dim": given.dim}
        settings = fivestar.make_settings({"model": named, "training": training}).for_graph(graph)
        about = {"graph": given.graph, "model": model, "dim": given.dim}
        found = in_turns(partial(step_seconds, graph, settings), given.rounds)
        lines.append({"what": "training step", **about, **found})
        trained, sample = Trainer(graph, settings).model, sample_triples(graph.test, 2 * RANKED)
        rank = partial(evaluate, trained, graph, sample)
        found = in_turns(partial(seconds, rank), given.rounds)
        lines.append({"what": f"ranking {RANKED} triples", **about, **found})
    for line in lines:
        ratio = line["mkl"] / line["onednn"]
        print({**line, "ratio": round(ratio, 2)}, flush=True)
        if given.record:
            append_record(RESULTS, {**line, "ratio": round(ratio, 3), **provenance()})


if __name__ == "__main__":
    main()
