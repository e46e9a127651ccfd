"""The paper's tables of results: published rows, our rows from the ledger, and their formats.

Our cell holds the settings with the best validation MRR, independent of test; without a run it says
so. The published rows are data, in `paper_tables/NAME.toml`.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fivestar.errors import SettingsError
from fivestar.experiments.ledger import METRICS, Entry
from fivestar.experiments.searches import Search
from fivestar.files import make_folder, write_atomic
from fivestar.spelling import closest_names

NO_RUN = "no run yet"
# Factor by which the validation MRR may rise in the last third of a training that has converged.
_RISING = 1.03
_FOLDER = Path(__file__).with_name("paper_tables")
_COLUMNS = ("MRR", "H@1", "H@3", "H@10")
PublishedMetrics = dict[str, float | None]


@dataclass(frozen=True)
class PublishedRow:
    """A row as printed: metrics by graph, and the dimension where the paper gives it."""

    model: str
    label: str
    dim: int | None
    metrics: dict[str, PublishedMetrics]


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper."""

    name: str
    title: str
    source: str
    duration: str
    graphs: tuple[str, ...]
    dims: tuple[int, ...]
    rows: tuple[PublishedRow, ...]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each model in the paper; 5★E, its subject, comes first."""
        labels = {row.model: row.label for row in self.rows}
        return {"fivestar": labels.pop("fivestar"), **labels}


@dataclass(frozen=True)
class Cell:
    """The results of a model on a graph: the runs of the best settings, one per seed."""

    entries: tuple[Entry, ...]
    # The number of settings that were evaluated on test, so that readers can judge the selection.
    num_settings: int
    # The search that found the settings, if it is recorded.
    search: Search | None = None

    @property
    def test(self) -> dict[str, float]:
        """Mean test metrics over the seeds."""
        return self._mean("test")

    @property
    def valid(self) -> dict[str, float]:
        """Mean validation metrics over the seeds."""
        return self._mean("valid")

    @property
    def std(self) -> dict[str, float] | None:
        """Standard deviations of the test metrics over the seeds, if there are two or more."""
        runs = [entry.test.headline() for entry in self.entries]
        if len(runs) < 2:
            return None
        return {name: stdev(run[name] for run in runs) for name in METRICS}

    def _mean(self, split: str) -> dict[str, float]:
        runs = [getattr(entry, split).headline() for entry in self.entries]
        return {name: fmean(run[name] for run in runs) for name in METRICS}


@dataclass(frozen=True)
class OurRow:
    """Our results of a model at a dimension; a cell is None if there is no run yet."""

    model: str
    label: str
    dim: int
    cells: dict[str, Cell | None]


@dataclass(frozen=True)
class FilledTable:
    """A table of the paper with our rows."""

    published: PublishedTable
    ours: tuple[OurRow, ...]


def table_names() -> list[str]:
    """Return the names of all tables, which are those of their commands."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def published_table(name: str) -> PublishedTable:
    """Return a table as the paper prints it.

    Raises:
        SettingsError: There is no such table.

    >>> published_table("table-nell").graphs[0]
    'nell-995-h100'
    """
    if name not in table_names():
        near = closest_names(name, table_names())
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(table_names())}"
        raise SettingsError(f"no table {name!r}; {known}")
    values = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    graphs = tuple(values["graphs"])
    rows = []
    for row in values["rows"]:
        metrics = {
            graph: {
                key: None if printed == "-" else float(printed)
                for key, printed in zip(METRICS, row[graph], strict=True)
            }
            for graph in graphs
        }
        rows.append(PublishedRow(row["model"], row["label"], row.get("dim"), metrics))
    return PublishedTable(
        name=name,
        title=values["title"],
        source=values["source"],
        duration=values["duration"],
        graphs=graphs,
        dims=tuple(values["dims"]),
        rows=tuple(rows),
    )


