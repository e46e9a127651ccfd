"""Predict the time of training from flops, bytes moved and bytes on the wire per step.

A step with sampled candidates takes

    products / product speed + scores / score speed + rows / row speed + wire / wire speed + latency

- products: 3 matrix products of queries (B, D) and candidates (C + A, D) are 6·B·(C + A)·D flops
  for C sampled candidates and A distinct answers. Threads and processes share them.
- scores: 3 passes over B·(C + A) numbers (the power, in place, and the row sums), shared as well.
- rows: passes over the rows that a step touches. `_PASSES` counts them as the code reads and
  writes them. Threads do not share them; processes share those of the candidates.
- wire: all-reduces of the heads (B, W), of the gradients of the queries (B, D) and of two numbers
  per query, 2·(K − 1)/K of them sent by each of K processes, and a latency per all-reduce.

The speeds are constants of a machine, each measured by itself (`--measure`), never fitted to the
trainings that the model is compared with.

    python benchmarks/cost_model.py --measure      # a line of results/machine.jsonl
    python benchmarks/cost_model.py                # compare with results/scale.jsonl, and predict
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scale import ALTERNATIVES, merged, other_cpu_seconds

from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.models.similarity import TILE
from fivestar.training.step import LARGE_TABLE

ROOT = Path(__file__).parents[1]
MACHINES, SCALE = ROOT / "results" / "machine.jsonl", ROOT / "results" / "scale.jsonl"
# Share by which a prediction may be wrong.
TOLERANCE = 0.35
_FLOAT = 4
# Passes over rows, of width W, that a step touches: the gradient is set to 0 (1 pass); candidates
# are gathered (2), their gradients set to 0 (1), added to those of all rows (3); the optimizer
# squares (2), averages (1), divides (2) and adds to the table (3).
_PASSES = {"touched": 1 + 8, "candidates": 6}
# Copies per answer with its penalty (as `training/resources.py` counts them), per query in the
# transformation with its backward pass, and per relation in the optimizer.
_ANSWER_PASSES, _QUERY_PASSES, _RELATION_PASSES = 16, 20, 8
# Of a large table, touched relations and their accumulators are copied to be updated, and back.
_RELATION_COPIES = 8
_COLLECTIVES = 6
# Of a relation of 5★E, for each number of an entity.
_RELATION_WIDTH = 4


class Machine(NamedTuple):
    """The measured speeds of one thread, and of two processes on one machine."""

    flops: float  # of products of a tile of candidates, per second
    flops_of_two: float  # of two threads together
    score_bytes: float  # per second, of powers and sums of a tile
    row_bytes: float  # per second, of rows gathered from and added to a large table
    wire_bytes: float  # per second, that a process sends in an all-reduce
    latency: float  # seconds of an all-reduce of one number


class Step(NamedTuple):
    """The sizes of a training step."""

    queries: int = 500
    triples: float = 600
    candidates: int = 4096
    dim: int = 100
    relations: int = 100


def seconds_per_step(step: Step, machine: Machine, threads: int = 1, processes: int = 1) -> float:
    """Return the predicted seconds of a step.

    Args:
        step: Sizes of the step.
        machine: Speeds.
        threads: Threads of each process, 1 or 2.
        processes: Processes that share the entity table.

    >>> machine = Machine(1e11, 2e11, 1e10, 1e10, 1e9, 1e-4)
    >>> one, two = (seconds_per_step(Step(), machine, 1, k) for k in (1, 2))
    >>> one / 2 < two < one
    True
    """
    width = 2 * step.dim
    candidates = (step.candidates + step.triples) / processes
    touched = candidates + step.queries / processes
    flops = 6 * step.queries * candidates * width
    seconds = flops / (machine.flops if threads == 1 else machine.flops_of_two)
    scores = _FLOAT * 3 * step.queries * candidates
    seconds += scores / machine.score_bytes / threads
    numbers = width * (_PASSES["touched"] * touched + _PASSES["candidates"] * candidates)
    numbers += width * _ANSWER_PASSES * step.triples / processes
    numbers += width * (1 + _RELATION_WIDTH) * _QUERY_PASSES * step.queries
    numbers += width * _RELATION_WIDTH * _relation_rows(step, width * _RELATION_WIDTH)
    seconds += _FLOAT * numbers / machine.row_bytes
    if processes > 1:
        seconds += wire_bytes(step, processes) / machine.wire_bytes
        seconds += _COLLECTIVES * machine.latency
    return seconds


def _relation_rows(step: Step, width: int) -> float:
    """Return the number of rows of relations that are read or written, each pass counted."""
    rows = 2 * step.relations  # a relation has a reciprocal one
    touched = rows * -math.expm1(-step.queries / rows)  # of queries with random relations
    if rows * width < LARGE_TABLE or 2 * touched > rows:
        return _RELATION_PASSES * rows
    return (_RELATION_PASSES + _RELATION_COPIES) * touched


def wire_bytes(step: Step, processes: int) -> float:
    """Return the bytes that each process sends per step, whatever the number of entities."""
    numbers = step.queries * (2 * 2 * step.dim + 2)
    return _FLOAT * numbers * 2 * (processes - 1) / processes


def seconds_per_million(
    step: Step, machine: Machine, threads: int = 1, processes: int = 1
) -> float:
    """Return the predicted seconds per million triples; each counts once per side."""
    return seconds_per_step(step, machine, threads, processes) / step.triples * 1e6


def compared(
    lines: list[dict[str, Any]], machine: Machine
) -> Iterator[tuple[int, str, float, float]]:
    """Yield entities, the way to train, and the predicted and measured seconds per million."""
    for line in lines:
        for name, (threads, processes) in ALTERNATIVES.items():
            if name in line:
                training = line["training"]
                step = Step(
                    training["batch_size"],
                    line[name]["triples_per_step"],
                    training["num_candidates"],
                    line["dim"],
                    line["relations"],
                )
                predicted = seconds_per_million(step, machine, threads, processes)
                yield line["entities"], name, predicted, line[name]["seconds_per_million"]


def comparison(lines: list[dict[str, Any]], machine: Machine) -> str:
    """Return predicted and measured seconds as a table."""
    rows = [["entities", "", "predicted", "measured", "ratio"]]
    for entities, name, predicted, measured in compared(lines, machine):
        numbers = (f"{predicted:.1f}", f"{measured:.1f}", f"{predicted / measured:.2f}")
        rows.append([f"{entities:,}", name, *numbers])
    return markdown_table(rows)


def verdict(lines: list[dict[str, Any]], machine: Machine) -> str:
    """Return a sentence: how many predictions are within the tolerance, and which are not."""
    found = list(compared(lines, machine))
    off = [
        f"{name} with {entities:,} entities ({predicted / measured:.2f} ×)"
        for entities, name, predicted, measured in found
        if abs(predicted / measured - 1) > TOLERANCE
    ]
    share = f"{len(found) - len(off)} of {len(found)}"
    text = f"{share} are predicted within {100 * TOLERANCE:.0f} % (the aim)"
    return f"{text}; not so {', '.join(off)}." if off else f"{text}."


class Graph(NamedTuple):
    """A published graph."""

    name: str
    entities: float
    relations: int
    triples: float


GRAPHS = (
    Graph("Wikidata5M", 4.6e6, 822, 20.6e6),
    Graph("Freebase", 86.1e6, 14_824, 339e6),
)
# Bytes per second of a network of 10 Gbit/s, and the latency of an all-reduce over it: assumed.
_NETWORK_BYTES, _NETWORK_LATENCY = 1.25e9, 2e-4
_PREDICTED_DIM, _PREDICTED_BATCH, _TRIPLES_PER_QUERY = 64, 4096, 1.2
_MACHINES = (1, 2, 4, 8, 16)


def predictions(machine: Machine) -> str:
    """Return the predicted minutes per epoch on machines like this one, with two threads each."""
    networked = machine._replace(wire_bytes=_NETWORK_BYTES, latency=_NETWORK_LATENCY)
    rows = [["graph", "machines", "minutes per epoch", "memory each", "sent per step and machine"]]
    for graph in GRAPHS:
        triples = _PREDICTED_BATCH * _TRIPLES_PER_QUERY
        step = Step(_PREDICTED_BATCH, triples, 4096, _PREDICTED_DIM, graph.relations)
        for count in _MACHINES:
            # Each triple is trained on as a head query and as a tail query.
            million = seconds_per_million(step, networked, 2, count)
            minutes = million * 2 * graph.triples / 1e6 / 60
            # Weights and the accumulators of row-adagrad, and the grouped triples of both sides.
            table = _FLOAT * graph.entities * (2 * _PREDICTED_DIM + 1) / count
            memory = table + 2 * graph.triples * 24
            sent = wire_bytes(step, count) if count > 1 else 0
            cells = [f"{minutes:,.0f}", f"{memory / 1e9:.0f} GB", f"{sent / 1e6:.1f} MB"]
            rows.append([graph.name, str(count), *cells])
    return markdown_table(rows)


# Measuring the constants.


def _rate(work: float, run: Callable[[], object], seconds: float = 1.5) -> float:
    """Return work per second: the median of single calls."""
    run()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return work / statistics.median(times)


def measure_machine() -> dict[str, float]:
    """Measure the speeds of one and two threads."""
    from fivestar.threads import coarse_threads, run_parts

    step = Step()
    queries, width = step.queries, 2 * step.dim
    query, query_grad = torch.randn(queries, width), torch.zeros(queries, width)

    def products(tile: torch.Tensor, scores: torch.Tensor, grad: torch.Tensor) -> None:
        torch.addmm(scores, query, tile.T, beta=0, out=scores)
        torch.addmm(query_grad, scores, tile, beta=0)
        grad.addmm_(scores.T, query, beta=0)

    def on_tiles(count: int) -> None:
        run_parts([lambda part=part: products(*part) for part in parts[:count]], query.device)

    parts = [
        (torch.randn(TILE, width), torch.empty(queries, TILE), torch.zeros(TILE, width))
        for _ in range(8)
    ]
    work = 6.0 * queries * TILE * width * len(parts)
    speeds = {}
    for name, threads in (("flops", 1), ("flops_of_two", 2)):
        torch.set_num_threads(threads)
        with coarse_threads():
            speeds[name] = _rate(work, lambda: on_tiles(len(parts)))
    torch.set_num_threads(1)
    scores = torch.randn(queries, TILE)

    def powers() -> None:
        scores.mul_(0.01).exp2_().sum(dim=1)

    speeds["score_bytes"] = _rate(_FLOAT * 5 * scores.numel(), powers)
    table = torch.zeros(1_000_000, width)
    generator = torch.Generator().manual_seed(0)
    samples = iter(lambda: torch.randint(len(table), (5000,), generator=generator), None)

    def rows() -> None:
        ids = next(samples).sort()[0]
        gathered = table.index_select(0, ids)
        gathered.square().mean(dim=1, keepdim=True)
        table.index_add_(0, ids, gathered / 3.0, alpha=-1e-3)

    # Gather 2, square 2, mean 1, divide 2, add 3.
    speeds["row_bytes"] = _rate(_FLOAT * 10 * 5000 * width, rows)
    return speeds


def measure_wire() -> dict[str, float]:
    """Measure all-reduces, within processes started by torchrun."""
    from fivestar.training.processes import join_processes

    torch.set_num_threads(1)
    join_processes("cpu")
    step, one = Step(), torch.zeros(1)
    large = torch.zeros(step.queries, 2 * step.dim)
    times = []
    for tensor in (one, large):
        torch.distributed.barrier()
        start = time.perf_counter()
        for _ in range(300):
            torch.distributed.all_reduce(tensor)
        times.append((time.perf_counter() - start) / 300)
    latency = times[0]
    processes = torch.distributed.get_world_size()
    sent = _FLOAT * large.numel() * 2 * (processes - 1) / processes
    return {"latency": latency, "wire_bytes": sent / max(times[1] - latency, 1e-9)}


def measure() -> dict[str, Any]:
    """Measure all constants of this machine."""
    before, start = other_cpu_seconds(), time.perf_counter()
    own = time.process_time()
    speeds = measure_machine()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*launch, __file__, "--wire"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    lines = [line for line in done.stdout.decode().splitlines() if line[:1] == "{"]
    speeds |= json.loads(lines[0])
    own = time.process_time() - own
    busy = (other_cpu_seconds() - before - own) / (time.perf_counter() - start)
    return {**speeds, "other_cores": round(busy, 2)}


def machine_of(lines: list[dict[str, Any]]) -> Machine:
    """Return the medians of measured constants."""
    medians = (statistics.median(line[key] for line in lines) for key in Machine._fields)
    return Machine(*medians)


def main() -> None:
    """Measure the machine, or compare and predict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="the constants of this machine")
    parser.add_argument("--wire", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.wire:
        found = measure_wire()
        if torch.distributed.get_rank() == 0:
            print(json.dumps(found), flush=True)
        return
    if given.measure:
        append_record(MACHINES, measure())
    machine = machine_of(read_records(MACHINES))
    print(comparison(merged(read_records(SCALE)), machine))
    print(predictions(machine))


if __name__ == "__main__":
    main()
