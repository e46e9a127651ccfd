"""The tables of a path beside a loop, from results/path_loop.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fivestar.experiments.path_loop import PathLoopResult, triple_names
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric
from fivestar.runs.defaults import as_saved, baseline

RESULTS = Path(__file__).parents[2] / "results" / "path_loop.jsonl"
REGULARIZERS = (("none", None), ("n3", 0.01), ("n3", 0.1), ("n3-transformed", 0.1))
# A model has learned the facts if their MRR is at least this; else it is shown.
_LEARNED = 0.995


def by_regularizer(closing: str) -> str:
    """Return the ranks of all models with the initialization of version 1 of the defaults."""
    cells = {
        (line["model"], _regularizer(line)): _cell(line)
        for line in read_records(RESULTS)
        if line["closing"] == closing and " init " not in line["model"]
    }
    models = list(dict.fromkeys(model for model, _ in cells))
    shown = [one for one in REGULARIZERS if any((model, one) in cells for model in models)]
    rows = [["model", *(_title(*one) for one in shown)]]
    rows += [
        [model, *(cells.get((model, one), "–") for one in shown)]
        for model in sorted(models, key=_order)
    ]
    return markdown_table(rows)


def by_init() -> str:
    """Return the ranks of the Möbius form by its initialization, with N3 at 0.1."""
    rows = [["pairing", "init", "off-diagonal-lr", "ranks"]]
    for line in read_records(RESULTS):
        model = as_saved(line["settings_values"])["model"]
        is_mobius = "5★E mobius" in line["model"] and model["score"] == "inner"
        if is_mobius and line["closing"] == "trained" and _regularizer(line) == ("n3", 0.1):
            cells = (model["pairing"], model["init"], f"{model['off_diagonal_lr']:g}")
            rows.append([*cells, _cell(line)])
    return markdown_table([rows[0], *sorted(rows[1:], key=lambda row: row[0], reverse=True)])


def provenance() -> str:
    """Return the commit, machine, date and minutes of the measurements."""
    lines = read_records(RESULTS)
    found = {f"{one['machine']}, {one['date']}, commit {one['commit']}" for one in lines}
    trainings = sum(one["seeds"] for one in lines)
    minutes = sum(one["minutes"] for one in lines)
    return f"{trainings:,} trainings in {minutes:.0f} minutes on {'; '.join(sorted(found))}"


def _regularizer(line: dict[str, Any]) -> tuple[str, float | None]:
    training = baseline()["training"] | as_saved(line["settings_values"])["training"]
    name = training["regularizer"]
    return name, None if name == "none" else training["reg_weight"]


def _title(name: str, weight: float | None) -> str:
    return name if weight is None else f"{name} {weight:g}"


def _order(model: str) -> tuple[bool, bool]:
    """Return the key that sorts 5★E after the other models, and its distance score last."""
    return model.startswith("5★E"), model.endswith("distance")


def _cell(line: dict[str, Any]) -> str:
    """Return the median ranks of the three marked triples, and how many seeds separate."""
    ranks = {"": np.array(line["ranks"], dtype=np.float64)}
    result = PathLoopResult(line["closing"], triple_names(line["closing"]), ranks)
    medians = ", ".join(f"{left:g}/{right:g}" for left, right in result.median("")[-3:])
    separated = ", ".join(map(str, result.separated("")))
    fit = result.fit("")
    learned = "" if fit >= _LEARNED else f"; facts {format_metric(fit)}"
    return f"{medians} ({separated}{learned})"
