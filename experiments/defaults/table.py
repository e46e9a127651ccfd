"""Write docs/defaults.md from results/defaults*.jsonl: which settings work on which graphs.

python experiments/defaults/table.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Scores = dict[str, dict[str, float]]  # setting → graph → validation MRR


def read_trials(path: Path, plan: str) -> list[dict[str, Any]]:
    """Return the trials of a plan."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["plan"] == plan]


def by_setting(trials: list[dict[str, Any]]) -> Scores:
    """Return the validation MRR of each setting on each graph; 0 where training diverged."""
    scores: Scores = defaultdict(dict)
    for trial in trials:
        scores[trial["setting"]][trial["data"]] = trial.get("valid_mrr", 0.0)
    return dict(scores)


def best_on(scores: Scores, graph: str) -> float:
    """Return the best validation MRR found on a graph."""
    return max(row[graph] for row in scores.values() if graph in row)


def picked_without(scores: Scores, graph: str) -> str:
    """Return the setting with the best mean ratio to the best found, over all other graphs.

    >>> rows = {"a": {"x": 0.5, "y": 0.2, "z": 0.4}, "b": {"x": 0.1, "y": 0.4, "z": 0.4}}
    >>> picked_without(rows, "x"), picked_without(rows, "y")
    ('b', 'a')
    """

    def mean_ratio(setting: str) -> float:
        row = scores[setting]
        ratios = [value / best_on(scores, other) for other, value in row.items() if other != graph]
        return sum(ratios) / len(ratios)

    complete = max(len(row) for row in scores.values())
    return max((s for s in scores if len(scores[s]) == complete), key=mean_ratio)


def leave_one_out(scores: Scores) -> list[tuple[str, str, float, float]]:
    """Return (graph, setting picked on all others, its MRR, best MRR found) for each graph."""
    graphs = max(scores.values(), key=len)
    return [
        (graph, pick := picked_without(scores, graph), scores[pick][graph], best_on(scores, graph))
        for graph in graphs
    ]


def markdown(rows: list[list[str]]) -> str:
    """Return a table whose first row is its header."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def matrix(scores: Scores) -> str:
    """Return all trials: one row per graph, one column per setting, the best in bold."""
    graphs = max(scores.values(), key=len)
    rows = [["graph", *scores]]
    for graph in graphs:
        best = best_on(scores, graph)
        cells = [row.get(graph) for row in scores.values()]
        rows.append([graph, *(_cell(value, best) for value in cells)])
    return markdown(rows)


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return "–"
    text = f"{value:.3f}".lstrip("0")
    return f"**{text}**" if value == best else text


def main() -> None:
    """Print the tables."""
    for plan in ("fivestar",):
        trials = read_trials(ROOT / "results" / "defaults.jsonl", plan)
        scores = by_setting(trials)
        print(matrix(scores), end="\n\n")
        rows = [["graph", "picked on the others", "valid MRR", "best found", "ratio"]]
        found = leave_one_out(scores)
        rows += [
            [graph, pick, f"{mrr:.4f}", f"{best:.4f}", f"{mrr / best:.3f}"]
            for graph, pick, mrr, best in found
        ]
        print(markdown(rows))
        print(sum(mrr / best for _, _, mrr, best in found) / len(found))


if __name__ == "__main__":
    main()
