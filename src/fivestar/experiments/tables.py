"""The paper's tables of results: the published rows, and ours from the ledger beside them.

A cell of ours is the settings that won on validation, whatever the test says; where there is no
run, the cell says so.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from fivestar.errors import SettingsError
from fivestar.experiments.ledger import FIGURES, Entry
from fivestar.spelling import closest_names

_FOLDER = Path(__file__).with_name("published")
Printed = dict[str, float | None]


@dataclass(frozen=True)
class PublishedRow:
    """A row as printed; `dim` where the paper tells it. Figures by graph and name."""

    model: str
    label: str
    dim: int | None
    figures: dict[str, Printed]


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper."""

    name: str
    title: str
    source: str
    takes: str
    graphs: tuple[str, ...]
    dims: tuple[int, ...]
    rows: tuple[PublishedRow, ...]

    @property
    def labels(self) -> dict[str, str]:
        """Its models with the names that the paper gives them; 5★E first, the subject of it."""
        labels = {row.model: row.label for row in self.rows}
        return {"fivestar": labels.pop("fivestar"), **labels}


@dataclass(frozen=True)
class Cell:
    """What one model gave on one graph: the runs of the settings that won, a seed each."""

    entries: tuple[Entry, ...]
    # How many settings were ranked on test, so that a reader can judge how much was chosen from.
    tried: int

    @property
    def test(self) -> dict[str, float]:
        """Means over the seeds."""
        return self._mean("test")

    @property
    def valid(self) -> dict[str, float]:
        """Means over the seeds."""
        return self._mean("valid")

    @property
    def spread(self) -> dict[str, float] | None:
        """Standard deviations of the test figures over the seeds, if there are two or more."""
        found = [entry.test.headline() for entry in self.entries]
        if len(found) < 2:
            return None
        return {name: stdev(figures[name] for figures in found) for name in FIGURES}

    def _mean(self, split: str) -> dict[str, float]:
        found = [getattr(entry, split).headline() for entry in self.entries]
        return {name: fmean(figures[name] for figures in found) for name in FIGURES}


@dataclass(frozen=True)
class OurRow:
    """A model at a dimension; no cell where there is no run yet."""

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
    """All tables, by the name of their command."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def published_table(name: str) -> PublishedTable:
    """A table as the paper prints it."""
    if name not in table_names():
        near = closest_names(name, table_names())
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(table_names())}"
        raise SettingsError(f"no table {name!r}; {known}")
    values = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    graphs = tuple(values["graphs"])
    rows = []
    for row in values["rows"]:
        figures = {
            graph: {
                key: None if printed == "-" else float(printed)
                for key, printed in zip(FIGURES, row[graph], strict=True)
            }
            for graph in graphs
        }
        rows.append(PublishedRow(row["model"], row["label"], row.get("dim"), figures))
    return PublishedTable(
        name=name,
        title=values["title"],
        source=values["source"],
        takes=values["takes"],
        graphs=graphs,
        dims=tuple(values["dims"]),
        rows=tuple(rows),
    )


def winner(entries: Iterable[Entry]) -> Cell | None:
    """Of runs on one graph, the settings with the best validation MRR, the mean of their seeds."""
    by_settings: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_settings[entry.settings].append(entry)
    if not by_settings:
        return None
    # The hash only decides between equals, so that the same ledger gives the same table.
    best = max(by_settings, key=lambda it: (fmean(e.valid.mrr for e in by_settings[it]), it))
    runs = sorted(by_settings[best], key=lambda entry: entry.seed)
    return Cell(tuple(runs), len(by_settings))


def cell_of(ledger: Sequence[Entry], data: str, model: str, dim: int) -> Cell | None:
    """The cell of a model at a dimension on a graph."""
    return winner(e for e in ledger if (e.data, e.model, e.dim) == (data, model, dim))


def filled(
    table: PublishedTable, ledger: Sequence[Entry], dims: Sequence[int] | None = None
) -> FilledTable:
    """The table with our rows: those the paper has, and those of which there is a run.

    The paper has 5★E at every dimension of the table, and the others at some; they stand here at
    the smallest. `dims` are further ones to show, run or not.
    """
    rows = []
    for model, label in table.labels.items():
        wanted = set(table.dims if model == "fivestar" else (min(table.dims),)) | set(dims or ())
        run = {e.dim for e in ledger if e.model == model and e.data in table.graphs}
        for dim in sorted(wanted | run):
            cells = {graph: cell_of(ledger, graph, model, dim) for graph in table.graphs}
            rows.append(OurRow(model, label, dim, cells))
    return FilledTable(table, tuple(rows))
