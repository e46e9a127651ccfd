"""Recorded searches: how the settings of a cell were chosen, and what that cost.

One JSON object per line of `searches.jsonl`, beside the ledger: a model on a graph at a dimension,
the time it was given, and every trial of its search. The run that was trained with the best
settings is a line of the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fivestar.errors import DamagedLedger
from fivestar.experiments.records import append_record, read_records
from fivestar.runs.identity import HASH_DIGITS, settings_hash
from fivestar.runs.run import TRIALS, Run

# What the time of a search counts: wall time, or the CPU time of its one thread.
BudgetClock = Literal["wall", "cpu"]


class SearchKind(NamedTuple):
    """What two searches must have in common to be equal; the first fields weigh most."""

    seconds: float
    clock: BudgetClock
    data: str
    dim: int

    def describe(self) -> str:
        """Return the time, and what it counts."""
        return f"{self.seconds / 60:g} min{' of CPU time' if self.clock == 'cpu' else ''}"


class Search(BaseModel):
    """A search for the settings of a model on a graph within a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    model: str
    dim: int = Field(ge=1)
    seed: int = Field(ge=0)
    seconds: float = Field(gt=0)
    seconds_used: float = Field(ge=0)
    clock: BudgetClock = "wall"
    # Settings, by section, that were not searched.
    fixed: dict[str, Any] = Field(default_factory=dict)
    settings_tried: int = Field(ge=0)
    # Hash of the settings that were chosen, as in the ledger.
    settings: str = Field(pattern=f"^[0-9a-f]{{{HASH_DIGITS}}}$")
    valid_mrr: float = Field(ge=0, le=1)
    default_valid_mrr: float | None = None
    trials: tuple[dict[str, Any], ...] = ()
    machine: str
    commit: str
    date: str

    @property
    def cell(self) -> tuple[str, str, int]:
        """Graph, model and dimension."""
        return self.data, self.model, self.dim

    @property
    def kind(self) -> SearchKind:
        """Graph, dimension and time."""
        return SearchKind(self.seconds, self.clock, self.data, self.dim)


def searches_of(ledger: Path) -> Path:
    """Return the file of the searches that belong to a ledger."""
    return ledger.with_name("searches.jsonl")


def read_searches(ledger: Path) -> list[Search]:
    """Read all searches that belong to a ledger; none if there is no such file.

    Raises:
        DamagedLedger: A line is invalid.
    """
    path = searches_of(ledger)
    searches = []
    for number, record in enumerate(read_records(path), start=1):
        try:
            searches.append(Search.model_validate(record))
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise DamagedLedger(
                f"{path}, line {number}: {problem}; restore the line as it was written"
            ) from error
    return searches


def find_search(
    searches: Sequence[Search],
    cell: tuple[str, str, int],
    seconds: float,
    clock: BudgetClock,
    fixed: Mapping[str, Any],
) -> Search | None:
    """Return the search of a cell (graph, model, dimension) with this time and fixed settings."""
    wanted = cell, seconds, clock, fixed
    return next((s for s in searches if (s.cell, s.seconds, s.clock, s.fixed) == wanted), None)


def record_search(
    run: Run, folder: Path, ledger: Path, clock: BudgetClock, fixed: Mapping[str, Any]
) -> Search:
    """Add the search of a run that was trained within a time budget.

    Args:
        run: The run.
        folder: Its folder, which lists the trials.
        ledger: The ledger that the run belongs to.
        clock: What its time counted.
        fixed: The settings that were not searched.
    """
    budget, settings = run.metrics["budget"], run.settings
    line = {
        "data": run.graph.name,
        "model": settings.model.name,
        "dim": settings.model.dim,
        "seed": settings.training.seed,
        "seconds": budget["seconds"],
        "seconds_used": budget["seconds_used"],
        "clock": clock,
        "fixed": dict(fixed),
        "settings_tried": budget["trials"],
        "settings": settings_hash(settings),
        "valid_mrr": round(run.metrics["valid"]["mrr"], 6),
        "default_valid_mrr": budget["default_valid_mrr"],
        "trials": read_records(folder / TRIALS),
    }
    return Search.model_validate(append_record(searches_of(ledger), line))
