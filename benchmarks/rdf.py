"""Measure time and memory of loading N-Triples, compared with bare parsing by pyoxigraph.

Each measurement runs in its own process, in turns; numbers are medians, and ratios medians over the
rounds. On a busy machine CPU time means more than wall time. pyoxigraph only parses. fivestar also
assigns ids, removes duplicate facts, separates labels and types, and checks for suspicious data.

    python benchmarks/rdf.py --triples 300000 --rounds 7
    python benchmarks/rdf.py --triples 1000000 --rounds 1
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

import numpy as np

BASE = "http://example.org"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


def write_iris(path: Path, triples: int) -> None:
    """Write facts between entities only."""
    _write(path, triples, literals="none")


def write_mixed(path: Path, triples: int) -> None:
    """Write a file in which a third of the statements are labels and numbers, as in dumps."""
    _write(path, triples, literals="a third")


def _write(path: Path, triples: int, literals: str) -> None:
    rng = np.random.default_rng(0)
    entities = max(10, triples // 5)
    heads, tails = (
        rng.zipf(1.3, (2, triples)) + rng.integers(0, entities, (2, triples))
    ) % entities
    relations = rng.integers(0, 200, triples)
    with path.open("w") as file:
        for number, (head, relation, tail) in enumerate(zip(heads, relations, tails, strict=True)):
            subject = f"<{BASE}/resource/entity_{head}>"
            if literals == "none" or number % 3:
                file.write(
                    f"{subject} <{BASE}/ontology/relation_{relation}> "
                    f"<{BASE}/resource/entity_{tail}> .\n"
                )
            elif number % 2:
                file.write(f'{subject} {LABEL} "Entity number {head}"@en .\n')
            else:
                number_type = "<http://www.w3.org/2001/XMLSchema#integer>"
                file.write(f'{subject} <{BASE}/ontology/size> "{tail}"^^{number_type} .\n')


def with_pyoxigraph() -> Callable[[str], int]:
    """Parse only."""
    import pyoxigraph

    def read(path: str) -> int:
        return sum(1 for _ in pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.N_TRIPLES))

    return read


def with_fivestar() -> Callable[[str], int]:
    """Load the whole graph."""
    import pyoxigraph  # noqa: F401  (imported in both cases)

    import fivestar.graph.reading

    def read(path: str) -> int:
        return fivestar.graph.reading.read_graph(path).report.splits["train"].lines

    return read


def with_conversion() -> Callable[[str], int]:
    """Convert from file to file, without a graph in memory."""
    import pyoxigraph  # noqa: F401

    import fivestar.graph.file_conversion

    def convert(path: str) -> int:
        out = Path(path).with_suffix(".parquet")
        fivestar.graph.file_conversion.convert_graph(path, out, existing="replace")
        return 0

    return convert


IMPLEMENTATIONS = {
    "pyoxigraph, bare": with_pyoxigraph,
    "read_graph": with_fivestar,
    "convert to Parquet": with_conversion,
}
FILES = {"IRIs only": write_iris, "a third literals": write_mixed}


def measure(name: str, path: str) -> None:
    """Load once in this process, and print seconds and peak memory."""
    read = IMPLEMENTATIONS[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, begun = time.perf_counter(), time.process_time()
    read(path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "before": before, "peak": peak}))


def compare(triples: int, rounds: int) -> None:
    """Measure all implementations in turns on each file and print a table of medians."""
    titles = ("file", "by", "seconds", "× bare", "CPU seconds", "× bare", "MB before", "peak MB")
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    for kind, write in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.nt"
            write(path, triples)
            results: dict[str, list[dict[str, float]]] = {name: [] for name in IMPLEMENTATIONS}
            for _ in range(rounds):
                for name in IMPLEMENTATIONS:
                    command = [sys.executable, __file__, "--measure", name, str(path)]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    results[name].append(json.loads(done.stdout))
            bare = results["pyoxigraph, bare"]
            for name, runs in results.items():
                seconds, cpu, before, peak = (
                    statistics.median(run[key] for run in runs) for key in runs[0]
                )
                ratio, cpu_ratio = (
                    statistics.median(a[key] / b[key] for a, b in zip(runs, bare, strict=True))
                    for key in ("seconds", "cpu")
                )
                print(
                    f"| {kind}, {path.stat().st_size / 1e6:.0f} MB | {name} | {seconds:.2f} | "
                    f"{ratio:.2f} | {cpu:.2f} | {cpu_ratio:.2f} | {before:.0f} | {peak:.0f} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*arguments.measure)
    else:
        compare(arguments.triples, arguments.rounds)
