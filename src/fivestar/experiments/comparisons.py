"""Paired comparisons of two models on the ranks recorded in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fivestar.errors import DamagedLedger
from fivestar.evaluation.metrics import Difference, Reciprocals, mrr_difference
from fivestar.experiments.ledger import Entry
from fivestar.experiments.reproduction import found_settings
from fivestar.experiments.saved_ranks import load_ranks
from fivestar.experiments.searches import Search, SearchKind
from fivestar.experiments.tables import Cell, best_on_validation, format_metric, table_cell
from fivestar.runs.identity import settings_hash

COMPARISON_COLUMNS = (
    *("graph", "d", "MRR", "MRR of the other", "search"),
    *("difference", "95 %", "p", "verdict"),
)

_OTHER_RUNS = ", not of the table"


@dataclass(frozen=True)
class Comparison:
    """Two models on a graph at a dimension, each with its best settings on validation.

    Settings whose ranks were saved are preferred: without ranks there is nothing to compare.
    """

    data: str
    dim: int
    models: tuple[str, str]
    cells: tuple[Cell, Cell]
    # None if the ranks of a run were not saved.
    difference: Difference | None
    # The equal search for the settings of each model; None: not the same, or not recorded.
    search: SearchKind | None = None
    # Whether the runs are those of the results tables, which need no saved ranks.
    in_table: tuple[bool, bool] = (True, True)

    @property
    def verdict(self) -> str:
        """Which model is better at the 95 % level."""
        if self.difference is None:
            return "ranks not saved"
        if self.difference.low > 0:
            return f"{self.models[0]} is better"
        if self.difference.high < 0:
            return f"{self.models[1]} is better"
        return "no significant difference"

    def as_json(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "data": self.data,
            "dim": self.dim,
            "models": {
                name: {
                    "settings": cell.entries[0].settings,
                    "seeds": [entry.seed for entry in cell.entries],
                    "mrr": cell.test["mrr"],
                    "in_table": same,
                }
                for name, cell, same in zip(self.models, self.cells, self.in_table, strict=True)
            },
            "equal_search_seconds": None if self.search is None else self.search.seconds,
            "difference": None if self.difference is None else self.difference._asdict(),
            "verdict": self.verdict,
        }

    def as_row(self) -> list[str]:
        """Return the row of a table with the columns `COMPARISON_COLUMNS`."""
        gap = self.difference
        mrrs = (
            f"{format_metric(cell.test['mrr'])} "
            f"({len(cell.entries)} run{'s'[: len(cell.entries) - 1]}{'' if same else _OTHER_RUNS})"
            for cell, same in zip(self.cells, self.in_table, strict=True)
        )
        numbers = ["", "", ""]
        if gap is not None:
            numbers = [f"{gap.mrr:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}", f"{gap.p:.3g}"]
        names = [f"{name} {mrr}" for name, mrr in zip(self.models, mrrs, strict=True)]
        return [
            *(self.data, str(self.dim), *names),
            *(describe_equal_search(self.search, self.data, self.dim), *numbers, self.verdict),
        ]


def describe_equal_search(search: SearchKind | None, data: str, dim: int) -> str:
    """Return what two models had in common when their settings were searched."""
    if search is None:
        return "not equal"
    text = f"{search.describe()} each"
    if search.data != data:
        text += f", on {search.data}"
    return text if search.dim == dim else f"{text}, at d = {search.dim}"


def compare_models(
    ledger: Sequence[Entry],
    folder: Path,
    first: str,
    second: str,
    graphs: Iterable[str] = (),
    searches: Sequence[Search] = (),
) -> list[Comparison]:
    """Compare two models in a paired test, on each graph and dimension where both have runs.

    Args:
        ledger: The lines of the ledger.
        folder: The folder of the ledger, which has the ranks.
        first: Name of a model.
        second: Name of the other model.
        graphs: Only these graphs; all if empty.
        searches: The recorded searches. Where both models were given the same time to search, on
            this graph or both on another, the settings that these searches found are compared.
    """
    only = set(graphs)
    compared = []
    for data, dim in sorted({(e.data, e.dim) for e in ledger if not only or e.data in only}):
        search, cells = _equally_searched(ledger, searches, (data, dim), (first, second))
        if search is None:
            cells = [_comparable_cell(ledger, data, model, dim) for model in (first, second)]
        one, other = cells
        if one is not None and other is not None:
            difference = _difference((one, other), folder)
            compared.append(
                Comparison(
                    data,
                    dim,
                    (first, second),
                    (one, other),
                    difference,
                    search,
                    (_is_in_table(one, ledger), _is_in_table(other, ledger)),
                )
            )
    return compared


def _is_in_table(cell: Cell, ledger: Sequence[Entry]) -> bool:
    first = cell.entries[0]
    shown = table_cell(ledger, first.data, first.model, first.dim)
    return shown is not None and shown.entries == cell.entries


def _equally_searched(
    ledger: Sequence[Entry],
    searches: Sequence[Search],
    place: tuple[str, int],
    models: tuple[str, str],
) -> tuple[SearchKind | None, list[Cell | None]]:
    """Return the best search that both models had, and the cells of the settings found in it.

    One on the graph itself is better than one on another graph, and more time than less.
    """
    found = [_searched_cells(ledger, searches, place, model) for model in models]
    common = set(found[0]) & set(found[1])
    if not common:
        return None, []
    best = max(common, key=lambda kind: ((kind.data, kind.dim) == place, kind))
    return best, [cells[best] for cells in found]


def _searched_cells(
    ledger: Sequence[Entry], searches: Sequence[Search], place: tuple[str, int], model: str
) -> dict[SearchKind, Cell | None]:
    """Return the cells of a model whose settings a search found, for runs with saved ranks."""
    data, dim = place
    cells: dict[SearchKind, Cell | None] = {}
    for search in searches:
        if search.model != model:
            continue
        cell = searched_cell(search, data, dim, [entry for entry in ledger if entry.ranks])
        if cell is not None:
            cells[search.kind] = cell
    return cells


def searched_cell(search: Search, data: str, dim: int, ledger: Sequence[Entry]) -> Cell | None:
    """Return the runs on a graph and at a dimension with the settings that a search found."""
    source = next(
        (e for e in ledger if (e.data, e.settings) == (search.data, search.settings)), None
    )
    if source is None:
        return None
    settings = settings_hash(found_settings(source, data, dim))
    return best_on_validation(e for e in ledger if (e.data, e.settings) == (data, settings))


def _comparable_cell(ledger: Sequence[Entry], data: str, model: str, dim: int) -> Cell | None:
    """Return the best settings on validation whose ranks were saved, or of all if none were."""
    without = {(e.data, e.settings) for e in ledger if e.ranks is None}
    with_ranks = [e for e in ledger if (e.data, e.settings) not in without]
    return table_cell(with_ranks, data, model, dim) or table_cell(ledger, data, model, dim)


def _difference(cells: tuple[Cell, Cell], folder: Path) -> Difference | None:
    if any(entry.ranks is None for cell in cells for entry in cell.entries):
        return None
    (first, triples), (second, other_triples) = (reciprocal_ranks(cell, folder) for cell in cells)
    if triples != other_triples:
        raise DamagedLedger(
            f"{folder}: {cells[0].entries[0].model} and {cells[1].entries[0].model} were ranked on "
            f"different test triples of {cells[0].entries[0].data}, so they cannot be compared"
        )
    return mrr_difference(first, second)


def reciprocal_ranks(cell: Cell, folder: Path) -> tuple[Reciprocals, set[str]]:
    """Return the mean reciprocal ranks (runs, triples), and the hashes of the triples."""
    saved = [load_ranks(str(entry.ranks), folder) for entry in cell.entries]
    hashes = {ranks.triples_hash for ranks in saved}
    return np.stack([ranks.reciprocal.mean(axis=1) for ranks in saved]), hashes
