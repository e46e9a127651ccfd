"""Measure the runs of `train.py` for docs/geometry.md: classes of maps, shapes and clusters.

    python experiments/geometry/measure.py --runs FOLDER

Each measurement of a run is a line of results/geometry.jsonl. Those that are there are skipped, as
are runs that are not trained yet, so the command can be repeated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from table import TOLERANCE
from train import planned

import fivestar
from fivestar.analysis.clustering import clustering_metrics, typed_entities
from fivestar.analysis.relations import class_shares, inverse_pair_classes, relation_maps
from fivestar.analysis.shapes import ShapeCriterion, count_shapes
from fivestar.experiments.figures import TYPES
from fivestar.experiments.records import append_record, read_records
from fivestar.runs.run import Run, convert_to_fivestar

RESULTS = Path(__file__).parents[2] / "results" / "geometry.jsonl"
# Of lines and circles: strict, and lenient.
SHAPE_TOLERANCES = (0.2, 0.35)
# The relation that the paper shows.
HYPERNYM = "_hypernym"


def classes(run: Run) -> dict[str, Any]:
    """Return the shares of classes per relation, and how often inverse pairs share a class."""
    names = run.graph.relations
    maps = relation_maps(run.model)[: len(names)]
    pairs = inverse_pair_classes(run, TOLERANCE)
    return {
        "tolerance": TOLERANCE,
        "shares": {
            names.name_of(number): _rounded(class_shares(each, TOLERANCE))
            for number, each in enumerate(maps)
        },
        "all": _rounded(class_shares(maps, TOLERANCE)),
        "pairs": {kind: _rounded(asdict(each)) for kind, each in pairs.items()},
    }


def shapes(run: Run) -> dict[str, Any]:
    """Return the changes of shape by tolerance, of all relations and of hypernym alone."""
    if run.settings.model.name != "fivestar":
        run = convert_to_fivestar(run)
    groups: dict[str, list[int] | None] = {"all": None}
    if HYPERNYM in run.graph.relations:
        groups[HYPERNYM] = [run.graph.relations.id_of(HYPERNYM)]
    counted = {}
    for tolerance in SHAPE_TOLERANCES:
        criterion = ShapeCriterion(tolerance, tolerance)
        for group, relations in groups.items():
            found = count_shapes(run, criterion, relations).as_json()
            keys = ("relations", "counts", "baseline", "examples")
            counted[f"{group} at {tolerance}"] = {key: found[key] for key in keys}
    return {"counted": counted}


def clusters(run: Run) -> dict[str, Any]:
    """Return the metrics of clustering by the types of the paper's figure."""
    return clustering_metrics(run, typed_entities(run.graph, TYPES)).as_json()


# Each measurement with the graphs and models (as in runs.toml; all if none) that it is for.
MEASUREMENTS: dict[str, tuple[Callable[[Run], dict[str, Any]], set[str], set[str]]] = {
    "classes": (classes, {"wn18"}, {"mobius"}),
    "shapes": (shapes, {"wn18", "nell-995-h100"}, {"mobius", "phase", "complex", "rotate"}),
    "clusters": (clusters, {"fb15k-237"}, set()),
}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    done = {(line["run"], line["measurement"]) for line in read_records(given.out)}
    for run_name, planned_run in planned().items():
        folder = given.runs / run_name
        for name, (measure, graphs, models) in MEASUREMENTS.items():
            is_for = planned_run["graph"] in graphs and (
                not models or planned_run["model"] in models
            )
            is_trained = (folder / "manifest.json").exists()
            if is_for and is_trained and (run_name, name) not in done:
                run = fivestar.load(folder)
                start = time.perf_counter()
                line = {"run": run_name, "measurement": name, **measure(run)}
                line["minutes"] = round((time.perf_counter() - start) / 60, 2)
                append_record(given.out, line)
                print(run_name, name, flush=True)


if __name__ == "__main__":
    main()
