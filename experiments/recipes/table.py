"""Write docs/recipes.md: what was tried on validation, from results/tried.jsonl and about.md.

python experiments/recipes/table.py
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from fivestar.runs.settings import TrainingSettings

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# Told elsewhere on the page, or the same in all lines.
_NOT_TOLD = {"name", "dim", "epochs", "evaluate_every", "patience", "precision"}
_NOT_TOLD |= {"score", "norm", "epsilon", "init", "start"}
# Told even where they are as in settings.py.
_TOLD = ("lr", "regularizer", "reg")


def main() -> None:
    """One table a graph, model and dimension, the best first."""
    text = (ROOT / "results" / "tried.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    lines.sort(key=lambda line: (*_group(line), -line["valid_mrr"]))
    page = [(HERE / "about.md").read_text(encoding="utf-8").rstrip()]
    page += [_section(key, list(some)) for key, some in groupby(lines, key=_group)]
    (ROOT / "docs" / "recipes.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def _group(line: dict[str, Any]) -> tuple[str, str, int]:
    model = line["settings_values"]["model"]
    return line["data"], model.get("name", "fivestar"), model.get("dim", 100)


def _section(key: tuple[str, str, int], lines: list[dict[str, Any]]) -> str:
    data, model, dim = key
    rows = [
        f"### {data}, {model}, d={dim}",
        "",
        "| settings | epochs | valid MRR | H@10 | minutes |",
        "|---|---|---|---|---|",
    ]
    for line in lines:
        values = line["settings_values"]
        usual = {name: TrainingSettings.model_fields[name].default for name in _TOLD}
        settings = [
            f"{name.replace('_', '-')} {value}"
            for name, value in (values["model"] | usual | values["training"]).items()
            if name not in _NOT_TOLD
        ]
        settings += [f"seed {line['seed']}"] if line["seed"] else []
        epochs = f"{line['best_epoch']} of {line['curve'][-1][0]}"
        figures = (f"{line[name]:.4f}".lstrip("0") for name in ("valid_mrr", "valid_hits@10"))
        cells = [", ".join(settings), epochs, *figures, f"{line['minutes']:.1f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
