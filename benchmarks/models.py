"""Measure speed and memory of a training step of each model, relative to ComplEx.

Each model is trained with softmax over all entities (1-N) and with 64 negatives, alternating
with ComplEx at the same dimension, in its own process; medians of per-window ratios. `peak` is the
resident memory that training added to a process that had imported torch and loaded the graph.

    FIVESTAR_DATA=... python benchmarks/models.py nell-995-h100 --dim 100
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import torch
from peak_memory import peak, reset_peak, resident

import fivestar
from fivestar.models.registry import MODELS, make_model
from fivestar.plugins import REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.training.negative_sampling import NegativeLoss, NegativeStep
from fivestar.training.negatives import NegativeSampler
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.resources import part_sizes
from fivestar.training.step import CandidateStep, Loss, Step

CPU = torch.device("cpu")


def steps(graph: fivestar.KnowledgeGraph, name: str, dim: int, objective: str) -> Iterator[int]:
    """Yield the number of triples of each step."""
    relations, entities = len(graph.relations), len(graph.entities)
    generator = torch.Generator().manual_seed(0)
    model = make_model(name, entities, 2 * relations, dim)
    model.reset_parameters(generator)
    queries = GroupedQueries.of(graph.train, relations)
    optimizer = Optimizer(model, TrainingSettings(optimizer="adagrad", lr=0.01))
    step: Step
    if objective == "softmax":
        step = CandidateStep(model, Loss(REGULARIZERS["n3"], 0.01), max_rows=500)
    else:
        loss = NegativeLoss("negative-sampling", 6.0, 1.0)
        training = TrainingSettings(objective="negative-sampling", num_negatives=64)
        max_triples = part_sizes(model, len(graph.facts), training).pairs
        step = NegativeStep(model, loss, NegativeSampler(64, entities), max_triples=max_triples)
    while True:
        for batch in queries.batches(500, generator, CPU):
            step.gradients(batch)
            optimizer.step(0.0)
            yield len(batch.answers)


def rate(run: Iterator[int], seconds: float) -> float:
    """Return triples per second over at least one step."""
    start, done = time.perf_counter(), 0
    while True:
        done += next(run)
        if time.perf_counter() - start >= seconds:
            return done / (time.perf_counter() - start)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Measure one model and objective, alternating with ComplEx, in this process."""
    graph = fivestar.read_graph(arguments.graph)
    reset_peak()
    before = resident()
    mine = steps(graph, arguments.one, arguments.dim, arguments.objective)
    next(mine)
    most = peak() - before
    rival = steps(graph, "complex", arguments.dim, arguments.objective)
    next(rival)
    rates = [
        (rate(mine, arguments.seconds), rate(rival, arguments.seconds))
        for _ in range(arguments.windows)
    ]
    return {
        "triples_per_second": statistics.median(own for own, _ in rates),
        "of_complex": statistics.median(own / other for own, other in rates),
        "peak_megabytes": most / 1e6,
    }


def main() -> None:
    """Print a row per model and objective."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="nell-995-h100")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--one", choices=sorted(MODELS), help="measure this one, here")
    parser.add_argument("--objective", choices=["softmax", "negative-sampling"])
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments)))
        return
    print("| model | objective | triples/s | × ComplEx | peak MB |\n|---|---|---|---|---|")
    objectives = [arguments.objective] if arguments.objective else ["softmax", "negative-sampling"]
    for objective in objectives:
        for name in sorted(MODELS):
            options = [*sys.argv[1:], "--one", name, "--objective", objective]
            done = subprocess.run(
                [sys.executable, __file__, *options], check=True, capture_output=True, text=True
            )
            found = json.loads(done.stdout)
            print(
                f"| {name} | {objective} | {found['triples_per_second']:,.0f} "
                f"| {found['of_complex']:.2f} | {found['peak_megabytes']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