def best_on_validation(entries: Iterable[Entry]) -> Cell | None:
    """Return the settings with the best validation MRR, averaged over their seeds.

    Args:
        entries: Runs of one model on one graph.
    """
    by_settings: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_settings[entry.settings].append(entry)
    if not by_settings:
        return None
    # The hash breaks ties, so that the same ledger always gives the same table.
    best = max(by_settings, key=lambda it: (fmean(e.valid.mrr for e in by_settings[it]), it))
    runs = sorted(by_settings[best], key=lambda entry: entry.seed)
    return Cell(tuple(runs), len(by_settings))


def table_cell(ledger: Sequence[Entry], data: str, model: str, dim: int) -> Cell | None:
    """Return the cell of a model at a dimension on a graph."""
    return best_on_validation(e for e in ledger if (e.data, e.model, e.dim) == (data, model, dim))


def fill_table(
    table: PublishedTable,
    ledger: Sequence[Entry],
    dims: Sequence[int] | None = None,
    searches: Sequence[Search] = (),
) -> FilledTable:
    """Return the table with our rows: those of the paper, and those that have a run.

    5★E is shown at every dimension of the table, the other models at the smallest.

    Args:
        table: The table of the paper.
        ledger: The lines of the ledger.
        dims: Further dimensions to show, even without a run.
        searches: The recorded searches, for how the settings of a cell were found.
    """
    rows = []
    for model, label in table.labels.items():
        shown = set(table.dims if model == "fivestar" else (min(table.dims),)) | set(dims or ())
        run = {e.dim for e in ledger if e.model == model and e.data in table.graphs}
        for dim in sorted(shown | run):
            cells = {
                graph: _with_search(table_cell(ledger, graph, model, dim), searches)
                for graph in table.graphs
            }
            rows.append(OurRow(model, label, dim, cells))
    return FilledTable(table, tuple(rows))


def _with_search(cell: Cell | None, searches: Sequence[Search]) -> Cell | None:
    if cell is None:
        return None
    first = cell.entries[0]
    found = (s for s in searches if (s.data, s.settings) == (first.data, first.settings))
    return replace(cell, search=next(found, None))


