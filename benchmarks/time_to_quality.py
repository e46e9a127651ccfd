"""Measure how long it takes to reach the paper's validation MRR, for fivestar and others.

Every contestant trains with d = 100 on one thread. What counts is the CPU time of training alone,
which does not depend on what else the machine does; all are ranked by the same evaluation.

- `fivestar`: `fivestar train GRAPH` with its defaults.
- `pykeen`: PyKEEN's ComplEx with LCWA and cross-entropy, by its own training loop; Adagrad with the
  learning rate that was best for it among 11 settings on UMLS (`side_by_side/search.py`).
- `complex-n3`: ComplEx with N3, 1-N softmax and Adagrad at the settings of Lacroix et al. 2018, a
  plain PyTorch program.
- `authors`: the training step of the released 5★E code, reimplemented from its description
  (`train_speed.py`), at the settings of the paper.

The last two take hours, so their time is *computed*: the measured CPU time per epoch of their own
step, times the number of epochs that the same method (same model, loss, regularizer, optimizer and
batches) needs with the engine of fivestar, in bfloat16. Each finished contestant is a line of
results/time_to_quality.jsonl; those are skipped, and `--table` prints them as a table.

    FIVESTAR_DATA=... python benchmarks/time_to_quality.py --graphs nell-995-h100 --minutes 60
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from train_speed import Contestant as Step
from train_speed import authors, pykeen_training

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.ledger import provenance
from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.graph.known_answers import with_reciprocals
from fivestar.models.base import Model
from fivestar.models.registry import make_model
from fivestar.training.loop import Trainer

RESULTS = Path(__file__).parents[1] / "results" / "time_to_quality.jsonl"
# The validation MRR to reach: the test MRR of 5★E with d = 100 in the paper.
GOALS = {"wn18rr": 0.47, "fb15k-237": 0.35, "nell-995-h100": 0.36}
DIM = 100
# Lacroix et al. 2018; NELL-995 is not in their paper: as on WN18RR.
N3_WEIGHTS = {"fb15k-237": 0.05}
N3_BATCH = 100
AUTHORS_BATCH = 500
PYKEEN_LR = 1.0
# Seconds per window of steps, and windows.
_WINDOW, _WINDOWS = 10.0, 3


class _EnoughError(Exception):
    """The goal is reached, or the time is over."""


@dataclass
class Curve:
    """The validation MRR after each ranked epoch, by CPU minutes of training."""

    points: list[tuple[int, float, float]]
    goal: float

    @property
    def reached(self) -> tuple[int, float, float] | None:
        """Return the first point that reaches the goal."""
        return next((point for point in self.points if point[2] >= self.goal), None)


class Race:
    """Ranks a contestant after its epochs, and stops it at the goal or the time limit."""

    def __init__(self, graph: fivestar.KnowledgeGraph, goal: float, minutes: float) -> None:
        self._graph = graph
        self._minutes = minutes
        self._used = 0.0
        self._mark = time.process_time()
        self.curve = Curve([], goal)

    def finish_epoch(self, epoch: int, model: Model) -> None:
        """Rank a model; what this takes does not count.

        Raises:
            _EnoughError: It has reached the goal, or its time is over.
        """
        self._used += (time.process_time() - self._mark) / 60
        mrr = evaluate(model, self._graph, self._graph.valid).metrics()["mrr"]
        self.curve.points.append((epoch, round(self._used, 3), round(mrr, 4)))
        print(f"  epoch {epoch}: {self._used:.1f} CPU minutes, MRR {mrr:.4f}", flush=True)
        self._mark = time.process_time()
        if mrr >= self.curve.goal or self._used >= self._minutes:
            raise _EnoughError


def train_here(
    graph: fivestar.KnowledgeGraph, values: dict[str, Any], goal: float, minutes: float
) -> Curve:
    """Train with the engine of fivestar until the goal or the time limit."""
    training = {**values["training"], "threads": 1, "evaluate_every": 0, "patience": 0}
    settings = fivestar.make_settings({**values, "training": training})
    trainer = Trainer(graph, settings)
    race = Race(graph, goal, minutes)
    with suppress(_EnoughError):
        trainer.run(lambda line: race.finish_epoch(line["epoch"], trainer.model))
    return race.curve


def train_pykeen(graph: fivestar.KnowledgeGraph, goal: float, minutes: float) -> Curve:
    """Train with PyKEEN until the goal or the time limit."""
    training, ours = pykeen_training(graph, DIM, 500, PYKEEN_LR), _complex(graph)
    race = Race(graph, goal, minutes)
    epoch = 0
    try:
        while True:
            for batch in training.loader:
                training.step(batch)
            epoch += 1
            _copy_pykeen(training.model, ours)
            race.finish_epoch(epoch, ours)
    except _EnoughError:
        return race.curve


def _complex(graph: fivestar.KnowledgeGraph) -> Model:
    return make_model("complex", len(graph.entities), 2 * len(graph.relations), DIM)


@torch.no_grad()
def _copy_pykeen(theirs: nn.Module, ours: Model) -> None:
    """Copy weights; PyKEEN alternates relations and their inverses, we have all inverses last."""
    entities, relations = (
        representation[0]()
        for representation in (theirs.entity_representations, theirs.relation_representations)
    )
    ours.entities.copy_(_row(entities))
    ours.relations.copy_(_row(torch.cat([relations[0::2], relations[1::2]])))


def _row(numbers: Tensor) -> Tensor:
    return torch.cat([numbers.real, numbers.imag], dim=1)


class ComplexN3(nn.Module):
    """ComplEx as a plain program: real and imaginary halves, all entities scored per triple."""

    def __init__(self, entities: int, relations: int) -> None:
        super().__init__()
        self.entity = nn.Embedding(entities, 2 * DIM)
        self.relation = nn.Embedding(relations, 2 * DIM)
        for table in (self.entity, self.relation):
            table.weight.data *= 1e-3

    def forward(self, heads: Tensor, relations: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of all tails, and the sum of cubed moduli per triple."""
        head, relation, tail = self.entity(heads), self.relation(relations), self.entity(tails)
        (hr, hi), (rr, ri) = head.chunk(2, dim=1), relation.chunk(2, dim=1)
        query = torch.cat([hr * rr - hi * ri, hr * ri + hi * rr], dim=1)
        halves = (row.chunk(2, dim=1) for row in (head, relation, tail))
        cubes = sum((torch.sqrt(re**2 + im**2) ** 3).sum(dim=1) for re, im in halves)
        return query @ self.entity.weight.T, cubes


