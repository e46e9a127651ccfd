"""How many scores a ranking holds at once, so that it keeps within a bound of memory."""

from __future__ import annotations

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import SCORE_BYTES
from fivestar.models.base import Model
from fivestar.runs.units import format_bytes, parse_bytes

# Measured: code and buffers of the matrix products; bytes a fact for queries and known answers.
BASE_BYTES = 96 << 20
FACT_BYTES = 160


def table_bytes(model: Model) -> int:
    """What the tables of a model take."""
    return sum(table.numel() * table.element_size() for table in model.parameters())


def score_bytes_within(memory: str, model: Model, facts: int) -> int:
    """The bytes of scores that keep the working set of a ranking within the bound."""
    fixed = BASE_BYTES + FACT_BYTES * facts + table_bytes(model)
    least = 8 * len(model.entities)
    rest = parse_bytes(memory) - fixed
    if rest < least:
        raise SettingsError(
            f"memory {memory} is too little: ranking needs at least {format_bytes(fixed + least)}"
        )
    return min(SCORE_BYTES, rest)
