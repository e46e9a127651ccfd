"""Write docs/geometry.md from about.md and the measurements in results/.

python experiments/geometry/table.py
"""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import path_loop_table
import patterns_table
import torch
from scipy.stats import t

from fivestar.analysis.relations import class_shares
from fivestar.experiments.geometry_tables import mobius_classes_table, transformations_table
from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.geometry.classification import invariant

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "geometry.md"
RUNS = ROOT / "results" / "geometry_runs.jsonl"
RESULTS = ROOT / "results" / "geometry.jsonl"
# The run of the recipe with snapshots, of which are the figures of grids, flows and epochs.
SNAPSHOTS = "wn18-fivestar"
CHANGES = ("line → line", "line → circle", "circle → line", "circle → circle")
LABELS = {
    "mobius": "5★E mobius",
    "phase": "5★E phase",
    "fivestar": "5★E",
    "complex": "ComplEx",
    "rotate": "RotatE",
    "quate": "QuatE",
}

# When classifying a map.
TOLERANCE = 0.05

Record = dict[str, Any]


def measured(measurement: str) -> list[tuple[Record, Record]]:
    """Return the runs that have a measurement, each with it, in the order of training."""
    found = {
        line["run"]: line for line in read_records(RESULTS) if line["measurement"] == measurement
    }
    return [(run, found[run["name"]]) for run in read_records(RUNS) if run["name"] in found]


def regularizer(run: Record) -> str:
    """Return the regularizer of a run by its current name."""
    name = run["settings_values"]["training"].get("regularizer", "n3-transformed")
    return "n3-transformed" if name == "n3-moved" else str(name)


def runs_table() -> str:
    """Return the runs that are measured, with their settings, validation MRR and time."""
    rows = [["graph", "model", "d", "regularizer", "weight", "epochs", "seed", "valid MRR"]]
    rows[0] += ["minutes", "CPU minutes", "commit"]
    for run in read_records(RUNS):
        if run["name"] == SNAPSHOTS:
            continue
        values = run["settings_values"]
        weight = "" if regularizer(run) == "none" else f"{values['training'].get('reg', 0.1):g}"
        row = [run["graph"], LABELS[run["model"]], str(values["model"].get("dim", 100))]
        row += [regularizer(run), weight, str(run["epochs"]), str(run["seed"])]
        row += [f"{run['valid_mrr']:.3f}".lstrip("0"), f"{run['minutes']:.1f}"]
        cpu = "" if run["cpu_minutes"] is None else f"{run['cpu_minutes']:.1f}"
        rows.append([*row, cpu, run["commit"]])
    return markdown_table(rows)


def snapshots_run() -> str:
    """Return what is known of the run with snapshots, as a phrase."""
    (run,) = (run for run in read_records(RUNS) if run["name"] == SNAPSHOTS)
    mrr = f"{run['valid_mrr']:.3f}".lstrip("0")
    return (
        f"5★E d={run['settings_values']['model']['dim']}, {run['epochs']} epochs, "
        f"{run['minutes']:.1f} minutes (with other jobs running), validation MRR {mrr}, "
        f"commit {run['commit']}, {run['date']}"
    )


def accuracy_table() -> str:
    """Return the worst errors of the Möbius library per family of maps."""
    columns = {"image": "image", "fixed points": "fixed points"}
    columns |= {"multiplier": "multiplier (relative)", "power": "power"}
    rows = [["family", *columns.values()]]
    for line in read_records(ROOT / "results" / "mobius_accuracy.jsonl"):
        cells = (f"{error:.0e} ({ratio:.0f})" for error, ratio in map(line["worst"].get, columns))
        rows.append([line["family"], *cells])
    return markdown_table(rows)


def accuracy_cases() -> str:
    """Return the number of maps whose results were compared."""
    lines = read_records(ROOT / "results" / "mobius_accuracy.jsonl")
    return f"{sum(line['cases'] for line in lines):,}"


