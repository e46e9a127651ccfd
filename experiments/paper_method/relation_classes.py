"""Compare 5★E with other models per class of relations, by the ranks recorded in the ledger.

    python experiments/paper_method/relation_classes.py

The paper's thesis: a 5★E is better where paths and loops meet. Relations are classed by what their
train facts form (`fivestar graph info`). Writes results/relation_classes.jsonl, one line per graph,
other model and class: the MRR of both and the paired bootstrap of their difference; and one of the
gain on mixed relations minus that on the others. It needs the graphs, but trains and ranks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from table import CONTRAST

import fivestar
from fivestar.evaluation.metrics import Reciprocals, mrr_difference
from fivestar.experiments.comparisons import (
    compare_models,
    describe_equal_search,
    reciprocal_ranks,
)
from fivestar.experiments.ledger import provenance, read_ledger
from fivestar.experiments.searches import read_searches
from fivestar.graph.relation_forms import relation_forms

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "results" / "ledger.jsonl"
RESULTS = ROOT / "results" / "relation_classes.jsonl"
OTHERS = ("complex", "rotate", "quate")
_RESAMPLES = 1000


def classes_of(graph: Any) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which test triples belong to each class of relations."""
    forms = relation_forms(graph.train.distinct(), len(graph.entities), len(graph.relations))
    own = [forms[relation] for relation in graph.test.relations.tolist()]
    classes = {form: np.array([f.form == form for f in own]) for form in ("paths", "loops")}
    classes["neither"] = ~(classes["paths"] | classes["loops"])
    mixed = np.array([f.is_mixed for f in own])
    return {"all": np.ones(len(own), bool), **classes, "mixed": mixed, "not mixed": ~mixed}


def lines() -> Iterator[dict[str, Any]]:
    """Yield the comparison of each graph, other model and class."""
    ledger, searches = read_ledger(LEDGER), read_searches(LEDGER)
    graphs = sorted({entry.data for entry in ledger if entry.ranks})
    for name in graphs:
        graph = fivestar.read_graph(name)
        classes = classes_of(graph)
        for other in OTHERS:
            compared = compare_models(ledger, LEDGER.parent, "fivestar", other, [name], searches)
            for pair in compared:
                if pair.difference is None:
                    continue
                ranks = [reciprocal_ranks(cell, LEDGER.parent)[0] for cell in pair.cells]
                whole = {
                    "data": name,
                    "dim": pair.dim,
                    "other": other,
                    "runs": [len(each) for each in ranks],
                    "settings": [cell.entries[0].settings for cell in pair.cells],
                    "search": describe_equal_search(pair.search, name, pair.dim),
                    **provenance(),
                }
                for title, rows in classes.items():
                    if rows.any():
                        yield {**whole, "class": title, **_of_class(*(r[:, rows] for r in ranks))}
                if classes["mixed"].any() and classes["not mixed"].any():
                    gap = gain_contrast(*ranks, classes["mixed"])
                    yield {**whole, "class": CONTRAST, **_rounded(gap)}


def _of_class(first: Reciprocals, second: Reciprocals) -> dict[str, Any]:
    """Return the MRR of both models on the triples of a class, and their difference."""
    return {
        "triples": first.shape[1],
        "fivestar": round(float(first.mean()), 6),
        "other_mrr": round(float(second.mean()), 6),
        **_rounded(mrr_difference(first, second)._asdict()),
    }


def gain_contrast(
    first: Reciprocals, second: Reciprocals, inside: npt.NDArray[np.bool_], seed: int = 0
) -> dict[str, float]:
    """Return the gain on the triples inside a class minus that on the others, with its interval.

    Each resample samples the triples of both sets, and runs of each model.
    """
    rng = np.random.default_rng(seed)
    rows, rest = np.flatnonzero(inside), np.flatnonzero(~inside)

    def contrast(gains: npt.NDArray[np.floating], ours: Any, others: Any) -> float:
        return float(gains[ours].mean() - gains[others].mean())

    resamples = []
    for _ in range(_RESAMPLES):
        runs = (
            each[rng.integers(0, len(each), len(each))].mean(axis=0) for each in (first, second)
        )
        samples = (rng.choice(each, len(each)) for each in (rows, rest))
        resamples.append(contrast(next(runs) - next(runs), *samples))
    low, high = np.percentile(resamples, [2.5, 97.5])
    gains = first.mean(axis=0) - second.mean(axis=0)
    return {"mrr": contrast(gains, rows, rest), "low": float(low), "high": float(high)}


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 6) for key, value in values.items()}


if __name__ == "__main__":
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines())
    RESULTS.write_text(text, encoding="utf-8")
