"""Measure how the cost of a training step depends on the numbers of entities and relations.

Steps of sampled softmax or of negative sampling on random graphs that differ in these numbers
alone: batches, sampled candidates and the triples per query are the same. The sizes
alternate within one process; numbers are medians over windows. The ratio is that of CPU seconds,
which other processes on the machine disturb least. The memory is what one size has added after
its first step.

    python benchmarks/step_cost.py --entities 1e4 1e5 1e6 5e6 --optimizer row-adagrad
    python benchmarks/step_cost.py --entities 1e5 --relations 100 15000 --dim 64 --batch-size 4096 \
      --optimizer row-adagrad --steps 4
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from peak_memory import resident

from fivestar.graph.triples import Triples
from fivestar.models.registry import make_model
from fivestar.plugins import REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.runs.units import format_bytes
from fivestar.training.negative_sampling import NegativeLoss, NegativeStep
from fivestar.training.negatives import NegativeSampler
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss, Step

# Many relations, so that hardly any two triples share a query on the smallest graph either.
_RELATIONS = 500
_TRIPLES = 400_000
_CPU = torch.device("cpu")
# A call makes one step and returns its number of triples.
Contestant = Callable[[], int]


def steps_of(entities: int, relations: int, arguments: argparse.Namespace) -> Contestant:
    """Return the steps of a training on a random graph of this size."""
    rng = np.random.default_rng(0)
    columns = (rng.integers(0, n, _TRIPLES) for n in (entities, relations, entities))
    queries = GroupedQueries.of(Triples.of(np.stack(list(columns), axis=1)), relations)
    model = make_model("fivestar", entities, 2 * relations, arguments.dim)
    generator = torch.Generator().manual_seed(0)
    model.reset_parameters(generator)
    training = TrainingSettings(optimizer=arguments.optimizer, lr=0.1)
    optimizer, regularizer = Optimizer(model, training), REGULARIZERS["n3-transformed"]
    step: Step
    if arguments.num_negatives:
        loss = NegativeLoss("negative-sampling", 6.0, 1.0)
        sampler = NegativeSampler(arguments.num_negatives, entities)
        step = NegativeStep(model, loss, sampler, regularizer, 0.01, max_triples=64)
    else:
        candidate_loss = Loss(regularizer, 0.01, num_candidates=arguments.num_candidates)
        step = CandidateStep(model, candidate_loss, arguments.batch_size)
    batches = iter(())

    def take_step() -> int:
        nonlocal batches
        batch = next(batches, None)
        if batch is None or len(batch.entities) < arguments.batch_size:
            batches = queries.batches(arguments.batch_size, generator, _CPU)
            batch = next(batches)
        step.gradients(batch)
        optimizer.step(0.0)
        return len(batch.answers)

    return take_step


def main() -> None:
    """Measure all sizes in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--relations", type=int, nargs="+", default=[_RELATIONS])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--num-candidates", type=int, default=4096)
    parser.add_argument("--num-negatives", type=int, default=0, help="negative sampling instead")
    parser.add_argument("--optimizer", default="adagrad")
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40, help="steps per window")
    arguments = parser.parse_args()
    sizes = list(itertools.product(map(int, arguments.entities), arguments.relations))
    contestants, memory = {}, {}
    for size in sizes:
        before = resident()
        contestants[size] = steps_of(*size, arguments)
        contestants[size]()
        memory[size] = resident() - before
    wall: dict[tuple[int, int], list[float]] = {size: [] for size in sizes}
    cpu: dict[tuple[int, int], list[float]] = {size: [] for size in sizes}
    for window in range(arguments.windows + 1):
        for size, take_step in contestants.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            triples = sum(take_step() for _ in range(arguments.steps))
            if window:  # the first warms up
                wall[size].append((time.perf_counter() - start) / triples * 1e6)
                cpu[size].append((time.process_time() - cpu_start) / triples * 1e6)
    print(f"{arguments.optimizer}, {torch.get_num_threads()} threads; per million triples:")
    print("| entities | relations | seconds | CPU seconds | ratio | memory |")
    print("|---|---|---|---|---|---|")
    for size in sizes:
        ratio = statistics.median(a / b for a, b in zip(cpu[size], cpu[sizes[0]], strict=True))
        print(
            f"| {size[0]:,} | {size[1]:,} | {statistics.median(wall[size]):.1f} "
            f"| {statistics.median(cpu[size]):.1f} | {ratio:.2f} | {format_bytes(memory[size])} |"
        )


if __name__ == "__main__":
    main()
