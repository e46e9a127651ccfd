"""Write docs/paper-method.md from about.md, results/relation_classes.jsonl and paper_method.jsonl.

python experiments/paper_method/table.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fivestar.experiments.ledger import Entry, read_ledger, settings_of
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric, published_table, table_names

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "paper-method.md"
RESULTS = ROOT / "results"
CONTRAST = "mixed minus not mixed"
LABELS = {"complex": "ComplEx", "rotate": "RotatE", "quate": "QuatE"}
Lines = list[dict[str, Any]]

FINALS = """\
The best point of each form on each graph, trained to the end (at most 50 epochs, early stopping;
`finals.py`) and evaluated on test once; beside it what the paper reports for d = 100.
"""
GRID = """\
## The paper's own method

`fivestar train GRAPH --method paper`: full softmax over all entities, N3 on the parameters,
Adagrad at a constant rate, batches of 500 triples, normal init × 10⁻³, on the paper's grid of lr
and reg-weight, for the equation (`mobius`) and for the released code (`phase`, bilinear). Short
trials (8 epochs on NELL-995-h100, 4 on WN18RR and FB15k-237; matrix products in bfloat16;
`sweep.py experiments/paper_method/grid.toml`).
"""
ABLATION = """\
## From the paper's method to ours

One change at a time, each row with all changes above it; 20 epochs (12 on WN18RR, 10 on
FB15k-237), bfloat16 (`sweep.py` with `ablation.toml` and `ours.toml` of experiments/paper_method).
The first row is the paper's method with lr 0.1; the last has our defaults, with their weight,
batches and power for each graph. The gap is the MRR of a sample of 2,000 train triples minus that
of valid.
"""
FORMS = """\
## Do the transformations matter?

The forms of 5★E (`released`: `phase` with the bilinear pairing, as in the released code), each with
the same six settings (lr 0.3 and 0.15, reg-weight 0.03, 0.12 and 0.25): the best on validation, the
MRR of a sample of 2,000 train triples, and the gap between the two. Short trials in bfloat16
(`sweep.py experiments/paper_method/forms.toml`).
"""


def mrr(value: float | None, best: float | None = None) -> str:
    """Return an MRR as papers print it, the best in bold."""
    if value is None:
        return "–"
    return f"**{format_metric(value)}**" if value == best else format_metric(value)


def classes(lines: Lines) -> str:
    """Return the comparison of 5★E with other models by class of relations."""
    rows = [
        ["graph", "other model", "class", "triples", "5★E", "other", "difference", "95 %", "search"]
    ]
    for line in lines:
        if line["class"] == CONTRAST:
            continue
        gap, low, high = (_signed(line[key]) for key in ("mrr", "low", "high"))
        clear = line["low"] > 0 or line["high"] < 0
        rows.append(
            [
                *(line["data"], LABELS[line["other"]], line["class"], f"{line['triples']:,}"),
                *(mrr(line["fivestar"]), mrr(line["other_mrr"])),
                *(f"**{gap}**" if clear else gap, f"{low} to {high}", line["search"]),
            ]
        )
    return markdown_table(rows)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".")


def thesis(lines: Lines) -> str:
    """Return whether the gain is larger on mixed relations, by graph and other model."""
    found: dict[str, list[str]] = {"larger": [], "smaller": [], "not clearly different": []}
    for line in (line for line in lines if line["class"] == CONTRAST):
        verdict = "larger" if line["low"] > 0 else "smaller" if line["high"] < 0 else None
        low, high = _signed(line["low"]), _signed(line["high"])
        found[verdict or "not clearly different"].append(
            f"{line['data']} over {LABELS[line['other']]} ({_signed(line['mrr'])}, {low} to {high})"
        )
    parts = [f"**{verdict}** on {'; '.join(each)}" for verdict, each in found.items() if each]
    return (
        "The gain of 5★E on mixed relations, against its gain on all others (difference of the "
        f"gains, 95 %), is {'. It is '.join(parts)}."
    )


def _graphs(lines: Lines) -> list[str]:
    return list(dict.fromkeys(line["data"] for line in lines))


def in_order_of(plans: Iterable[str], lines: Lines) -> Lines:
    """Return the lines of some plans in the order of their settings and graphs there.

    Processes that share a plan finish its trials in any order.
    """
    found = []
    for name in plans:
        plan = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
        orders = list(plan["settings"]), plan["graphs"]
        own = [line for line in lines if line["plan"] == name]
        found += sorted(own, key=lambda it: (orders[0].index(it["setting"]), _graph(it, orders[1])))
    return found


def _graph(line: dict[str, Any], graphs: list[str]) -> int:
    return graphs.index(line["data"]) if line["data"] in graphs else len(graphs)


def finals_table(entries: Sequence[Entry]) -> str:
    """Return the test metrics of the paper's method, and those that it reports."""
    rows = [
        ["graph", "form", "MRR", "H@1", "H@3", "H@10", "lr", "reg-weight", "best epoch", "minutes"]
    ]
    printed = {
        graph: row.metrics[graph]
        for name in table_names()
        for row in published_table(name).rows
        if (row.model, row.dim) == ("fivestar", 100)
        for graph in row.metrics
    }
    for graph in dict.fromkeys(entry.data for entry in entries):
        values = (f"{value:.2f}".removeprefix("0") for value in printed[graph].values())
        rows.append([graph, "published", *values, "", "", "", ""])
        for entry in (entry for entry in entries if entry.data == graph):
            form = settings_of(entry)
            metrics = map(format_metric, entry.test.headline().values())
            length = f"{entry.best_epoch} of {entry.epochs}", f"{entry.minutes:.1f}"
            training = form.training
            rows.append(
                [
                    *(graph, form.model.options["denominator"], *metrics),
                    *(f"{training.lr:g}", f"{training.reg_weight:g}", *length),
                ]
            )
    return markdown_table(rows)


