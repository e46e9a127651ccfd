"""Convert trained models to 5★E: the largest change of a score, and the metrics before and after.

    FIVESTAR_DATA=... python experiments/warm_start/convert.py umls

Scores are compared for all triples (head, relation, tail) in double precision, to measure the error
of the conversion itself; metrics are computed in single precision, as usual.
"""

from __future__ import annotations

import argparse
import copy

import torch

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.models.base import Model

SOURCES = {
    "distmult": {},
    "complex": {},
    "protate": {"norm": "l2"},
    "rotate modulus": {"norm": "modulus"},
    "rotate l2": {"norm": "l2"},
    "transe l1": {"norm": "l1"},
    "transe l2": {"norm": "l2"},
}


def trained(
    graph: fivestar.KnowledgeGraph, source: str, *, reciprocals: bool
) -> fivestar.TrainedModel:
    """Train a model for 100 epochs."""
    training = {
        "objective": "softmax",
        "regularizer": "none",
        "optimizer": "adam",
        "lr": 0.01,
        "epochs": 100,
        "reciprocals": reciprocals,
    }
    model = {"name": source.split(maxsplit=1)[0], "dim": 50, **SOURCES[source]}
    return fivestar.train(graph, {"defaults": 1, "model": model, "training": training})


@torch.no_grad()
def largest_difference(before: Model, after: Model, scale: float, shift: float) -> float:
    """Return the maximum of |(s′ − shift)/scale − s| / |s| over all triples."""
    before, after = copy.deepcopy(before).double(), copy.deepcopy(after).double()
    entities, worst = torch.arange(len(before.entities)), 0.0
    for relation in range(len(before.relations)):
        relations = torch.full_like(entities, relation)
        expected = before.score_tails(entities, relations)
        scores = (after.score_tails(entities, relations) - shift) / scale
        worst = max(worst, float(((scores - expected).abs() / expected.abs()).max()))
    return worst


def main() -> None:
    """Print a row per model, with and without reciprocals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="umls")
    graph = fivestar.read_graph(parser.parse_args().graph)
    print("| source | reciprocals | score | new scores | largest relative difference | ", end="")
    print("validation MRR (heads / tails) before | after |\n|---|---|---|---|---|---|---|")
    for source in SOURCES:
        for reciprocals in (True, False):
            before = trained(graph, source, reciprocals=reciprocals)
            after = before.to_fivestar()
            scale, shift = after.metrics["score_scale"], after.metrics["score_shift"]
            worst = largest_difference(before.model, after.model, scale, shift)
            cells = []
            for run in (before, after):
                metrics = evaluate(run.model, graph, graph.valid).metrics()
                sides = f"{metrics['heads']['mrr']:.5f} / {metrics['tails']['mrr']:.5f}"
                cells.append(f"{metrics['mrr']:.5f} ({sides})")
            model = after.settings.model
            score = "inner" if model.score == "inner" else f"distance, {model.norm}"
            same = "s" if scale == 1 else f"{scale:g} s + {shift:g}"
            row = [source, "yes" if reciprocals else "no", score, same, f"{worst:.1e}", *cells]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
