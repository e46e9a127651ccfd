"""Measure the latency of queries (cold and warm), of explanations, and of completing a graph.

Completion is compared with its bare matrix products, alternating in one run: the same queries and
tiles, without using the scores.

    python benchmarks/answers.py RUN [--relations 3] [--all]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import fivestar
from fivestar.models.similarity import TILE
from fivestar.prediction.completion import NO_TRIPLES, Completer, Goal
from fivestar.prediction.completion_file import complete

ROWS = 512


@torch.no_grad()
def bare_products(trained: fivestar.TrainedModel, relation: int) -> None:
    """Compute the scores of the tail and head query of every entity, and nothing else."""
    model, count = trained.model, len(trained.graph.relations)
    table = model.candidates().detach()
    for each in (relation, relation + count):
        for first in range(0, len(table), ROWS):
            rows = torch.arange(first, min(first + ROWS, len(table)))
            query = model.query(rows, torch.full_like(rows, each))
            for start in range(0, len(table), TILE):
                torch.mm(query, table[start : start + TILE].T)


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_queries(folder: Path, trained: fivestar.TrainedModel, rng: np.random.Generator) -> None:
    """Measure single queries and explanations."""
    graph = trained.graph
    some = graph.test.array[rng.permutation(len(graph.test))[:100]]
    named = [
        (graph.entities.name_of(h), graph.relations.name_of(r), graph.entities.name_of(t))
        for h, r, t in some.tolist()
    ]
    h, r, _ = named[0]
    code = "from fivestar.cli.main import main; main()"
    command = [sys.executable, "-c", code, "ask", str(folder), h, r, "_"]
    cold = [
        seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)
    ]
    trained.predict([("_", named[0][1], named[0][2])])
    warm = [seconds(lambda q=(h, r, "_"): trained.predict([q])) for h, r, _ in named]
    print(f"ask, cold (the whole process): median {statistics.median(cold):.2f} s of 5")
    print(f"ask, warm: median {1e3 * statistics.median(warm):.1f} ms of {len(warm)}")
    first = seconds(lambda: trained.explain(*named[0]))
    times = [seconds(lambda q=q: trained.explain(*q)) for q in named[:20]]
    print(
        f"explain: first {first:.2f} s, then median {statistics.median(times):.2f} s, "
        f"at most {max(times):.2f} s of {len(times)}"
    )


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--relations", type=int, default=3, help="compared with bare products")
    parser.add_argument("--all", action="store_true", help="complete the whole graph as well")
    given = parser.parse_args()
    trained = fivestar.load(given.run)
    graph = trained.graph
    print(f"{graph}, d={trained.settings.model.dim}")
    measure_queries(given.run, trained, np.random.default_rng(0))
    goal = Goal(top=1000, slots="all")
    completer = Completer(trained, goal)
    ours, bare = [], []
    for number in range(min(given.relations, len(graph.relations))):
        bare.append(seconds(lambda n=number: bare_products(trained, n)))
        ours.append(
            seconds(lambda n=number: completer.complete_relation(n, NO_TRIPLES, lambda _: None))
        )
        print(f"relation {number}: {ours[-1]:.1f} s, bare products {bare[-1]:.1f} s", flush=True)
    ratio = statistics.median(o / b for o, b in zip(ours, bare, strict=True))
    print(f"completion: median {ratio:.2f} × its bare products")
    if given.all:
        for slots in ("all", "seen"):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            took = seconds(lambda s=slots: complete(trained, Goal(top=1000, slots=s)))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bound = statistics.median(bare) * len(graph.relations)
            print(
                f"whole graph, slots {slots}: {took:.0f} s"
                + (f" (bare products of all: {bound:.0f} s)" if slots == "all" else "")
                + f"; peak {peak / 1024:.0f} MB, {before / 1024:.0f} MB before",
                flush=True,
            )


if __name__ == "__main__":
    main()
