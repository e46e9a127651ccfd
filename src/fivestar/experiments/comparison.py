"""Whether one model beats another on test, in pairs: both were asked the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fivestar.errors import DamagedLedger
from fivestar.evaluation.paired import Difference, Reciprocals, mrr_difference
from fivestar.experiments.kept_ranks import load_ranks
from fivestar.experiments.ledger import Entry
from fivestar.experiments.table_formats import shown
from fivestar.experiments.tables import Cell, cell_of


@dataclass(frozen=True)
class Comparison:
    """Two models on a graph at a dimension, each with its best settings on validation.

    Of those whose ranks were kept: without ranks there is nothing to compare.
    """

    data: str
    dim: int
    models: tuple[str, str]
    cells: tuple[Cell, Cell]
    # None where the ranks of a run were not kept.
    difference: Difference | None

    @property
    def verdict(self) -> str:
        """In words: better, worse or not told apart, at 95 %."""
        if self.difference is None:
            return "ranks not kept"
        if self.difference.low > 0:
            return f"{self.models[0]} is better"
        return f"{self.models[1]} is better" if self.difference.high < 0 else "not told apart"

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "data": self.data,
            "dim": self.dim,
            "models": {
                name: {
                    "settings": cell.entries[0].settings,
                    "seeds": [entry.seed for entry in cell.entries],
                    "mrr": cell.test["mrr"],
                }
                for name, cell in zip(self.models, self.cells, strict=True)
            },
            "difference": None if self.difference is None else self.difference._asdict(),
            "verdict": self.verdict,
        }

    def as_row(self) -> list[str]:
        """For a table of comparisons; `HEADS` are its columns."""
        found = self.difference
        mrrs = (
            f"{shown(cell.test['mrr'])} ({len(cell.entries)} run{'s'[: len(cell.entries) - 1]})"
            for cell in self.cells
        )
        gap = ["", "", ""]
        if found is not None:
            gap = [f"{found.mrr:+.4f}", f"{found.low:+.4f} to {found.high:+.4f}", f"{found.p:.3g}"]
        names = [f"{name} {mrr}" for name, mrr in zip(self.models, mrrs, strict=True)]
        return [self.data, str(self.dim), *names, *gap, self.verdict]


HEADS = ("graph", "d", "MRR", "MRR of the other", "difference", "95 %", "p", "so")


def comparisons(
    ledger: Sequence[Entry], folder: Path, first: str, second: str, graphs: Iterable[str] = ()
) -> list[Comparison]:
    """Two models wherever both have runs, on these graphs or on all; `folder` is the ledger's."""
    asked = set(graphs)
    places = sorted({(e.data, e.dim) for e in ledger if not asked or e.data in asked})
    found = []
    for data, dim in places:
        cells = _cell(ledger, data, first, dim), _cell(ledger, data, second, dim)
        if cells[0] is not None and cells[1] is not None:
            pair = (cells[0], cells[1])
            gap = _difference(pair, folder)
            found.append(Comparison(data, dim, (first, second), pair, gap))
    return found


def _cell(ledger: Sequence[Entry], data: str, model: str, dim: int) -> Cell | None:
    """The winner on validation of the settings whose ranks were kept, or of all if none were."""
    lost = {(e.data, e.settings) for e in ledger if e.ranks is None}
    kept = [e for e in ledger if (e.data, e.settings) not in lost]
    return cell_of(kept, data, model, dim) or cell_of(ledger, data, model, dim)


def _difference(cells: tuple[Cell, Cell], folder: Path) -> Difference | None:
    if any(entry.ranks is None for cell in cells for entry in cell.entries):
        return None
    (first, one), (second, other) = (_reciprocals(cell, folder) for cell in cells)
    if one != other:
        raise DamagedLedger(
            f"{folder}: {cells[0].entries[0].model} and {cells[1].entries[0].model} were ranked on "
            f"different test triples of {cells[0].entries[0].data}, so they cannot be compared"
        )
    return mrr_difference(first, second)


def _reciprocals(cell: Cell, folder: Path) -> tuple[Reciprocals, set[str]]:
    """(runs, triples), and which questions they were."""
    kept = [load_ranks(str(entry.ranks), folder) for entry in cell.entries]
    questions = {each.questions for each in kept}
    return np.stack([each.reciprocal.mean(axis=1) for each in kept]), questions
