"""Measure the memory that training takes, compared with its limit.

The working set is the peak resident memory minus that after importing torch and loading the graph.
Training includes a validation, and saving and loading a checkpoint.

    FIVESTAR_DATA=... python benchmarks/working_set.py fb15k-237 --dim 500 --memory 1GiB
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch  # noqa: F401  (not part of the working set)
from peak_memory import peak, reset_peak, resident

import fivestar
from fivestar.runs.units import format_bytes, parse_bytes


def main() -> None:
    """Train, stop, resume, and compare the peak with the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="fb15k-237")
    parser.add_argument("--dim", type=int, default=500)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    graph = fivestar.read_graph(arguments.graph)
    graph.facts  # noqa: B018  (part of loading the graph)
    reset_peak()
    before = resident()
    settings = {
        "model": {"dim": arguments.dim},
        "training": {
            "epochs": arguments.epochs,
            "batch_size": arguments.batch,
            "memory": arguments.memory,
            "evaluate_every": 1,
        },
    }
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        fivestar.train(
            graph,
            settings,
            Path(folder) / "run",
            lambda line: print(line, "working set", format_bytes(peak() - before), flush=True),
        )
        used = peak() - before
        fivestar.resume(Path(folder) / "run")
    minutes = (time.perf_counter() - start) / 60
    used, bound = max(used, peak() - before), parse_bytes(arguments.memory)
    print(
        f"{len(graph.entities):,} entities, d={arguments.dim}, {arguments.epochs} epochs in "
        f"{minutes:.1f} minutes: working set {format_bytes(used)} of {format_bytes(bound)}: "
        f"{'within' if used <= bound else 'ABOVE'} the bound"
    )


if __name__ == "__main__":
    main()