def changes(plan: str) -> dict[str, str]:
    """Return for each setting of a plan what it changes in the one before, as `name value`."""
    settings = tomllib.loads((HERE / f"{plan}.toml").read_text(encoding="utf-8"))["settings"]
    values = [{k: v for part in it.values() for k, v in part.items()} for it in settings.values()]
    found = {}
    for name, before, own in zip(settings, [{}, *values], values, strict=False):
        changed = [f"{k} {v}" for k, v in own.items() if before.get(k) != v]
        found[name] = ", ".join(changed)
    return found


def ablation_table(lines: Lines) -> str:
    """Return the validation MRR of every step from the paper's method to ours, and its gap."""
    labels = changes("ablation") | {"ours": "our defaults"}
    labels["paper"] = f"method paper, {labels['paper']}"
    return settings_table(lines, labels, gap=True)


def settings_table(
    lines: Lines, labels: Mapping[str, str] | None = None, *, gap: bool = False
) -> str:
    """Return the validation MRR of every setting on every graph."""
    found = {(line["setting"], line["data"]): line for line in lines}
    graphs = _graphs(lines)
    best = {
        g: max(v.get("valid_mrr", 0.0) for (_, d), v in found.items() if d == g) for g in graphs
    }
    rows = [["setting", *graphs]]
    for setting in dict.fromkeys(line["setting"] for line in lines):
        cells = []
        for graph in graphs:
            line = found.get((setting, graph), {})
            cell = "diverged" if "failed" in line else mrr(line.get("valid_mrr"), best[graph])
            if gap and "train_mrr" in line:
                cell += f" (gap {mrr(line['train_mrr'] - line['valid_mrr'])})"
            cells.append(cell)
        rows.append([(labels or {}).get(setting, setting.replace("_", ".")), *cells])
    return markdown_table(rows)


def forms_table(lines: Lines) -> str:
    """Return for each form and graph the best setting on validation, and its gap to train."""
    rows = [["graph", "form", "settings tried", "best", "valid", "train", "gap"]]
    for graph in _graphs(lines):
        for form in ("none", "phase", "released", "mobius"):
            own = [
                line
                for line in lines
                if line["data"] == graph and line["setting"].startswith(f"{form}-")
            ]
            if not own:
                continue
            best = max(own, key=lambda line: line.get("valid_mrr", 0.0))
            setting = best["setting"].removeprefix(f"{form}-").replace("_", ".")
            values = best["valid_mrr"], best["train_mrr"], best["train_mrr"] - best["valid_mrr"]
            rows.append([graph, form, str(len(own)), setting, *map(mrr, values)])
    return markdown_table(rows)


def page() -> str:
    """Return the page."""
    trials = read_records(RESULTS / "paper_method.jsonl")
    grid, ablation, forms = (
        in_order_of(plans, trials) for plans in (["grid"], ["ablation", "ours"], ["forms"])
    )
    finals = read_ledger(RESULTS / "paper_method" / "ledger.jsonl")
    own = _section(GRID, settings_table(grid)) if grid else ""
    if finals:
        own += f"\n\n{FINALS}\n{finals_table(finals)}"
    compared = read_records(RESULTS / "relation_classes.jsonl")
    parts = {
        "CLASSES": f"{classes(compared)}\n\n{thesis(compared)}",
        "GRID": own,
        "ABLATION": _section(ABLATION, ablation_table(ablation)) if ablation else "",
        "FORMS": _section(FORMS, forms_table(forms)) if forms else "",
    }
    text = (HERE / "about.md").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->\n", f"{part}\n" if part else "")
    return text


def _section(text: str, rows: str) -> str:
    return f"\n{text}\n{rows}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
