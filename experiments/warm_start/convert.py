"""Convert trained models to 5★E: the largest change of a score, and the metrics before and after.

    FIVESTAR_DATA=... python experiments/warm_start/convert.py umls

Each conversion is one line of results/conversions.jsonl; experiments/warm_start/table.py makes the
table. Scores are compared for all triples (head, relation, tail) in double precision, to measure
the error of the conversion itself; metrics are computed in single precision, as usual.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import torch

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.experiments.records import append_record
from fivestar.models.base import Model
from fivestar.runs.identity import learned_settings

RESULTS = Path(__file__).parents[2] / "results" / "conversions.jsonl"

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


def measured(graph: fivestar.KnowledgeGraph, source: str, *, reciprocals: bool) -> dict[str, Any]:
    """Train a model, convert it, and return how it has changed."""
    before = trained(graph, source, reciprocals=reciprocals)
    after = before.to_fivestar()
    scale, shift = after.metrics["score_scale"], after.metrics["score_shift"]
    mrr = {}
    for name, run in {"before": before, "after": after}.items():
        metrics = evaluate(run.model, graph, graph.valid).metrics()
        parts = (metrics, metrics["heads"], metrics["tails"])
        mrr[name] = [round(part["mrr"], 5) for part in parts]
    model = after.settings.model
    return {
        "data": graph.name,
        "source": source,
        "reciprocals": reciprocals,
        "score": "inner" if model.score == "inner" else f"distance, {model.norm}",
        "scale": scale,
        "shift": shift,
        "largest_difference": largest_difference(before.model, after.model, scale, shift),
        "valid_mrr": mrr,
        "seed": before.settings.training.seed,
        "settings_values": learned_settings(before.settings),
    }


def main() -> None:
    """Record a line per model, with and without reciprocals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="umls")
    graph = fivestar.read_graph(parser.parse_args().graph)
    for source in SOURCES:
        for reciprocals in (True, False):
            line = append_record(RESULTS, measured(graph, source, reciprocals=reciprocals))
            print(source, reciprocals, line["largest_difference"], line["valid_mrr"], flush=True)


if __name__ == "__main__":
    main()
