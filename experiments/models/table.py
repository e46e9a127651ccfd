"""Write docs/models.md: the tables of compare.py, from results/ledger.jsonl, and other tasks.

python experiments/models/table.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivestar.experiments.ledger import METRICS, read_ledger
from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import PublishedRow, format_metric, published_table
from fivestar.runs.defaults import as_saved

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GRAPHS = {
    "demo": "Demo graph",
    "umls": "UMLS",
    "kinships": "Kinships",
    "nell-995-h100": "NELL-995-h100",
}


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "models.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page, one section per graph."""
    lines = [json.loads(entry.as_line()) for entry in read_ledger(ROOT / "results/ledger.jsonl")]
    compared = [line for line in lines if line["experiment"].startswith("models/")]
    text = [(HERE / "about.md").read_text(encoding="utf-8").rstrip()]
    for name, title in GRAPHS.items():
        rows = [line for line in compared if line["data"] == name]
        if rows:
            text.append(section(title, rows, published_rows(name)))
    about_tasks = (HERE / "other_tasks.md").read_text(encoding="utf-8").rstrip()
    text.append(fill(about_tasks, {"OTHER_TASKS": other_tasks}))
    return "\n\n".join(text) + "\n"


def other_tasks() -> str:
    """Return the metrics of triple classification and relation prediction."""
    keys = {"classification": ("accuracy", "auc_roc", "auc_pr"), "relations": METRICS[:3]}
    heads = ["accuracy", "AUC-ROC", "AUC-PR", "relation MRR", "H@1", "H@3"]
    rows = [["graph", "model", "d", "epochs", "minutes", *heads, "commit, date"]]
    for line in read_records(ROOT / "results" / "other_tasks.jsonl"):
        dim = as_saved(line["settings_values"])["model"].get("dim", 100)
        metrics = (format_metric(line[task][key]) for task in keys for key in keys[task])
        run = (str(dim), str(line["epochs"]), f"{line['minutes']:.1f}")
        measured = f"{line['commit']}, {line['date']}"
        rows.append([GRAPHS[line["data"]], line["model"], *run, *metrics, measured])
    return markdown_table(rows)


def published_rows(graph: str) -> dict[str, PublishedRow]:
    """Return the published rows of a graph by model, 5★E at our dimension."""
    table = published_table("table-nell")
    rows = (row for row in table.rows if row.dim in (None, 100))
    return {row.model: row for row in rows} if graph in table.graphs else {}


def section(title: str, rows: list[dict[str, Any]], published: dict[str, PublishedRow]) -> str:
    """Return the table of a graph, ordered by validation MRR."""
    rows.sort(key=lambda row: -row["valid"]["mrr"])
    lines = [
        f"## {title}, d={rows[0]['dim']}",
        "",
        "| model | best candidate | valid MRR of all | best epoch "
        "| test MRR | 95 % | H@1 | H@3 | H@10 |" + (" published |" if published else ""),
        "|---|---|---|---|---|---|---|---|---|" + ("---|" if published else ""),
    ]
    for row in rows:
        tried = row["valid_mrr_of_all"] | dict.fromkeys(row.get("failed", {}))
        cells = [
            row["model"],
            row["recipe"],
            ", ".join(
                f"{name} {'diverged' if mrr is None else format_metric(mrr)}"
                for name, mrr in tried.items()
            ),
            f"{row['best_epoch']} of {row['epochs']}",
            f"**{format_metric(row['test']['mrr'])}**",
            "–".join(format_metric(x) for x in row["test"]["mrr_95"]),
            *(format_metric(row["test"][key]) for key in METRICS[1:]),
        ]
        if published:
            printed = published.get(row["model"])
            values = printed.metrics[row["data"]].values() if printed else ()
            cells.append(" / ".join(f"{x:.2f}".lstrip("0") for x in values if x is not None))
        lines.append(f"| {' | '.join(cells)} |")
    minutes = max(row["minutes"] for row in rows)
    machines = {f"{row['machine']}, commit {row['commit']}" for row in rows}
    lines += ["", f"At most {minutes:g} minutes per candidate; {'; '.join(sorted(machines))}."]
    if published:
        source = published_table("table-nell").source
        dims = "5★E at d=100, MuRE and MuRP at d=200, ComplEx and QuatE presumably at d=200"
        lines.append(f"Published: {source} ({dims}).")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