def near_identity_table() -> str:
    """Return the classes of random maps I + ε G, by this criterion and by one on σ."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 20_000, 2, 2, generator=generator, dtype=torch.float64) / math.sqrt(2)
    shown = ("elliptic", "hyperbolic", "parabolic", "loxodromic")
    rows = [["ε", *shown, "σ within .05 of 4"]]
    for size in (0.5, 0.05, 0.005):
        maps = torch.eye(2) + size * torch.complex(*noise)
        shares = class_shares(maps, TOLERANCE)
        former = float(((invariant(maps) - 4).abs() <= TOLERANCE).double().mean())
        cells = [_percent(shares[name]) for name in shown]
        rows.append([f"{size:g}", *cells, _percent(former)])
    return markdown_table(rows)


def classes_table() -> str:
    """Return the shares of classes per relation, for each regularizer."""
    both = measured("classes")
    shown = ("elliptic", "hyperbolic", "parabolic")
    rows = [["relation", *(f"{regularizer(run)}: {name}" for run, _ in both for name in shown)]]
    for relation in both[0][1]["shares"]:
        shares = [line["shares"][relation] for _, line in both]
        rows.append([f"`{relation}`", *(_percent(each[name]) for each in shares for name in shown)])
    everything = [line["all"] for _, line in both]
    rows.append(["all", *(_percent(each[name]) for each in everything for name in shown)])
    # The direction of λ is uniform, and two random fixed points are hardly ever close.
    by_chance = 2 / math.pi * math.asin(TOLERANCE)
    chances = (by_chance, by_chance, TOLERANCE**4)
    rows.append(["by chance", *(_percent(share) for _ in both for share in chances)])
    return markdown_table(rows)


def pairs_table() -> str:
    """Return how often inverse pairs share a class, with their baseline."""
    rows = [["run", "pairs", "number", "same class", "one not loxodromic", "of these the same"]]
    names = {"inverse": "inverse", "other": "other pairs of these relations"}
    for run, line in measured("classes"):
        for kind, label in names.items():
            pairs = line["pairs"][kind]
            share, among = (_percent(pairs[key]) for key in ("share", "exceptions_share"))
            row = [regularizer(run), label, str(pairs["pairs"]), share]
            rows.append([*row, str(pairs["exceptions"]), among])
    return markdown_table(rows)


def agreeing() -> str:
    """Return how often inverse pairs share a class where at least one map is not loxodromic."""
    pairs = [line["pairs"]["inverse"] for _, line in measured("classes")]
    counts = [(round(one["exceptions"] * one["exceptions_share"]), one) for one in pairs]
    return " and ".join(f"{count} of {one['exceptions']}" for count, one in counts)


def shapes_table() -> str:
    """Return the changes of shape by graph, form, regularizer and tolerance."""
    rows = [["graph and relations", "model", "regularizer", "tolerance", *CHANGES, "of"]]
    for run, line in measured("shapes"):
        for key, found in line["counted"].items():
            group, tolerance = key.split(" at ")
            cells = [f"{found['counts'][c]:,} ({found['baseline'][c]:,})" for c in CHANGES]
            relations = f"all {found['relations']}" if group == "all" else f"`{group}`"
            row = [f"{run['graph']}, {relations}", LABELS[run["model"]], regularizer(run)]
            rows.append([*row, tolerance, *cells, f"{sum(found['counts'].values()):,}"])
    order = sorted(rows[1:], key=lambda row: (row[0].replace("all", ""), row[3]))
    return markdown_table([rows[0], *order])


def shapes_of(run: str, tolerance: str, group: str = "all") -> Record:
    """Return the changes of shape of a run: `counts`, their `baseline`, number of `relations`."""
    (line,) = (line for one, line in measured("shapes") if one["name"] == run)
    found: Record = line["counted"][f"{group} at {tolerance}"]
    return found


def shapes(source: str, run: str, tolerance: str, change: str, group: str = "all") -> str:
    """Return how often one shape becomes another, as in `circle-line`; `any` stands for all."""
    before, after = change.replace("any", "*").split("-")
    counts = shapes_of(run, tolerance, group)[source]
    return f"{sum(counts[key] for key in fnmatch.filter(counts, f'{before} → {after}')):,}"


def clusters_table() -> str:
    """Return the metrics of clustering per model: means and 95 % intervals over seeds."""
    metrics = ("within", "between", "silhouette", "purity")
    rows = [["model", "seeds", "valid MRR", *metrics]]
    by_model: dict[str, list[tuple[Record, Record]]] = {}
    for run, line in measured("clusters"):
        by_model.setdefault(LABELS[run["model"]], []).append((run, line))
    if not by_model:
        return "(not trained yet)"
    for label, pairs in by_model.items():
        cells = [_interval([line[name] for _, line in pairs]) for name in metrics]
        mrr = _interval([run["valid_mrr"] for run, _ in pairs])
        rows.append([label, str(len(pairs)), mrr, *cells])
        baselines = [line["permutation_baseline"] for _, line in pairs]
        cells = [_interval([each[name] for each in baselines]) for name in metrics]
        rows.append(["– types permuted", "", "", *cells])
    return markdown_table(rows)


def typed_entities() -> str:
    """Return the number of entities that are compared by type."""
    (count,) = {sum(line["types"].values()) for _, line in measured("clusters")}
    return f"{count:,}"


def _interval(values: list[float]) -> str:
    """Return the mean, and with several values half the width of its 95 % interval (Student)."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):.3f} ± {t.ppf(0.975, len(values) - 1) * error:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else "< 1 %"


# What replaces `<!-- NAME argument … -->` in about.md.
PARTS: dict[str, Callable[..., str]] = {
    "RUNS": runs_table,
    "SNAPSHOTS_RUN": snapshots_run,
    "ACCURACY": accuracy_table,
    "ACCURACY_CASES": accuracy_cases,
    "NEAR_IDENTITY": near_identity_table,
    "CLASSES": classes_table,
    "PAIRS": pairs_table,
    "AGREEING": agreeing,
    "SHAPES_TABLE": shapes_table,
    "SHAPES": partial(shapes, "counts"),
    "CHANCE": partial(shapes, "baseline"),
    "RELATIONS": lambda run: str(shapes_of(run, "0.35")["relations"]),
    "CLUSTERS": clusters_table,
    "TYPED_ENTITIES": typed_entities,
    "CLASSES_TABLE": lambda: markdown_table(mobius_classes_table()),
    "TRANSFORMATIONS_TABLE": lambda: markdown_table(transformations_table()),
    "PATTERNS": patterns_table.learned_patterns,
    "INFERENCE": patterns_table.inference,
    "PATTERNS_PROVENANCE": patterns_table.provenance,
    "PATH_LOOP_TRAINED": partial(path_loop_table.by_regularizer, "trained"),
    "PATH_LOOP_HELD_OUT": partial(path_loop_table.by_regularizer, "held out"),
    "PATH_LOOP_INIT": path_loop_table.by_init,
    "PATH_LOOP_PROVENANCE": path_loop_table.provenance,
}


def page() -> str:
    """Return the page."""
    return fill((Path(__file__).parent / "about.md").read_text(encoding="utf-8"), PARTS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