def complex_n3(graph: fivestar.KnowledgeGraph, weight: float) -> Step:
    """Return the step of the plain program."""
    torch.manual_seed(0)
    triples = with_reciprocals(graph.train, len(graph.relations))
    table = torch.as_tensor(triples.array.astype(np.int64))
    model = ComplexN3(len(graph.entities), 2 * len(graph.relations))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)

    def step() -> int:
        h, r, t = table[torch.randint(len(table), (N3_BATCH,))].T
        scores, cubes = model(h, r, t)
        loss = nn.functional.cross_entropy(scores, t) + weight * cubes.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return N3_BATCH

    return step


def epoch_minutes(step: Step, num_triples: int) -> float:
    """Return the CPU minutes of an epoch, from the median speed of some windows of steps."""
    step()
    speeds = []
    for _ in range(_WINDOWS):
        start, done = time.process_time(), 0
        while time.process_time() - start < _WINDOW:
            done += step()
        speeds.append(done / (time.process_time() - start))
    return num_triples / statistics.median(speeds) / 60


def run(name: str, contestant: str, minutes: float) -> dict[str, Any]:
    """Return the line of a contestant on a graph."""
    graph, goal = fivestar.read_graph(name), GOALS[name]
    model = {"name": "fivestar", "dim": DIM}
    if contestant == "fivestar":
        return _line(train_here(graph, {"model": model, "training": {}}, goal, minutes))
    if contestant == "pykeen":
        return _line(train_pykeen(graph, goal, minutes))
    triples = with_reciprocals(graph.train, len(graph.relations))
    if contestant == "authors":
        sizes = len(graph.entities), 2 * len(graph.relations)
        step = authors(triples, *sizes, DIM, AUTHORS_BATCH)
        method = {"method": "paper", "model": {**model, "denominator": "phase"}}
        training = {"batch_size": AUTHORS_BATCH}
    else:
        weight = N3_WEIGHTS.get(name, 0.1)
        step = complex_n3(graph, weight)
        method = {"method": "published", "model": {"name": "complex", "dim": DIM}}
        training = {"batch_size": N3_BATCH, "grouping": "triples", "reg_weight": weight}
    per_epoch = epoch_minutes(step, len(triples))
    training |= {"epochs": 1000, "precision": "auto"}
    curve = train_here(graph, {**method, "training": training}, goal, minutes)
    return _line(curve, per_epoch)


