"""Recorded searches: how the settings of a cell were chosen, and what that cost.

One JSON object per line of `searches.jsonl`, beside the ledger: a model on a graph at a dimension,
the time it was given, and every trial of its search. The run that was trained with the best
settings is a line of the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fivestar.errors import DamagedLedger, OutputError
from fivestar.experiments.ledger import provenance
from fivestar.files import file_lock, write_atomic
from fivestar.runs.identity import HASH_DIGITS, settings_hash
from fivestar.runs.run import TRIALS, Run


class Search(BaseModel):
    """A search for the settings of a model on a graph within a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    model: str
    dim: int = Field(ge=1)
    seed: int = Field(ge=0)
    seconds: float = Field(gt=0)
    seconds_used: float = Field(ge=0)
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


def searches_of(ledger: Path) -> Path:
    """Return the file of the searches that belong to a ledger."""
    return ledger.with_name("searches.jsonl")


def read_searches(ledger: Path) -> list[Search]:
    """Read all searches that belong to a ledger; none if there is no such file.

    Raises:
        DamagedLedger: A line is invalid.
    """
    path = searches_of(ledger)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedLedger(f"{path}: cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Search.model_validate_json(line))
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise DamagedLedger(
                f"{path}, line {number}: {problem}; restore the line as it was written"
            ) from error
    return found


def find_search(
    searches: Sequence[Search], cell: tuple[str, str, int], seconds: float
) -> Search | None:
    """Return the search of a cell (graph, model, dimension) that was given this time."""
    return next((s for s in searches if s.cell == cell and s.seconds == seconds), None)


def record_search(run: Run, folder: Path, ledger: Path) -> Search:
    """Add the search of a run that was trained within a time budget.

    Args:
        run: The run.
        folder: Its folder, which lists the trials.
        ledger: The ledger that the run belongs to.
    """
    budget, settings = run.metrics["budget"], run.settings
    search = Search(
        data=run.graph.name,
        model=settings.model.name,
        dim=settings.model.dim,
        seed=settings.training.seed,
        seconds=budget["seconds"],
        seconds_used=budget["seconds_used"],
        settings_tried=budget["trials"],
        settings=settings_hash(settings),
        valid_mrr=round(run.metrics["valid"]["mrr"], 6),
        default_valid_mrr=budget["default_valid_mrr"],
        trials=tuple(_trials(folder / TRIALS)),
        **provenance(),
    )
    path = searches_of(ledger)
    with file_lock(path.with_name(f".{path.name}.lock")):
        before = path.read_bytes() if path.exists() else b""
        write_atomic(path, before + search.model_dump_json(exclude_none=True).encode() + b"\n")
    return search


def _trials(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error
    return [json.loads(line) for line in lines]
