"""Measure the speed of a training step, compared with the bare matrix products and others.

The implementations alternate within one process; numbers are medians over windows of steps.
`limit` is the three matrix products of a step (scores, gradient of the queries, gradient of the
table) and nothing else, each as one call. `authors` is the training step of the released 5★E code,
reimplemented from its description: 8d reals per entity, one row of scores per triple, autograd,
torch's Adagrad. `pykeen` is PyKEEN's ComplEx with LCWA training and cross-entropy. The peak
speed is that of a product of two large square matrices, measured in the same windows.

With `--busy`, the step of fivestar alone is measured with one thread and with all, in turns, beside
this many other processes that use a core each (0: an idle machine).

    FIVESTAR_DATA=... python benchmarks/train_speed.py wn18rr:100 fb15k-237:100 wn18rr:500
    FIVESTAR_DATA=... python benchmarks/train_speed.py fb15k-237:100 --busy 0 1 3
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import fivestar
from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.triples import Triples
from fivestar.models.registry import make_model
from fivestar.plugins import REGULARIZERS
from fivestar.runs.settings import TrainingSettings
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss

CPU = torch.device("cpu")
# A call makes one step and returns its number of triples.
Contestant = Callable[[], int]


def ours(graph: fivestar.KnowledgeGraph, dim: int, rows: int) -> Contestant:
    """Return the step of `fivestar train` with its defaults."""
    relations = len(graph.relations)
    model = make_model("fivestar", len(graph.entities), 2 * relations, dim)
    generator = torch.Generator().manual_seed(0)
    model.reset_parameters(generator)
    step = CandidateStep(model, Loss(REGULARIZERS["n3-transformed"], 0.1), rows)
    optimizer = Optimizer(model, TrainingSettings(optimizer="adagrad", lr=0.1))
    queries = GroupedQueries.of(graph.train, relations)

    def forever() -> Iterator[int]:
        while True:
            for batch in queries.batches(rows, generator, CPU):
                if len(batch.entities) < rows:
                    continue
                step.gradients(batch)
                optimizer.step(0.0)
                yield len(batch.answers)

    steps = forever()
    return lambda: next(steps)


def limit(entities: int, dim: int, rows: int, triples_a_step: float) -> Contestant:
    """Return the three products of the same shape."""
    table, query = torch.randn(entities, 2 * dim), torch.randn(rows, 2 * dim)
    scores, gradient = torch.empty(rows, entities), torch.empty(entities, 2 * dim)

    def step() -> int:
        torch.mm(query, table.T, out=scores)
        torch.mm(scores, table)
        torch.mm(scores.T, query, out=gradient)
        return round(triples_a_step)

    return step


class AuthorsModel(nn.Module):
    """The released model: 8d reals per entity, of which 2d are used; `phase`, bilinear."""

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.entity = nn.Embedding(entities, 8 * dim)
        self.relation = nn.Embedding(relations, 8 * dim)
        for table in (self.entity, self.relation):
            table.weight.data *= 1e-3

    def forward(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the scores of all tails, and the regularized factors."""
        d = self.dim
        head, relation = self.entity(heads), self.relation(relations)
        hr, hi = head[:, :d], head[:, d : 2 * d]
        ar, ai, br, bi, cr, ci, dr, di = relation.split(d, dim=1)
        over_r, over_i = ar * hr - ai * hi + br, ar * hi + ai * hr + bi
        under_r, under_i = cr * hr - ci * hi + dr, cr * hi + ci * hr + di
        size = torch.sqrt(under_r**2 + under_i**2)
        qr = (over_r * under_r + over_i * under_i) / size
        qi = (over_i * under_r - over_r * under_i) / size
        table = self.entity.weight
        scores = qr @ table[:, :d].T - qi @ table[:, d : 2 * d].T
        return scores, [
            torch.sqrt(hr**2 + hi**2),
            torch.sqrt(sum(part**2 for part in relation.split(d, dim=1))),
        ]


def authors(triples: Triples, entities: int, relations: int, dim: int, rows: int) -> Contestant:
    """Per-triple softmax over all entities, N3, autograd, torch's Adagrad."""
    torch.manual_seed(0)
    model = AuthorsModel(entities, relations, dim)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    table = torch.as_tensor(triples.array.astype(np.int64))
    loss_function = nn.CrossEntropyLoss()

    def step() -> int:
        h, r, t = table[torch.randint(len(table), (rows,))].T
        scores, factors = model(h, r)
        tail = model.entity(t)[:, : 2 * dim].view(rows, 2, dim)
        factors = [*factors, torch.sqrt((tail**2).sum(1))]
        loss = loss_function(scores, t) + 0.1 * sum((f**3).sum() for f in factors) / rows
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return rows

    return step


class PykeenTraining(NamedTuple):
    """PyKEEN's LCWA training of ComplEx with cross-entropy, by its own functions."""

    model: nn.Module
    loader: Iterable[Any]
    step: Callable[[Any], None]


