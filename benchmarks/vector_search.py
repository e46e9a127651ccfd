"""Measure recall and latency of faiss indexes of the exported vectors, for the ten best answers.

Nothing is trained: the vectors are those of a run, the queries its test triples (both sides if
there are reciprocals), one at a time and on one thread. Recall is of the model's own top ten.
`model` is `score_tails` and top-k; `flat` compares with all vectors; `ivf` searches the `nprobe`
nearest of about √N cells. All alternate, query by query; numbers are medians of the CPU time.
Needs extra faiss.

    python benchmarks/vector_search.py my_run --nprobe 1,4,16 [--record]

With --record, the line is added to results/vector_search.jsonl, which is in docs/answers.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

import fivestar
from fivestar.experiments.records import append_record
from fivestar.prediction.vectors import Vectors

RESULTS = Path(__file__).parents[1] / "results" / "vector_search.jsonl"
TOP = 10
Ids = np.ndarray[tuple[int], np.dtype[np.int64]]
Search = Callable[[int], Ids]


def test_queries(run: fivestar.TrainedModel, count: int) -> tuple[Ids, Ids]:
    """Return heads and relations of a fixed sample of distinct test queries (or else train)."""
    triples = run.graph.test if len(run.graph.test) else run.graph.train
    queries = [np.stack([triples.heads, triples.relations], axis=1)]
    if len(run.model.relations) > len(run.graph.relations):
        reciprocal = triples.relations + len(run.graph.relations)
        queries.append(np.stack([triples.tails, reciprocal], axis=1))
    distinct = np.unique(np.concatenate(queries), axis=0).astype(np.int64)
    sample = np.random.default_rng(0).permutation(distinct)[:count]
    return sample[:, 0], sample[:, 1]


def flat_index(vectors: Vectors) -> faiss.Index:
    """Return an exact index."""
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def cell_index(vectors: Vectors) -> faiss.Index:
    """Return an IVF index with about √N cells."""
    cells = max(1, round(len(vectors) ** 0.5))
    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(quantizer, vectors.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # do not warn about small graphs
    index.train(vectors)
    index.add(vectors)
    return index


def build_times(vectors: Vectors, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of building each index."""
    kinds = {"flat": flat_index, "ivf": cell_index}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, build in kinds.items():
            start = time.perf_counter()
            build(vectors)
            times[kind].append(1e3 * (time.perf_counter() - start))
    return {kind: statistics.median(taken) for kind, taken in times.items()}


def searches(
    run: fivestar.TrainedModel, heads: Ids, relations: Ids, nprobes: list[int]
) -> dict[str, Search]:
    """Return each search for query i, which includes computing the query vector."""
    vectors = fivestar.candidate_vectors(run)
    flat, cells = flat_index(vectors), cell_index(vectors)

    def query_vector(i: int) -> Vectors:
        return fivestar.query_vectors(run, heads[i : i + 1], relations[i : i + 1])

    @torch.no_grad()
    def by_model(i: int) -> Ids:
        query = torch.tensor(heads[i : i + 1]), torch.tensor(relations[i : i + 1])
        return run.model.score_tails(*query).topk(TOP).indices[0].numpy()

    def by_cells(nprobe: int) -> Search:
        parameters = faiss.SearchParametersIVF(nprobe=nprobe)
        return lambda i: cells.search(query_vector(i), TOP, params=parameters)[1][0]

    return {
        "model": by_model,
        "query vector alone": lambda i: query_vector(i)[0, :0].astype(np.int64),
        "flat": lambda i: flat.search(query_vector(i), TOP)[1][0],
        **{f"ivf nprobe={n}": by_cells(n) for n in nprobes if n <= cells.nlist},
    }


def compare(
    run: fivestar.TrainedModel, count: int, nprobes: list[int], rounds: int
) -> dict[str, Any]:
    """Run all searches in turns, print a table, and return its line for the results."""
    heads, relations = test_queries(run, count)
    ways = searches(run, heads, relations, nprobes)
    built = build_times(fivestar.candidate_vectors(run), rounds)
    times: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for i in range(len(heads)):
        best = set(ways["model"](i).tolist())
        for way, search in ways.items():
            search(i)  # warm the caches
            start = time.process_time()
            ids = search(i)
            times[way].append(1e6 * (time.process_time() - start))
            found[way].append(len(best & set(ids.tolist())) / len(best))
    print(
        f"{len(run.graph.entities):,} entities, {len(heads):,} queries, {run.settings.model.name}"
    )
    print(f"| search | recall@{TOP} | µs a query (median) | build ms (median) |")
    print("|---|---|---|---|")
    for way in ways:
        recall = "–" if way == "query vector alone" else f"{statistics.mean(found[way]):.4f}"
        build = built.get(way.split()[0])
        shown = "–" if build is None else f"{build:.2f}"
        print(f"| {way} | {recall} | {statistics.median(times[way]):.0f} | {shown} |")
    return {
        "data": run.graph.name,
        "model": run.settings.model.name,
        "dim": run.settings.model.dim,
        "queries": len(heads),
        "cells": round(len(run.graph.entities) ** 0.5),
        "recall": {way: statistics.mean(each) for way, each in found.items()},
        "microseconds": {way: statistics.median(each) for way, each in times.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--nprobe", default="1,4,16", help="with commas")
    parser.add_argument("--rounds", type=int, default=5, help="how often indexes are built")
    parser.add_argument("--record", action="store_true", help="add the line to results/")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    probes = [int(n) for n in arguments.nprobe.split(",")]
    line = compare(fivestar.load(arguments.run), arguments.queries, probes, arguments.rounds)
    if arguments.record:
        append_record(RESULTS, line)
