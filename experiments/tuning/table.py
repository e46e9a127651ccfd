"""Write docs/recipes.md from about.md, results/tried.jsonl and results/ensembles.jsonl.

python experiments/tuning/table.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from fivestar.experiments.pages import fill
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
    lines = sorted(_read("tried"), key=lambda line: (*_group(line), -line["valid_mrr"]))
    parts = [fill((HERE / "about.md").read_text(encoding="utf-8").rstrip(), PARTS)]
    parts += [_section(key, list(group)) for key, group in groupby(lines, key=_group)]
    return "\n\n".join(parts) + "\n"


def ensembles() -> str:
    """Return a sentence per recorded ensemble."""
    sentences = []
    for line in _read("ensembles"):
        single = sorted(run["mrr"] for run in line["valid_of_runs"])
        dim = as_saved(line["settings_values"])["model"].get("dim", 100)
        together = line["valid_of_ensemble"]
        sentences.append(
            f"\n{line['data']}, {len(single)} seeds of d={dim}: validation MRR "
            f"{format_metric(together['mrr'])}, H@10 {format_metric(together['hits@10'])}; single "
            f"seeds {format_metric(single[0])} to {format_metric(single[-1])}"
        )
    return "; ".join(sentences)


def tried(data: str, *settings: str) -> dict[str, Any]:
    """Return the only trial on a graph with some settings, as in `lr=0.3`.

    Raises:
        ValueError: Not exactly one trial fits.
    """
    wanted = {name.replace("-", "_"): value for name, _, value in map(_parted, settings)}
    found = [line for line in _read("tried") if line["data"] == data and _fits(line, wanted)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} trials on {data} with {' '.join(settings)}")
    return found[0]


def _parted(setting: str) -> tuple[str, str, str]:
    return setting.partition("=")


def _fits(line: dict[str, Any], wanted: dict[str, str]) -> bool:
    values: dict[str, Any] = {"name": "fivestar"}
    for section in ("model", "training"):
        values |= baseline()[section] | current_names(line["settings_values"][section])
    return all(str(values.get(name)) == value for name, value in wanted.items())


def numbers_of_trials(data: str) -> str:
    """Return the number of trials of 5★E, ComplEx and QuatE on a graph."""
    models = [_group(line)[1] for line in _read("tried") if line["data"] == data]
    return " / ".join(str(models.count(name)) for name in ("fivestar", "complex", "quate"))


def recorded(settings: str) -> dict[str, Any]:
    """Return the first line of the ledger with the hash of some settings."""
    return next(line for line in _read("ledger") if line["settings"] == settings)


def warm_started(arm: str) -> str:
    """Return the best validation MRR of an arm of results/warm_start.json."""
    text = (ROOT / "results" / "warm_start.json").read_text(encoding="utf-8")
    curve = json.loads(text)["curves"][arm.replace("_", " ")]
    return format_metric(max(mrr for _, mrr in curve))


# What replaces `<!-- NAME argument … -->` in about.md.
PARTS: dict[str, Callable[..., str]] = {
    "ENSEMBLES": ensembles,
    "MRR": lambda *given: format_metric(tried(*given)["valid_mrr"]),
    "HITS": lambda *given: format_metric(tried(*given)["valid_hits@10"]),
    "MINUTES": lambda *given: f"{tried(*given)['minutes']:.0f}",
    "TRIALS": numbers_of_trials,
    "RECORDED_MRR": lambda settings: format_metric(recorded(settings)["valid"]["mrr"]),
    "RECORDED_EPOCHS": lambda settings: str(recorded(settings)["epochs"]),
    "RECORDED_MINUTES": lambda settings: f"{recorded(settings)['minutes']:.0f}",
    "WARM_STARTED": warm_started,
}


def _read(name: str) -> list[dict[str, Any]]:
    return read_records(ROOT / "results" / f"{name}.jsonl")


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
