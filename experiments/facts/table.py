"""Write docs/facts.md from about.md and the measurements in results/.

python experiments/facts/table.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "facts.md"
ARMS = (
    "all facts alike",
    "weighted by confidence",
    "weighted by squared confidence",
    "confidence at least 1/2",
    "only true facts",
)
NEGATIVES = ("all", "observed", "half observed", "types", "half types", "own")
_MODELS = {"complex": "ComplEx", "rotate": "RotatE"}
Groups = dict[tuple[str, ...], list[dict[str, Any]]]


def grouped(name: str, keys: Sequence[str]) -> Groups:
    """Return the records of a file by the values of some keys, one per seed, the last one."""
    records: dict[tuple[str, ...], dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in read_records(ROOT / "results" / name):
        records[tuple(line[key] for key in keys)][line["seed"]] = line
    return {key: list(by_seed.values()) for key, by_seed in records.items()}


def cell(records: Iterable[dict[str, Any]] | None, key: str = "valid_mrr") -> str:
    """Return the mean of a metric and its range.

    >>> cell([{"valid_mrr": 0.25}, {"valid_mrr": 0.5}])
    '.375 [.250, .500]'
    """
    values = [line[key] for line in records or ()]
    if not values:
        return "–"
    low, high = (format_metric(value) for value in (min(values), max(values)))
    return f"{format_metric(mean(values))} [{low}, {high}]"


def weights() -> str:
    """Return the validation MRR of each arm and graph."""
    groups = grouped("weighted_facts.jsonl", ("graph", "arm"))
    graphs = sorted({graph for graph, _ in groups})
    rows = [["training facts", *graphs, "seconds"]]
    for arm in ARMS:
        seconds = [mean(x["cpu_seconds"] for x in groups[graph, arm]) for graph in graphs]
        cells = [cell(groups[graph, arm]) for graph in graphs]
        rows.append([arm, *cells, " / ".join(f"{value:.1f}" for value in seconds)])
    return markdown_table(rows)


def negatives() -> str:
    """Return both validation MRRs of each choice of negatives, model and graph."""
    groups = grouped("typed_negatives.jsonl", ("graph", "model", "negatives"))
    rows = [["graph", "model", "negatives", "MRR", "MRR among observed", "seconds"]]
    for graph, model in sorted({(graph, model) for graph, model, _ in groups}):
        for choice in NEGATIVES:
            records = groups.get((graph, model, choice))
            if records:
                seconds = f"{mean(line['cpu_seconds'] for line in records):.1f}"
                among = cell(records, "valid_mrr_among_observed")
                rows.append([graph, _MODELS[model], choice, cell(records), among, seconds])
    return markdown_table(rows)


def weights_gain(graph: str) -> str:
    """Return how much weights by confidence raise the mean MRR of a graph."""
    groups = grouped("weighted_facts.jsonl", ("graph", "arm"))
    alike, weighted = (mean(line["valid_mrr"] for line in groups[graph, arm]) for arm in ARMS[:2])
    return _two_digits(weighted - alike)


def weights_cost(graph: str) -> str:
    """Return how much longer an epoch with weights takes, in percent."""
    groups = grouped("weighted_facts.jsonl", ("graph", "arm"))
    alike, weighted = (
        sum(line["cpu_seconds"] for line in groups[graph, arm])
        / sum(line["epochs"] for line in groups[graph, arm])
        for arm in ARMS[:2]
    )
    return f"{100 * (weighted / alike - 1):.0f}"


def negatives_mrr(graph: str, model: str, choice: str) -> str:
    """Return the mean MRR of a choice of negatives among all entities."""
    groups = grouped("typed_negatives.jsonl", ("graph", "model", "negatives"))
    return format_metric(mean(line["valid_mrr"] for line in groups[graph, model, choice]))


def negatives_gain(graph: str, model: str, choice: str) -> str:
    """Return how far the mean MRR of a choice is from that of all negatives, without its sign."""
    groups = grouped("typed_negatives.jsonl", ("graph", "model", "negatives"))
    means = (
        mean(line["valid_mrr"] for line in groups[graph, model, name]) for name in (choice, "all")
    )
    return format_metric(abs(float.__sub__(*means)))


def gains_among_observed(*choices: str) -> str:
    """Return the lowest and the highest gain over all negatives among observed candidates."""
    groups = grouped("typed_negatives.jsonl", ("graph", "model", "negatives"))
    means = {
        key: mean(line["valid_mrr_among_observed"] for line in lines)
        for key, lines in groups.items()
    }
    gains = [
        value - means[graph, model, "all"]
        for (graph, model, choice), value in means.items()
        if choice.replace(" ", "_") in choices
    ]
    return f"{_signed(min(gains))} to {_signed(max(gains))}"


def _two_digits(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _signed(value: float) -> str:
    sign = "−" if round(value, 3) < 0 else "+" if round(value, 3) > 0 else ""
    return f"{sign}{format_metric(abs(value))}"


# What replaces `<!-- NAME argument … -->` in about.md.
PARTS: dict[str, Callable[..., str]] = {
    "WEIGHTS": weights,
    "WEIGHTS_GAIN": weights_gain,
    "WEIGHTS_COST": weights_cost,
    "NEGATIVES": negatives,
    "NEGATIVES_MRR": negatives_mrr,
    "NEGATIVES_GAIN": negatives_gain,
    "GAINS_AMONG_OBSERVED": gains_among_observed,
}


def page() -> str:
    """Return docs/facts.md."""
    return fill((HERE / "about.md").read_text(encoding="utf-8"), PARTS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
