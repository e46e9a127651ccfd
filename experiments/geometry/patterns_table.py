"""The tables of patterns, from results/patterns.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric
from fivestar.runs.defaults import as_saved

RESULTS = Path(__file__).parents[2] / "results" / "patterns.jsonl"
NAMES = {"demo": "demo graph", "wn18": "WN18", "wn18rr": "WN18RR", "fb15k-237": "FB15k-237"}
_COUNTS = ("learned", "true", "both")


def learned_patterns() -> str:
    """Return the runs and the patterns that they have learned."""
    patterns = ("symmetric", "inverse", "reflexive")
    heads = ("run", "d", "epochs", "minutes", "valid MRR", "AUC of the control")
    rows = [[*heads, "symmetric: learned / true / both", *patterns[1:], "composed"]]
    for line in read_records(RESULTS):
        model = as_saved(line["settings_values"])["model"]
        run = (str(model["dim"]), str(line["epochs"]), f"{line['minutes']:.1f}")
        counts = [_counts(line, pattern) for pattern in patterns]
        numbers = (format_metric(line["valid_mrr"]), f"{line['control']['auc']:.1%}")
        rows.append([_name(line), *run, *numbers, *counts, _composed(line)])
    return markdown_table(rows)


def inference() -> str:
    """Return how often positive premises give a positive conclusion."""
    columns = ("run", "pattern", "map of the conclusion", "premises", "number", "positive")
    rows = [[*columns, "conclusion positive", "permuted"]]
    rows += [
        [
            _name(line),
            one["pattern"],
            one["map"],
            one["source"],
            f"{one['num_premises']:,}",
            *(f"{one[share]:.1%}" for share in ("premises", "conclusions", "baseline")),
        ]
        for line in read_records(RESULTS)
        for one in line["inference"]
    ]
    return markdown_table(rows)


def provenance() -> str:
    """Return the commit, machine and date of the measurements."""
    found = {f"{one['machine']}, {one['date']}, commit {one['commit']}" for one in _lines()}
    return "; ".join(sorted(found))


def _lines() -> list[dict[str, Any]]:
    return read_records(RESULTS)


def _name(line: dict[str, Any]) -> str:
    model = as_saved(line["settings_values"])["model"]
    return f"{NAMES.get(line['data'], line['data'])}, {model['pairing']}"


def _counts(line: dict[str, Any], pattern: str) -> str:
    scores = line["scores"].get(pattern, dict.fromkeys(_COUNTS, 0))
    return " / ".join(str(scores[count]) for count in _COUNTS)


def _composed(line: dict[str, Any]) -> str:
    if line["untested"]:
        return "not testable"
    scores = line["scores"].get("composed")
    return f"{scores['both']} of {scores['true']}" if scores else "none"
