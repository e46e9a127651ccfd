"""Write docs/recipes.md from about.md, results/tried.jsonl and results/ensembles.jsonl.

python experiments/tuning/table.py
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from fivestar.experiments.records import read_records
from fivestar.experiments.tables import format_metric
from fivestar.runs.defaults import as_saved, baseline
from fivestar.runs.renamed import current_names

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# In another column, in the title, or the same in all lines.
_OMITTED = {"name", "dim", "epochs", "evaluate_every", "patience", "precision"}
_OMITTED |= {"score", "norm", "epsilon", "init"}
# Shown even if they are the defaults of version 1.
_ALWAYS_SHOWN = ("lr", "regularizer", "reg_weight")


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "recipes.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page, one table per graph, model and dimension, the best first."""
    text = (ROOT / "results" / "tried.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    lines.sort(key=lambda line: (*_group(line), -line["valid_mrr"]))
    about = (HERE / "about.md").read_text(encoding="utf-8").rstrip()
    parts = [about.replace("<!-- ENSEMBLES -->", ensembles())]
    parts += [_section(key, list(group)) for key, group in groupby(lines, key=_group)]
    return "\n\n".join(parts) + "\n"


def ensembles() -> str:
    """Return a sentence per recorded ensemble."""
    sentences = []
    for line in read_records(ROOT / "results" / "ensembles.jsonl"):
        single = sorted(run["mrr"] for run in line["valid_of_runs"])
        dim = as_saved(line["settings_values"])["model"].get("dim", 100)
        together = line["valid_of_ensemble"]
        sentences.append(
            f"\n{line['data']}, {len(single)} seeds of d={dim}: validation MRR "
            f"{format_metric(together['mrr'])}, H@10 {format_metric(together['hits@10'])}; single "
            f"seeds {format_metric(single[0])} to {format_metric(single[-1])}"
        )
    return "; ".join(sentences)


def _group(line: dict[str, Any]) -> tuple[str, str, int]:
    model = line["settings_values"]["model"]
    return line["data"], model.get("name", "fivestar"), model.get("dim", 100)


def _section(key: tuple[str, str, int], lines: list[dict[str, Any]]) -> str:
    data, model, dim = key
    rows = [
        f"## {data}, {model}, d={dim}",
        "",
        "| settings | epochs | valid MRR | H@10 | minutes |",
        "|---|---|---|---|---|",
    ]
    for line in lines:
        values = line["settings_values"]
        defaults = {name: baseline()["training"][name] for name in _ALWAYS_SHOWN}
        shown = current_names(values["model"]) | defaults | current_names(values["training"])
        settings = [
            f"{name.replace('_', '-')} {value}"
            for name, value in shown.items()
            if name not in _OMITTED
        ]
        settings += [f"seed {line['seed']}"] if line["seed"] else []
        epochs = f"{line['best_epoch']} of {line['curve'][-1][0]}"
        metrics = (f"{line[name]:.4f}".lstrip("0") for name in ("valid_mrr", "valid_hits@10"))
        cells = [", ".join(settings), epochs, *metrics, f"{line['minutes']:.1f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