def _line(curve: Curve, minutes_per_epoch: float | None = None) -> dict[str, Any]:
    """Return what is recorded; with minutes per epoch, the time is computed from them."""
    epoch, minutes, mrr = curve.reached or max(curve.points, key=lambda point: point[2])
    return {
        "goal": curve.goal,
        "reached": curve.reached is not None,
        "epochs": epoch,
        "cpu_minutes": round(epoch * minutes_per_epoch, 2) if minutes_per_epoch else minutes,
        "valid_mrr": mrr,
        "is_computed": minutes_per_epoch is not None,
        "curve": curve.points,
    }


def table(lines: list[dict[str, Any]]) -> str:
    """Return the recorded lines as a table."""
    ours = {line["data"]: line for line in lines if line["contestant"] == "fivestar"}
    rows = [["graph", "validation MRR", "contestant", "epochs", "CPU minutes", "fivestar is ×"]]
    for line in sorted(
        lines, key=lambda line: (list(GOALS).index(line["data"]), line["cpu_minutes"])
    ):
        how = " (computed)" if line["is_computed"] else ""
        base = ours.get(line["data"])
        ratio = f"{line['cpu_minutes'] / base['cpu_minutes']:.1f}" if base else "–"
        if not line["reached"]:
            how += f"; not reached, best {line['valid_mrr']:.3f}"
            ratio = f"> {ratio}"
        minutes = f"{line['cpu_minutes']:,.1f}{how}"
        cells = (line["contestant"], str(line["epochs"]), minutes, ratio)
        rows.append([line["data"], f"{line['goal']:.2f}", *cells])
    return markdown_table(rows)


def limits(lines: list[dict[str, Any]]) -> str:
    """Return after how many CPU minutes trainings ended that did not reach the goal."""
    found: dict[tuple[str, bool], set[float]] = {}
    for line in lines:
        if not line["reached"]:
            found.setdefault((line["contestant"], line["is_computed"]), set()).add(line["minutes"])
    parts = [
        f"{' or '.join(f'{minutes:g}' for minutes in sorted(each))} (`{name}`"
        + (", in the engine of fivestar)" if is_computed else ")")
        for (name, is_computed), each in sorted(found.items())
    ]
    if not parts:
        return "All trainings reached it."
    return f"CPU minutes after which trainings that did not reach it ended: {', '.join(parts)}."


def main() -> None:
    """Run what is missing."""
    contestants = ("fivestar", "pykeen", "complex-n3", "authors")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--contestants", nargs="+", choices=contestants, default=contestants)
    parser.add_argument("--minutes", type=float, default=60, help="CPU minutes per contestant")
    parser.add_argument("--table", action="store_true", help="print what is recorded")
    given = parser.parse_args()
    torch.set_num_threads(1)
    done = {(line["data"], line["contestant"]) for line in read_records(RESULTS)}
    for graph in () if given.table else given.graphs:
        for contestant in given.contestants:
            if (graph, contestant) not in done:
                print(f"{graph}, {contestant}", flush=True)
                line = {"data": graph, "contestant": contestant, "minutes": given.minutes}
                line |= provenance()
                append_record(RESULTS, line | run(graph, contestant, given.minutes))
    lines = read_records(RESULTS)
    print(table(lines), limits(lines), sep="\n\n")


if __name__ == "__main__":
    main()
