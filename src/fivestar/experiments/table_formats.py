"""A table of results as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fivestar.experiments.ledger import FIGURES
from fivestar.experiments.tables import Cell, FilledTable, OurRow, Printed
from fivestar.files import write_atomic

NO_RUN = "no run yet"
_HEADS = ("MRR", "H@1", "H@3", "H@10")


def write_table(table: FilledTable, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.tex and NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    texts = {".md": as_markdown(table), ".tex": as_latex(table), ".json": as_json(table)}
    for suffix, text in texts.items():
        path = folder / f"{table.published.name}{suffix}"
        write_atomic(path, text.encode())
        written.append(path)
    return written


def as_markdown(table: FilledTable) -> str:
    """One part a graph: a model's published rows, and ours below them."""
    parts = []
    for graph in table.published.graphs:
        lines = [
            f"### {graph}",
            "",
            f"| model | d | | {' | '.join(_HEADS)} | chosen by | runs |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for model in table.published.labels:
            for printed in (row for row in table.published.rows if row.model == model):
                cells = _printed(printed.figures[graph])
                lines.append(
                    f"| {printed.label} | {printed.dim or ''} | published | {' | '.join(cells)} "
                    "| | |"
                )
            lines += [_our_line(row, graph) for row in table.ours if row.model == model]
        parts.append("\n".join(lines))
    parts.append(f"Published: {table.published.source}.")
    return "\n\n".join(parts) + "\n"


def _our_line(row: OurRow, graph: str) -> str:
    cell = row.cells[graph]
    if cell is None:
        return f"| {row.label} | {row.dim} | ours | {NO_RUN} | | | | | |"
    chosen = f"valid MRR {shown(cell.valid['mrr'])}, of {cell.tried}"
    figures = " | ".join(f"**{text}**" if text else "" for text in _ours(cell, " ± "))
    return f"| {row.label} | {row.dim} | ours | {figures} | {chosen} | {runs_of(cell)} |"


def runs_of(cell: Cell) -> str:
    """Seeds and epochs in a few words."""
    seeds = ", ".join(str(entry.seed) for entry in cell.entries)
    epochs = ", ".join(str(entry.best_epoch) for entry in cell.entries)
    word = "seed" if len(cell.entries) == 1 else "seeds"
    return f"{word} {seeds}; epoch {epochs}"


def as_latex(table: FilledTable) -> str:
    """A `tabular` for booktabs, all graphs side by side."""
    graphs = table.published.graphs
    columns = "ll" + "rrrr" * len(graphs)
    heads = " & ".join(rf"\multicolumn{{4}}{{c}}{{{_tex(graph)}}}" for graph in graphs)
    lines = [
        f"% {table.published.title}; from the ledger of results, by fivestar reproduce",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"Model & & {heads} \\",
        " & & " + " & ".join(_HEADS * len(graphs)) + r" \\",
        r"\midrule",
    ]
    for model in table.published.labels:
        for printed in (row for row in table.published.rows if row.model == model):
            dim = f" $d={printed.dim}$" if printed.dim else ""
            cells = [text for graph in graphs for text in _printed(printed.figures[graph])]
            lines.append(_tex_row(printed.label + dim, "published", cells))
        for row in (row for row in table.ours if row.model == model):
            cells = []
            for graph in graphs:
                cell = row.cells[graph]
                none = rf"\multicolumn{{4}}{{c}}{{{NO_RUN}}}"
                cells += [none] if cell is None else _ours(cell, r"\,$\pm$\,")
            lines.append(_tex_row(f"{row.label} $d={row.dim}$", "ours", cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(table: FilledTable) -> str:
    """Everything, unrounded, with the settings and lines that each cell is from."""
    published = table.published
    rows: list[dict[str, Any]] = [
        {"model": row.model, "dim": row.dim, "by": "published", "test": row.figures}
        for row in published.rows
    ]
    rows += [
        {
            "model": row.model,
            "dim": row.dim,
            "by": "ours",
            "cells": {graph: _cell_json(cell) for graph, cell in row.cells.items()},
        }
        for row in table.ours
    ]
    whole = {"table": published.name, "title": published.title, "source": published.source}
    whole_json = whole | {"graphs": list(published.graphs), "rows": rows}
    return json.dumps(whole_json, indent=1, ensure_ascii=False) + "\n"


def _cell_json(cell: Cell | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    return {
        "settings": cell.entries[0].settings,
        "settings_ranked_on_test": cell.tried,
        "valid": cell.valid,
        "test": cell.test,
        "test_standard_deviation": cell.spread,
        "runs": [json.loads(entry.as_line()) for entry in cell.entries],
    }


def _printed(figures: Printed) -> list[str]:
    """Two digits, as the paper prints them."""
    return [
        "–" if value is None else f"{value:.2f}".removeprefix("0") for value in figures.values()
    ]


def _ours(cell: Cell, plus_minus: str) -> list[str]:
    found = cell.test
    spread = cell.spread
    texts = [shown(found[name]) for name in FIGURES]
    if spread is None:
        return texts
    return [
        f"{text}{plus_minus}{shown(spread[name])}"
        for text, name in zip(texts, FIGURES, strict=True)
    ]


def shown(value: float) -> str:
    """Three digits, without the zero that every figure has.

    >>> shown(0.3765), shown(1.0)
    ('.377', '1.000')
    """
    return f"{value:.3f}".removeprefix("0")


def _tex_row(label: str, by: str, cells: list[str]) -> str:
    return " & ".join([_tex(label), by, *cells]) + r" \\"


def _tex(text: str) -> str:
    return text.replace("★", r"$^\bigstar$").replace("–", "--")
