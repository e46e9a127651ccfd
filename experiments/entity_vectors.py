"""Measure what vectors of labels bring, on validation facts with and without unseen entities.

Each graph is trained for the same number of epochs from the ordinary initialization and from
vectors of the labels (character n-grams), with the default settings. Entities without a training
fact are unseen: no training can learn their rows. Ranked are all validation facts (filtered, both
sides), those with an unseen entity, those with an entity of one or two training facts, and the
others, with unseen entities
- as training leaves them,
- at the mean of all other entities (a baseline that knows nothing of the labels),
- predicted from the labels by a ridge regression, as `fivestar train --entity-vectors labels` does.

python experiments/entity_vectors.py nell-995-h100 --epochs 20
python experiments/entity_vectors.py nell-995-h100 --epochs 20 --seeds 0 --starts frozen
python experiments/entity_vectors.py wn18rr --epochs 5
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fivestar
from fivestar.evaluation.metrics import rank_metrics
from fivestar.evaluation.ranking import rank_answers
from fivestar.experiments.ledger import provenance
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.label_vectors import label_vectors
from fivestar.graph.queries import both_sides
from fivestar.models.base import Model
from fivestar.training.entity_vectors import fill_unseen, match_vectors

OUT = Path(__file__).parents[1] / "results" / "entity_vectors.jsonl"
FEW = 2


def degrees(graph: fivestar.KnowledgeGraph) -> np.ndarray:
    """Return the number of training facts of each entity."""
    both = np.concatenate([graph.train.heads, graph.train.tails])
    return np.bincount(both, minlength=len(graph.entities))


def groups(graph: fivestar.KnowledgeGraph) -> dict[str, np.ndarray]:
    """Return which validation facts belong to which group."""
    rarest = degrees(graph)[np.stack([graph.valid.heads, graph.valid.tails])].min(axis=0)
    return {
        "all": np.ones(len(rarest), bool),
        "unseen": rarest == 0,
        "few": (rarest > 0) & (rarest <= FEW),
        "others": rarest > FEW,
    }


def measure(model: Model, graph: fivestar.KnowledgeGraph) -> dict[str, dict[str, float]]:
    """Return MRR and H@10 of each group of validation facts."""
    count = len(graph.relations)
    known = KnownAnswers.of(with_reciprocals(graph.facts, count))
    queries, answers = both_sides(graph.valid, count)
    ranks = rank_answers(model, queries, answers, known)
    found = {}
    for name, chosen in groups(graph).items():
        metrics = rank_metrics(ranks.take(np.tile(chosen, 2)))
        found[name] = {key: round(metrics[key], 5) for key in ("mrr", "hits@10")}
    return found


@torch.no_grad()
def with_mean(model: Model, graph: fivestar.KnowledgeGraph) -> None:
    """Set the rows of unseen entities to the mean of all others."""
    is_seen = torch.tensor(degrees(graph) > 0)
    model.entities[~is_seen] = model.entities[is_seen].mean(dim=0)


def arms(graph: fivestar.KnowledgeGraph, start: str, options: dict[str, Any]) -> dict[str, Any]:
    """Train once; return the metrics of each way to set the rows of unseen entities."""
    if start == "labels":  # as an array, from which training starts
        vectors = label_vectors(graph.entities, 2 * options["dim"]).vectors
        options = {**options, "entity_vectors": vectors}
    elif start == "frozen":
        options = {**options, "entity_vectors": "labels", "freeze_entities": True}
    began = time.process_time()
    trained = fivestar.train(graph, progress=False, **options)
    found: dict[str, Any] = {"cpu_seconds": round(time.process_time() - began, 1)}
    model = trained.model
    if start == "frozen":
        return found | {"untouched": measure(model, graph)}
    if start == "labels":
        before = trained.metrics["entity_vectors"]["valid_before_filling"]
        found["mrr_before"] = round(before["mrr"], 5)
        return found | {"predicted": measure(model, graph)}
    found["untouched"] = measure(model, graph)
    given = match_vectors("labels", graph, model, frozen=False)
    with_mean(model, graph)
    found["mean"] = measure(model, graph)
    fill_unseen(model, given, graph.train)
    return found | {"predicted": measure(model, graph)}


def main() -> None:
    """Train both arms with each seed and append a line per training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    starts = ("none", "labels", "frozen")
    parser.add_argument("--starts", nargs="+", choices=starts, default=starts[:2])
    arguments = parser.parse_args()
    graph = fivestar.read_graph(arguments.graph)
    epochs = arguments.epochs
    for seed in arguments.seeds:
        for start in arguments.starts:
            options = {"dim": arguments.dim, "epochs": epochs, "seed": seed}
            line = {
                "graph": graph.name,
                "start": start,
                **options,
                "facts": {name: int(chosen.sum()) for name, chosen in groups(graph).items()},
                "unseen_entities": int((degrees(graph) == 0).sum()),
                **arms(graph, start, {**options, "evaluate_every": epochs}),
                **provenance(),
            }
            print(json.dumps(line), flush=True)
            with OUT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