def write_table(table: FilledTable, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.tex and NAME.json, and return their paths."""
    make_folder(folder)
    written = []
    texts = {".md": as_markdown(table), ".tex": as_latex(table), ".json": as_json(table)}
    for suffix, text in texts.items():
        path = folder / f"{table.published.name}{suffix}"
        write_atomic(path, text.encode())
        written.append(path)
    return written


def as_markdown(table: FilledTable) -> str:
    """Return the table as Markdown, one section per graph, our rows below the published ones."""
    parts = []
    for graph in table.published.graphs:
        lines = [
            f"### {graph}",
            "",
            f"| model | d | | {' | '.join(_COLUMNS)} | selected by | runs |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for model in table.published.labels:
            for row in (row for row in table.published.rows if row.model == model):
                cells = " | ".join(_published_cells(row.metrics[graph]))
                lines.append(f"| {row.label} | {row.dim or ''} | published | {cells} | | |")
            lines += [_our_line(row, graph) for row in table.ours if row.model == model]
        parts.append("\n".join(lines))
    parts.append(f"Published: {table.published.source}.")
    return "\n\n".join(parts) + "\n"


def _our_line(row: OurRow, graph: str) -> str:
    cell = row.cells[graph]
    if cell is None:
        return f"| {row.label} | {row.dim} | ours | {NO_RUN} | | | | | |"
    selected = f"valid MRR {format_metric(cell.valid['mrr'])}, of {cell.num_settings}"
    if cell.search is not None:
        selected += f"; {describe_search(cell.search)}"
    metrics = " | ".join(f"**{text}**" if text else "" for text in _our_cells(cell, " ± "))
    return f"| {row.label} | {row.dim} | ours | {metrics} | {selected} | {_runs(cell)} |"


def describe_search(search: Search) -> str:
    """Return the number of settings that a search tried, and its time."""
    return f"{search.settings_tried} settings in {search.kind.describe()}"


def _runs(cell: Cell) -> str:
    seeds = ", ".join(str(entry.seed) for entry in cell.entries)
    epochs = ", ".join(f"{entry.best_epoch} of {entry.epochs}" for entry in cell.entries)
    minutes = ", ".join(f"{entry.minutes:.1f}" for entry in cell.entries)
    word = "seed" if len(cell.entries) == 1 else "seeds"
    text = f"{word} {seeds}; epoch {epochs}; {minutes} min"
    slow = [entry.minutes for entry in cell.entries if not is_converged(entry)]
    if slow:
        text += f"; **not converged** in {max(slow):.1f} min"
    return text


def is_converged(entry: Entry) -> bool:
    """Return whether the validation MRR of a run had stopped rising when its training ended.

    It had not if the last epoch is the best one, and either the time limit ended the training, or
    the MRR had risen by more than 3 % in the last third of the epochs.
    """
    if entry.best_epoch < entry.epochs:
        return True
    limit = entry.settings_values["training"].get("max_minutes", 0)
    if limit and entry.minutes >= limit:
        return False
    before = [mrr for epoch, _, mrr in entry.curve or () if epoch <= entry.epochs * 2 / 3]
    return not before or entry.valid.mrr <= _RISING * before[-1]


def as_latex(table: FilledTable) -> str:
    """Return the table as a LaTeX `tabular` for booktabs, all graphs side by side."""
    graphs = table.published.graphs
    columns = "ll" + "rrrr" * len(graphs)
    titles = " & ".join(rf"\multicolumn{{4}}{{c}}{{{_tex(graph)}}}" for graph in graphs)
    lines = [
        f"% {table.published.title}; from the results ledger, by fivestar reproduce",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"Model & & {titles} \\",
        " & & " + " & ".join(_COLUMNS * len(graphs)) + r" \\",
        r"\midrule",
    ]
    for model in table.published.labels:
        for row in (row for row in table.published.rows if row.model == model):
            dim = f" $d={row.dim}$" if row.dim else ""
            cells = [text for graph in graphs for text in _published_cells(row.metrics[graph])]
            lines.append(_tex_row(row.label + dim, "published", cells))
        for ours in (row for row in table.ours if row.model == model):
            cells = []
            for graph in graphs:
                cell = ours.cells[graph]
                none = rf"\multicolumn{{4}}{{c}}{{{NO_RUN}}}"
                cells += [none] if cell is None else _our_cells(cell, r"\,$\pm$\,")
            lines.append(_tex_row(f"{ours.label} $d={ours.dim}$", "ours", cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_json(table: FilledTable) -> str:
    """Return the table as JSON, unrounded, with the ledger lines of each cell."""
    published = table.published
    rows: list[dict[str, Any]] = [
        {"model": row.model, "dim": row.dim, "by": "published", "test": row.metrics}
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
        "settings_ranked_on_test": cell.num_settings,
        "valid": cell.valid,
        "test": cell.test,
        "test_standard_deviation": cell.std,
        "converged": all(is_converged(entry) for entry in cell.entries),
        "search": None if cell.search is None else cell.search.model_dump(exclude={"trials"}),
        "runs": [json.loads(entry.as_line()) for entry in cell.entries],
    }


def _published_cells(metrics: PublishedMetrics) -> list[str]:
    """Return two digits, as the paper prints them."""
    return [
        "–" if value is None else f"{value:.2f}".removeprefix("0") for value in metrics.values()
    ]


def _our_cells(cell: Cell, plus_minus: str) -> list[str]:
    test, std = cell.test, cell.std
    if std is None:
        return [format_metric(test[name]) for name in METRICS]
    return [
        f"{format_metric(test[name])}{plus_minus}{format_metric(std[name])}" for name in METRICS
    ]


def format_metric(value: float) -> str:
    """Return a metric with three digits and without its leading zero.

    >>> format_metric(0.3765), format_metric(1.0)
    ('.377', '1.000')
    """
    return f"{value:.3f}".removeprefix("0")


def _tex_row(label: str, by: str, cells: list[str]) -> str:
    return " & ".join([_tex(label), by, *cells]) + r" \\"


def _tex(text: str) -> str:
    return text.replace("★", r"$^\bigstar$").replace("–", "--")