def pykeen_training(
    graph: fivestar.KnowledgeGraph, dim: int, rows: int, lr: float = 0.1
) -> PykeenTraining:
    """Return PyKEEN's training, batches of this many queries."""
    from pykeen.models import ComplEx
    from pykeen.training import LCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(
        torch.as_tensor(graph.train.array.astype(np.int64)),
        num_entities=len(graph.entities),
        num_relations=len(graph.relations),
        create_inverse_triples=True,
    )
    loss = "CrossEntropyLoss"
    model = ComplEx(triples_factory=factory, embedding_dim=dim, random_seed=0, loss=loss)
    optimizer = torch.optim.Adagrad(model.get_grad_params(), lr=lr)
    loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
    loader = loop._create_training_data_loader(
        factory, sampler=None, batch_size=rows, drop_last=True, shuffle=True
    )

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        loop._forward_pass(batch, 0, rows, rows, 0.0, None)
        optimizer.step()
        model.post_parameter_update()

    return PykeenTraining(model, loader, step)


def pykeen_complex(graph: fivestar.KnowledgeGraph, dim: int, rows: int) -> Contestant:
    """Return the steps of PyKEEN's training."""
    training = pykeen_training(graph, dim, rows)

    def forever() -> Iterator[int]:
        while True:
            for batch in training.loader:
                training.step(batch)
                yield int(batch["target"].sum())

    steps = forever()
    return lambda: next(steps)


def compare(name: str, dim: int, rows: int, windows: int, seconds: float) -> None:
    """Measure all implementations in turns and print their medians as rows of a table."""
    graph = fivestar.read_graph(name)
    relations = 2 * len(graph.relations)
    triples = with_reciprocals(graph.train, len(graph.relations))
    queries = GroupedQueries.of(graph.train, len(graph.relations))
    mean = rows * len(triples) / len(queries)
    entities = len(graph.entities)
    racing = {
        "limit": limit(entities, dim, rows, mean),
        "fivestar": ours(graph, dim, rows),
        "authors": authors(triples, entities, relations, dim, rows),
        "pykeen": pykeen_complex(graph, dim, rows),
    }
    square = torch.randn(3_000, 3_000)
    product, best = torch.empty_like(square), []
    rates: dict[str, list[float]] = {key: [] for key in racing}
    for window in range(windows + 1):
        for key, step in racing.items():
            start, done = time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                done += step()
            if window:  # the first warms up
                rates[key].append(done / (time.perf_counter() - start))
        start = time.perf_counter()
        torch.mm(square, square, out=product)
        if window:
            best.append(2 * len(square) ** 3 / (time.perf_counter() - start))
    mine = rates["fivestar"]
    for key, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(mine, values, strict=True))
        print(f"| {name} d={dim} | {key} | {statistics.median(values):,.0f} | {ratio:.2f} |")
    flops_a_triple = 6 * rows * entities * 2 * dim / mean
    share = statistics.median(a * flops_a_triple / b for a, b in zip(mine, best, strict=True))
    print(
        f"| {name} d={dim} | peak matrix-product speed "
        f"| {statistics.median(best) / flops_a_triple:,.0f} | {share:.2f} |",
        flush=True,
    )


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that use a core each within the context."""
    loop = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compare_threads(
    name: str, dim: int, rows: int, windows: int, seconds: float, busy: list[int]
) -> None:
    """Measure one thread and all threads in turns, beside busy processes."""
    step = ours(fivestar.read_graph(name), dim, rows)
    counts = sorted({1, torch.get_num_threads()})
    for processes in busy:
        rates: dict[int, list[float]] = {threads: [] for threads in counts}
        with busy_processes(processes):
            for window in range(windows + 1):
                for threads in counts:
                    torch.set_num_threads(threads)
                    start, done = time.perf_counter(), 0
                    while time.perf_counter() - start < seconds:
                        done += step()
                    if window:  # the first warms up
                        rates[threads].append(done / (time.perf_counter() - start))
        for threads, values in rates.items():
            ratio = statistics.median(a / b for a, b in zip(values, rates[1], strict=True))
            print(
                f"| {name} d={dim} | {processes} | {threads} "
                f"| {statistics.median(values):,.0f} | {ratio:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=["wn18rr:100", "fb15k-237:100", "wn18rr:500"])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--busy", type=int, nargs="+", help="other processes on the machine")
    arguments = parser.parse_args()
    if arguments.busy is not None:
        print("| case | busy processes | threads | triples/s (median) | × one thread (median) |")
        print("|---|---|---|---|---|")
        for case in arguments.cases:
            graph_name, _, dimension = case.partition(":")
            windows, length = arguments.windows, arguments.seconds
            compare_threads(
                graph_name, int(dimension), arguments.rows, windows, length, arguments.busy
            )
        sys.exit()
    print("| case | step | triples/s (median) | fivestar is × (median) |\n|---|---|---|---|")
    for case in arguments.cases:
        graph_name, _, dimension = case.partition(":")
        compare(graph_name, int(dimension), arguments.rows, arguments.windows, arguments.seconds)
