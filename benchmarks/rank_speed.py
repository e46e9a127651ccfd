"""Measure the speed of ranking a test set, compared with PyKEEN and the bare matrix product.

Both rank the same triples, both sides, filtered by all known facts, on a ComplEx of the same size
(the values of the weights do not affect the time). Each measurement runs in its own process, in
turns; numbers are medians. `peak` is the resident memory that ranking added to a process that had
imported everything and built the model. `limit` is the bare product of all distinct queries with
all entities, one call per 1,000 queries.

    FIVESTAR_DATA=... python benchmarks/rank_speed.py wn18rr fb15k-237
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from peak_memory import peak, reset_peak, resident

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.models.registry import make_model
from fivestar.training.queries import GroupedQueries


def ours(graph: fivestar.KnowledgeGraph, dim: int) -> Callable[[], dict[str, float]]:
    """Rank as `fivestar evaluate` does, without loading the run."""
    model = make_model("complex", len(graph.entities), 2 * len(graph.relations), dim)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return lambda: evaluate(model, graph, graph.test).metrics()


def pykeen(graph: fivestar.KnowledgeGraph, dim: int) -> Callable[[], dict[str, float]]:
    """Rank with PyKEEN's evaluator, filtered by all splits, with its automatic batch size."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import ComplEx
    from pykeen.triples import CoreTriplesFactory

    factories = [
        CoreTriplesFactory(
            torch.as_tensor(triples.array.astype(np.int64)),
            num_entities=len(graph.entities),
            num_relations=len(graph.relations),
            create_inverse_triples=number == 0,
        )
        for number, triples in enumerate((graph.train, graph.valid, graph.test))
    ]
    model = ComplEx(triples_factory=factories[0], embedding_dim=dim, random_seed=0)
    train, valid, test = (factory.mapped_triples for factory in factories)

    def rank() -> dict[str, float]:
        found = RankBasedEvaluator(filtered=True).evaluate(
            model, test, additional_filter_triples=[train, valid], use_tqdm=False
        )
        return {"mrr": found.get_metric("both.realistic.inverse_harmonic_mean_rank")}

    return rank


def limit(graph: fivestar.KnowledgeGraph, dim: int) -> Callable[[], dict[str, float]]:
    """Compute the scores of all distinct queries, and nothing else."""
    queries = len(GroupedQueries.of(graph.test, len(graph.relations)))
    table, query = torch.randn(len(graph.entities), 2 * dim), torch.randn(queries, 2 * dim)

    def rank() -> dict[str, float]:
        for first in range(0, queries, 1000):
            torch.mm(query[first : first + 1000], table.T)
        return {"mrr": float("nan")}

    return rank


IMPLEMENTATIONS = {"fivestar": ours, "pykeen": pykeen, "limit": limit}


def measure(name: str, implementation: str, dim: int) -> dict[str, float]:
    """Return seconds and peak memory of one ranking in this process."""
    torch.mm(torch.randn(500, 500), torch.randn(500, 500))  # create threads and buffers
    rank = IMPLEMENTATIONS[implementation](fivestar.read_graph(name), dim)
    reset_peak()
    before, start = resident(), time.perf_counter()
    metrics = rank()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes": (peak() - before) / 1e6, "mrr": metrics["mrr"]}


def compare(name: str, dim: int, rounds: int) -> None:
    """Measure all implementations in turns and print their medians as rows of a table."""
    found: dict[str, list[dict[str, float]]] = {
        implementation: [] for implementation in IMPLEMENTATIONS
    }
    for _ in range(rounds):
        for implementation, measured in found.items():
            command = [sys.executable, __file__, name, "--dim", str(dim), "--one", implementation]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured.append(json.loads(done.stdout.splitlines()[-1]))
    mine = [one["seconds"] for one in found["fivestar"]]
    for implementation, measured in found.items():
        seconds = [one["seconds"] for one in measured]
        ratio = statistics.median(b / a for a, b in zip(mine, seconds, strict=True))
        most = statistics.median(one["megabytes"] for one in measured)
        print(
            f"| {name} d={dim} | {implementation} | {statistics.median(seconds):.2f} | {ratio:.2f} "
            f"| {most:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["wn18rr", "fb15k-237"])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=IMPLEMENTATIONS, help="measure this one, here, once")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.graphs[0], arguments.one, arguments.dim)))
    else:
        print("| case | ranking | seconds (median) | × fivestar (median) | peak MB |")
        print("|---|---|---|---|---|")
        for graph_name in arguments.graphs:
            compare(graph_name, arguments.dim, arguments.rounds)
