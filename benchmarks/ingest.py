"""Measure time and memory of loading a large file of triples, compared with other libraries.

Each measurement runs in its own process, in turns; numbers are medians. The others only assign ids.
fivestar also validates every line, removes duplicate facts and checks for suspicious data.

    python benchmarks/ingest.py --lines 5000000 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ENTITIES, RELATIONS = 500_000, 200
COLUMNS = ["head", "relation", "tail"]


def write_graph(path: Path, lines: int) -> None:
    """Write a file with a few frequent and many rare entities, as in knowledge graphs."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(1, ENTITIES + 1) ** 0.7
    number_of = rng.permutation(ENTITIES)
    heads, tails = (
        number_of[rng.choice(ENTITIES, lines, p=weight / weight.sum())] for _ in range(2)
    )
    heads[: min(ENTITIES, lines)] = np.arange(min(ENTITIES, lines))  # every entity occurs
    relations = rng.integers(0, RELATIONS, lines)
    entity = np.array([f"/m/{i:07x}_entity" for i in range(ENTITIES)])
    relation = np.array([f"/domain/type_{i}/property" for i in range(RELATIONS)])
    with path.open("w") as file:
        for start in range(0, lines, 100_000):
            some = slice(start, start + 100_000)
            rows = zip(
                entity[heads[some]], relation[relations[some]], entity[tails[some]], strict=True
            )
            file.write("\n".join(map("\t".join, rows)) + "\n")


def with_fivestar() -> Callable[[str], int]:
    """Load with fivestar."""
    from fivestar import read_graph

    return lambda path: len(read_graph(path).entities)


def with_pandas() -> Callable[[str], int]:
    """Load with the pyarrow engine of pandas, then factorize."""
    import pandas as pd

    def read(path: str) -> int:
        frame = pd.read_csv(path, sep="\t", header=None, names=COLUMNS, engine="pyarrow")
        both = pd.concat([frame["head"], frame["tail"]], ignore_index=True)
        _, names = pd.factorize(both)
        pd.factorize(frame["relation"])
        return len(names)

    return read


def with_polars() -> Callable[[str], int]:
    """Load categorical columns; the order of the categories varies between runs."""
    import polars as pl

    def read(path: str) -> int:
        frame = pl.read_csv(path, separator="\t", has_header=False, new_columns=COLUMNS)
        both = pl.concat([frame["head"], frame["tail"]]).cast(pl.Categorical)
        frame["relation"].cast(pl.Categorical).to_physical()
        return int(both.to_physical().n_unique())

    return read


def with_pyarrow() -> Callable[[str], int]:
    """Load dictionary columns and unify them."""
    import pyarrow as pa
    from pyarrow import csv

    def read(path: str) -> int:
        kind = pa.dictionary(pa.int32(), pa.string())
        table = csv.read_csv(
            path,
            csv.ReadOptions(column_names=COLUMNS, block_size=16 << 20),
            csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, kind)),
        )
        chunks = table["head"].chunks + table["tail"].chunks
        names = pa.chunked_array(chunks).unify_dictionaries()
        table["relation"].unify_dictionaries()
        return len(names.chunk(0).dictionary)

    return read


def with_dict() -> Callable[[str], int]:
    """Load with a loop over the lines and two dicts."""
    from array import array

    def read(path: str) -> int:
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        ids = array("i")
        with Path(path).open(encoding="utf-8") as file:
            for line in file:
                head, relation, tail = line.rstrip("\n").split("\t")
                ids.append(entities.setdefault(head, len(entities)))
                ids.append(relations.setdefault(relation, len(relations)))
                ids.append(entities.setdefault(tail, len(entities)))
        return len(entities)

    return read


IMPLEMENTATIONS = {
    "fivestar": with_fivestar,
    "pandas + factorize": with_pandas,
    "polars categorical": with_polars,
    "pyarrow dictionaries": with_pyarrow,
    "plain dict": with_dict,
}


def measure(name: str, path: str) -> None:
    """Load once in this process, and print seconds and peak memory."""
    read = IMPLEMENTATIONS[name]()
    start = time.perf_counter()
    entities = read(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak": peak, "entities": entities}))


def compare(lines: int, rounds: int) -> None:
    """Measure all readers in turns and print a table of medians."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in IMPLEMENTATIONS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tsv"
        write_graph(path, lines)
        size = path.stat().st_size / 1e6
        print(f"{lines:,} lines, {size:.0f} MB, {os.cpu_count()} cores, {rounds} rounds\n")
        for _ in range(rounds):
            for name in IMPLEMENTATIONS:
                command = [sys.executable, __file__, "--measure", name, str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                results[name].append(json.loads(done.stdout))
    base = results["pandas + factorize"]
    print("| reader | seconds (median) | × pandas (median of rounds) | peak MB | × pandas |")
    print("|---|---|---|---|---|")
    for name, runs in results.items():
        ratio = statistics.median(
            a["seconds"] / b["seconds"] for a, b in zip(runs, base, strict=True)
        )
        seconds = statistics.median(run["seconds"] for run in runs)
        peak = statistics.median(run["peak"] for run in runs)
        base_peak = statistics.median(run["peak"] for run in base)
        print(f"| {name} | {seconds:.2f} | {ratio:.2f} | {peak:.0f} | {peak / base_peak:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*arguments.measure)
    else:
        compare(arguments.lines, arguments.rounds)
