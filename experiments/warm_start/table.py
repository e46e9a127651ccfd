"""Write docs/inside-5star.md from about.md and the measurements in results/.

python experiments/warm_start/table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "inside-5star.md"
_VECTORS = {"none": "random", "labels": "labels", "frozen": "labels, frozen"}
_FILLS = {
    "untouched": "as trained",
    "mean": "mean of the others",
    "predicted": "predicted from labels",
}
_GROUPS = {
    "all": "all facts",
    "unseen": "an unseen entity",
    "few": "one with 1–2 facts",
    "others": "others",
}
_STARTS = {"warm start": "from the smaller run", "from scratch": "from nothing"}

Curve = list[tuple[float, float]]  # time, validation MRR


def best_by(curve: Curve, time: float) -> str:
    """Return the best MRR up to a time.

    >>> best_by([(1.0, 0.3), (2.0, 0.2), (3.0, 0.4)], 2.5)
    '.300'
    """
    return format_metric(max(mrr for when, mrr in curve if when <= time))


def conversions() -> str:
    """Return what conversion changes, per model."""
    heads = ["source", "reciprocals", "score", "new scores", "largest relative difference"]
    rows = [[*heads, "validation MRR (heads / tails) before", "after"]]
    for line in read_records(ROOT / "results" / "conversions.jsonl"):
        scale, shift = line["scale"], line["shift"]
        scores = "s" if scale == 1 else f"{scale:g} s + {shift:g}"
        cells = [
            "{:.5f} ({:.5f} / {:.5f})".format(*line["valid_mrr"][name])
            for name in ("before", "after")
        ]
        reciprocals = "yes" if line["reciprocals"] else "no"
        difference = f"{line['largest_difference']:.1e}"
        rows.append([line["source"], reciprocals, line["score"], scores, difference, *cells])
    return markdown_table(rows)


def warm_start() -> str:
    """Return the best MRR of each arm after some minutes."""
    curves: dict[str, Curve] = _read("warm_start.json")["curves"]
    rows = [["arm", "by 0.7 min", "by 1.4 min", "by 2.1 min", "best"]]
    rows += [
        [name, *(best_by(curve, minutes) for minutes in (0.7, 1.4, 2.1, 10))]
        for name, curve in curves.items()
    ]
    return markdown_table(rows)


def growing() -> str:
    """Return the best MRR of both starts after some seconds, and that of new entities."""
    found = _read("growing.json")
    triples = found["from nothing"]["triples"]
    last = [f"triples with a new entity ({triples})", "the others"]
    rows = [["", "by 12 s", "by 32 s", "by 60 s", "by 85 s", "best", "its seconds", *last]]
    for label, name in _STARTS.items():
        curve = found[name]["seconds_and_mrr_by_epoch"]
        by_time = (best_by(curve, seconds) for seconds in (12, 32, 60, 85, 1000))
        seconds = max(curve, key=lambda point: point[1])[0]
        groups = (found[name]["mrr"][key] for key in ("with a new entity", "the others"))
        rows.append([label, *by_time, f"{seconds:.0f}", *map(format_metric, groups)])
    return markdown_table(rows)


def entity_vectors() -> str:
    """Return the MRR of validation facts by start, group and rows of unseen entities: means."""
    lines = read_records(ROOT / "results" / "entity_vectors.jsonl")
    rows = [["graph, seeds", "start", "unseen entities", *_GROUPS.values(), "CPU seconds"]]
    for graph in dict.fromkeys(line["graph"] for line in lines):
        for start, label in _VECTORS.items():
            runs = [line for line in lines if (line["graph"], line["start"]) == (graph, start)]
            for kept, name in _FILLS.items():
                if not runs or kept not in runs[0]:
                    continue
                cells = [format_metric(_mean(run[kept][g]["mrr"] for run in runs)) for g in _GROUPS]
                seconds = f"{_mean(run['cpu_seconds'] for run in runs):.0f}"
                case = f"{graph}, {len(runs)}"
                rows.append([case, label, name, *cells, seconds])
    return markdown_table(rows)


def unseen_gain(graph: str, other: str) -> str:
    """Return what prediction from labels gains over another row for unseen entities."""
    runs = _random_starts(graph)
    means = (_mean(run[name]["unseen"]["mrr"] for run in runs) for name in ("predicted", other))
    return f"{float.__sub__(*means):.2f}".removeprefix("0")


def unseen_by_seed(graph: str) -> str:
    """Return the MRR of unseen entities as trained and predicted from labels, for each seed."""
    pairs = (
        [format_metric(run[name]["unseen"]["mrr"]) for name in ("untouched", "predicted")]
        for run in _random_starts(graph)
    )
    return ", ".join(" → ".join(pair) for pair in pairs)


def _random_starts(graph: str) -> list[dict[str, Any]]:
    lines = read_records(ROOT / "results" / "entity_vectors.jsonl")
    return [line for line in lines if (line["graph"], line["start"]) == (graph, "none")]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))
    return found


# What replaces `<!-- NAME argument … -->` in about.md.
PARTS: dict[str, Callable[..., str]] = {
    "CONVERSIONS": conversions,
    "WARM_START": warm_start,
    "BEST": lambda arm: best_by(_read("warm_start.json")["curves"][arm.replace("_", " ")], 10),
    "GROWING": growing,
    "FACTS": lambda key: f"{_read('growing.json')[key]:,}",
    "ENTITY_VECTORS": entity_vectors,
    "VALIDATION_FACTS": lambda graph, group: f"{_random_starts(graph)[0]['facts'][group]:,}",
    "UNSEEN_GAIN": unseen_gain,
    "UNSEEN_BY_SEED": unseen_by_seed,
}


def page() -> str:
    """Return the page."""
    return fill((Path(__file__).parent / "about.md").read_text(encoding="utf-8"), PARTS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
