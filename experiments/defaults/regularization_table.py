"""Print results/regularization.jsonl as a Markdown table: one row per arm, one column per graph.

    python experiments/defaults/regularization_table.py

A cell is the validation MRR (mean over seeds), the difference from the base over the same seeds,
with its standard deviation where there are several, and the CPU minutes of one training.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "regularization.jsonl"
# Arms that are compared with something other than `base`.
_BASE = {"heads-identity": "identity"}
Trials = dict[int, dict[str, Any]]  # by seed


def read_trials(path: Path, plan: str | None) -> dict[str, dict[str, Trials]]:
    """Return the trials of a plan by arm, graph and seed, in the order of the file."""
    trials: dict[str, dict[str, Trials]] = defaultdict(lambda: defaultdict(dict))
    for line in path.read_text(encoding="utf-8").splitlines():
        trial = json.loads(line)
        if trial.get("plan") == plan:
            trials[trial["arm"]][trial["data"]][trial["seed"]] = trial
    return trials


def cell(trials: Trials, base: Trials) -> str:
    """Return the text of one cell; `base` is empty for the base itself."""
    if not trials:
        return ""
    values = list(trials.values())
    text = _decimal(statistics.mean(trial["valid_mrr"] for trial in values))
    if not base and len(values) > 1:
        text += f" ± {_decimal(statistics.stdev(trial['valid_mrr'] for trial in values))}"
    both = [seed for seed in trials if seed in base]
    if both:
        gaps = [trials[seed]["valid_mrr"] - base[seed]["valid_mrr"] for seed in both]
        text += f" ({_signed(statistics.mean(gaps))}"
        text += f" ± {_decimal(statistics.stdev(gaps))})" if len(gaps) > 1 else ")"
    text += f", {statistics.mean(trial['cpu_minutes'] for trial in values):.2g} min"
    return text + (", stopped at half" if any("stopped" in trial for trial in values) else "")


def table(path: Path, plan: str | None) -> str:
    """Return the table of a plan; None: of the trials before there were plans."""
    trials = read_trials(path, plan)
    graphs = list(dict.fromkeys(graph for arm in trials.values() for graph in arm))
    seeds = {graph: len(trials["base"][graph]) for graph in graphs}
    names = [f"{graph} ({seeds[graph]} seed{'s' * (seeds[graph] > 1)})" for graph in graphs]
    lines = [f"| arm | {' | '.join(names)} |", "|---" * (len(graphs) + 1) + "|"]
    for arm in ["base", *sorted(set(trials) - {"base"})]:
        against = {} if arm in ("base", *_BASE.values()) else trials[_BASE.get(arm, "base")]
        cells = [cell(trials[arm].get(graph, {}), against.get(graph, {})) for graph in graphs]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _decimal(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + _decimal(abs(value))


if __name__ == "__main__":
    print(table(RESULTS, "off-diagonal-lr 0.1"))
