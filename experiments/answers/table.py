"""Write docs/answers.md from about.md and the measurements in results/.

python experiments/answers/table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric
from fivestar.runs.units import format_bytes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "answers.md"
_GRAPHS = {
    "demo": "demo graph",
    "wn18rr": "WN18RR",
    "nell-995-h100": "NELL-995-h100",
    "wn18": "WN18",
    "fb15k-237": "FB15k-237",
}
_MODELS = {"fivestar": "5★E", "complex": "ComplEx"}
_PROBABILITIES = ("sigmoid", "softmax", "calibrated")
_FOLD_IN = {
    "fold-in": "fold-in",
    "from nothing": "training from scratch with the given facts",
    "first guess": "initial vector (mean of entities with the same facts)",
    "random vector": "random vector",
}

Record = dict[str, Any]


def _read(name: str) -> list[Record]:
    return read_records(ROOT / "results" / f"{name}.jsonl")


def _run(line: Record) -> str:
    return f"{_GRAPHS[line['data']]}, {_MODELS[line['model']]}"


def provenance(name: str) -> str:
    """Return the machines, dates and commits of a file."""
    return _provenance(_read(name))


def _provenance(lines: list[Record]) -> str:
    found = {(line["machine"], line["date"], line["commit"]) for line in lines}
    machines = ", ".join(sorted({machine for machine, _, _ in found}))
    dates = ", ".join(sorted({date for _, date, _ in found}))
    return f"{machines}, {dates}, commit {', '.join(sorted({commit for *_, commit in found}))}"


def calibration() -> str:
    """Return Brier score and expected calibration error of each probability and run."""
    heads = ("run", "d", "epochs", "minutes", "valid MRR", "constant")
    rows = [[*heads, "σ(score)", "softmax", "calibrated"]]
    for line in _read("calibration"):
        run = (_run(line), str(line["dim"]), str(line["epochs"]), f"{line['minutes']:.1f}")
        bins = line["calibrated"]["bins"]
        share = sum(each["true"] * each["answers"] for each in bins)
        metrics = (format_metric(line["valid_mrr"]), _error(share * (1 - share)))
        cells = [
            f"{_error(line[name]['brier'])} / {format_metric(line[name]['calibration_error'])}"
            for name in _PROBABILITIES
        ]
        cells[-1] = f"**{cells[-1]}** ({line['method']})"
        rows.append([*run, *metrics, *cells])
    return markdown_table(rows)


def _error(brier: float) -> str:
    return f"{brier:.4f}".lstrip("0")


def _fold_in() -> Record:
    found: Record = json.loads((ROOT / "results" / "fold_in.json").read_text(encoding="utf-8"))
    return found


def fold_in() -> str:
    """Return the MRR of facts of new entities by way of adding them."""
    rows = [["", "mean", "the new entity is the answer", "an old one is", "H@10"]]
    for name, label in _FOLD_IN.items():
        metrics = _fold_in()["figures"][name]
        keys = ("mrr", "mrr, answer new", "mrr, answer old", "hits@10")
        rows.append([label, *(format_metric(metrics[key]) for key in keys)])
    return markdown_table(rows)


def chosen() -> str:
    """Return the epochs and the learning rate that were chosen."""
    best = _fold_in()["chosen"]
    return f"{best['epochs']} and {format_metric(best['lr']).rstrip('0')}"


# Each row of the table of speed: its label, the measurement that it needs, and its text.
_SPEED: tuple[tuple[str, str, Callable[[Record], str]], ...] = (
    (
        "`fivestar ask`, cold (the whole process), median of 5",
        "cold_seconds",
        lambda line: f"{line['cold_seconds']:.1f} s",
    ),
    (
        "importing torch alone",
        "import_torch_seconds",
        lambda line: f"{line['import_torch_seconds']:.1f} s",
    ),
    (
        "a query, warm, median of 100",
        "query_seconds",
        lambda line: f"{1e3 * line['query_seconds']:.1f} ms",
    ),
    (
        "`ask --queries` with a file",
        "file_seconds",
        lambda line: f"{line['queries_in_file']:,} queries in {line['file_seconds']:.0f} s",
    ),
    (
        "`explain`, median / maximum of 20",
        "explain_seconds",
        lambda line: "{:.2f} / {:.2f} s".format(*line["explain_seconds"]),
    ),
    (
        "`complete --slots all`, relative to its bare matrix products",
        "completion_to_bare_products",
        lambda line: f"{line['completion_to_bare_products']:.1f} ×",
    ),
    (
        "these products, for all relations and both sides",
        "bare_products_seconds",
        lambda line: f"{line['bare_products_seconds']:.3g} s",
    ),
    (
        "`complete --top 1000` (slots that occur in train)",
        "complete_seconds",
        lambda line: f"{line['complete_seconds']:.0f} s",
    ),
    (
        "peak memory of it (before)",
        "peak_bytes",
        lambda line: (
            f"{format_bytes(line['peak_bytes'])} ({format_bytes(line['peak_bytes_before'])})"
        ),
    ),
)


def speed() -> str:
    """Return the times of queries, explanations and completions, a column per run."""
    lines = _read("answers")
    heads = [f"{_run(line)} ({line['entities']:,} entities), d={line['dim']}" for line in lines]
    rows = [["", *heads]]
    for label, key, cell in _SPEED:
        rows.append([label, *("–" if line.get(key) is None else cell(line) for line in lines)])
    return markdown_table(rows)


def searched() -> str:
    """Return the run, the number of queries and that of the cells."""
    (line,) = _read("vector_search")
    return f"{_run(line)}, d={line['dim']}; {line['queries']} queries; {line['cells']} cells"


def search() -> str:
    """Return recall and time of each search."""
    (line,) = _read("vector_search")
    rows = [["search", "recall@10", "CPU µs per query (median)"]]
    for name, microseconds in line["microseconds"].items():
        recall = "–" if name == "query vector alone" else f"{line['recall'][name]:.4f}"
        rows.append([name, recall, f"{microseconds:,.0f}"])
    return markdown_table(rows)


# What replaces `<!-- NAME argument … -->` in about.md.
PARTS: dict[str, Callable[..., str]] = {
    "CALIBRATION": calibration,
    "PROVENANCE": provenance,
    "HELD_OUT": lambda: f"{sum(_fold_in()['entities'].values()):,}",
    "ENTITIES": lambda key: f"{_fold_in()['entities'][key]:,}",
    "FACTS": lambda key: f"{_fold_in()['facts'][key]:,}",
    "CHOSEN": chosen,
    "FOLD_IN": fold_in,
    "MRR": lambda key: format_metric(_fold_in()["figures"][key.replace("_", " ")]["mrr"]),
    "PROVENANCE_OF_FOLD_IN": lambda: _provenance([_fold_in()]),
    "SPEED": speed,
    "SEARCHED": searched,
    "SEARCH": search,
}


def page() -> str:
    """Return the page."""
    return fill((Path(__file__).parent / "about.md").read_text(encoding="utf-8"), PARTS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
