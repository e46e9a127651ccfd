"""Write docs/models.md: the tables of compare.py, from results/ledger.jsonl and nothing else.

python experiments/models/table.py
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from fivestar.experiments.ledger import read_ledger

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FIGURES = ("mrr", "hits@1", "hits@3", "hits@10")
GRAPHS = {
    "demo": "the embedded graph",
    "umls": "UMLS",
    "kinships": "Kinships",
    "nell-995-h100": "NELL-995-h100",
}


def main() -> None:
    """One section a graph."""
    lines = [json.loads(entry.as_line()) for entry in read_ledger(ROOT / "results/ledger.jsonl")]
    mine = [line for line in lines if line["experiment"].startswith("models/")]
    published = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
    text = [(HERE / "about.md").read_text(encoding="utf-8").rstrip()]
    for name, title in GRAPHS.items():
        rows = [line for line in mine if line["data"] == name]
        if rows:
            text.append(section(title, rows, published.get(name, {})))
    text.append((HERE / "other_tasks.md").read_text(encoding="utf-8").rstrip())
    (ROOT / "docs" / "models.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def section(title: str, rows: list[dict[str, Any]], published: dict[str, Any]) -> str:
    """The table of a graph, the best validation first."""
    rows.sort(key=lambda row: -row["valid"]["mrr"])
    lines = [
        f"## {title}, d={rows[0]['dim']}",
        "",
        "| model | chosen | valid MRR of all tried | epochs | test MRR | 95 % | H@1 | H@3 | H@10 |"
        + (" published |" if published else ""),
        "|---|---|---|---|---|---|---|---|---|" + ("---|" if published else ""),
    ]
    for row in rows:
        tried = row["valid_mrr_of_all"] | dict.fromkeys(row.get("failed", {}))
        cells = [
            row["model"],
            row["recipe"],
            ", ".join(
                f"{name} {'diverged' if x is None else shown(x)}" for name, x in tried.items()
            ),
            f"{row['best_epoch']} of {row['epochs']}",
            f"**{shown(row['test']['mrr'])}**",
            "–".join(shown(x) for x in row["test"]["mrr_95"]),
            *(shown(row["test"][key]) for key in FIGURES[1:]),
        ]
        if published:
            theirs = published.get(row["model"])
            cells.append(" / ".join(f"{x:.2f}".lstrip("0") for x in theirs) if theirs else "")
        lines.append(f"| {' | '.join(cells)} |")
    minutes = max(row["minutes"] for row in rows)
    machines = {f"{row['machine']}, commit {row['commit']}" for row in rows}
    lines += ["", f"At most {minutes:g} minutes a candidate; {'; '.join(sorted(machines))}."]
    if published:
        lines.append(f"Published: {published['source']}.")
    return "\n".join(lines)


def shown(value: float) -> str:
    """Three digits, as papers print them."""
    return f"{value:.3f}".lstrip("0")


if __name__ == "__main__":
    main()
