"""Compare 5★E with other models per class of relations, by the ranks recorded in the ledger.

    python experiments/paper_method/relation_classes.py

The paper's thesis: a 5★E is better where paths and loops meet. Relations are classed by what their
train facts form (`fivestar graph info`). Writes results/relation_classes.jsonl, one line per graph,
other model and class: the MRR of both and the paired bootstrap of their difference. It needs the
graphs, but trains and ranks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fivestar
from fivestar.evaluation.metrics import mrr_difference
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
                for title, rows in classes.items():
                    if not rows.any():
                        continue
                    first, second = (each[:, rows] for each in ranks)
                    gap = mrr_difference(first, second)
                    yield {
                        "data": name,
                        "dim": pair.dim,
                        "other": other,
                        "class": title,
                        "triples": int(rows.sum()),
                        "fivestar": round(float(first.mean()), 4),
                        "other_mrr": round(float(second.mean()), 4),
                        "runs": [len(first), len(second)],
                        "settings": [cell.entries[0].settings for cell in pair.cells],
                        "search": describe_equal_search(pair.search, name, pair.dim),
                        **{key: round(value, 4) for key, value in gap._asdict().items()},
                        **provenance(),
                    }


if __name__ == "__main__":
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines())
    RESULTS.write_text(text, encoding="utf-8")
