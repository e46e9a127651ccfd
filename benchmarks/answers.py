"""Measure the latency of queries (cold and warm), of explanations, and of completing a graph.

All times are CPU seconds of one thread, so that other jobs change them little. Completion is
compared with its bare matrix products, alternating in one run: the same queries and tiles, without
using the scores. With --record, the line is added to results/answers.jsonl, which is in
docs/answers.md.

    python benchmarks/answers.py RUN [--relations 3] [--many 100000] [--all] [--record]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fivestar
from fivestar.experiments.records import append_record
from fivestar.models.similarity import TILE
from fivestar.prediction.completion import NO_TRIPLES, Completer, Goal
from fivestar.prediction.completion_file import complete

RESULTS = Path(__file__).parents[1] / "results" / "answers.jsonl"
ROWS = 512
_ASK = "from fivestar.cli.main import main; main()"


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
    """Return the CPU seconds that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def seconds_of_process(*arguments: str) -> float:
    """Return the CPU seconds of a new Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_queries(folder: Path, trained: fivestar.TrainedModel, many: int) -> dict[str, Any]:
    """Measure single queries, a file of many queries, and explanations."""
    graph, rng = trained.graph, np.random.default_rng(0)
    some = graph.test.array[rng.permutation(len(graph.test))[:100]]
    named = [
        (graph.entities.name_of(h), graph.relations.name_of(r), graph.entities.name_of(t))
        for h, r, t in some.tolist()
    ]
    h, r, _ = named[0]
    cold = [seconds_of_process("-c", _ASK, "ask", str(folder), h, r, "_") for _ in range(5)]
    torch_alone = [seconds_of_process("-c", "import torch") for _ in range(5)]
    with tempfile.TemporaryDirectory() as empty:
        file = Path(empty, "queries.tsv")
        lines = (f"{h}\t{r}\t_\n" for h, r, _ in named * (many // len(named)))
        file.write_text("".join(lines), encoding="utf-8")
        ask = ("ask", str(folder), "--queries", str(file), "--json")
        in_file = seconds_of_process("-c", _ASK, *ask) if many else None
    trained.predict([("_", named[0][1], named[0][2])])
    warm = [seconds(lambda q=(h, r, "_"): trained.predict([q])) for h, r, _ in named]
    trained.explain(*named[0])
    times = [seconds(lambda q=q: trained.explain(*q)) for q in named[:20]]
    return {
        "cold_seconds": statistics.median(cold),
        "import_torch_seconds": statistics.median(torch_alone),
        "queries_in_file": many,
        "file_seconds": in_file,
        "query_seconds": statistics.median(warm),
        "explain_seconds": [statistics.median(times), max(times)],
    }


def measure_completion(trained: fivestar.TrainedModel, relations: int) -> dict[str, Any]:
    """Compare the completion of some relations with its bare products."""
    completer = Completer(trained, Goal(top=1000, slots="all"))
    ours, bare = [], []
    for number in range(min(relations, len(trained.graph.relations))):
        bare.append(seconds(lambda n=number: bare_products(trained, n)))
        ours.append(
            seconds(lambda n=number: completer.complete_relation(n, NO_TRIPLES, lambda _: None))
        )
    return {
        "completion_to_bare_products": statistics.median(map(float.__truediv__, ours, bare)),
        "bare_products_seconds": statistics.median(bare) * len(trained.graph.relations),
    }


def measure_graph(trained: fivestar.TrainedModel) -> dict[str, Any]:
    """Complete the whole graph, in the slots that occur in train."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = seconds(lambda: complete(trained, Goal(top=1000)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = {"peak_bytes_before": 1024 * before, "peak_bytes": 1024 * peak}
    return {"complete_seconds": took} | memory


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--relations", type=int, default=3, help="compared with bare products")
    parser.add_argument("--many", type=int, default=0, help="queries in a file")
    parser.add_argument("--all", action="store_true", help="complete the whole graph as well")
    parser.add_argument("--record", action="store_true", help="add the line to results/")
    given = parser.parse_args()
    torch.set_num_threads(1)
    trained = fivestar.load(given.run)
    line: dict[str, Any] = {"data": trained.graph.name, "model": trained.settings.model.name}
    line |= {"dim": trained.settings.model.dim, "entities": len(trained.graph.entities)}
    line |= measure_queries(given.run, trained, given.many)
    line |= measure_completion(trained, given.relations)
    if given.all:
        line |= measure_graph(trained)
    if given.record:
        append_record(RESULTS, line)
    print(json.dumps(line, indent=1))


if __name__ == "__main__":
    main()
