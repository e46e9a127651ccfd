"""How much of a step is done at once, so that training and validation keep within a bound.

The working set is what training adds to a process that has imported torch and read the graph.
"""

from __future__ import annotations

from typing import NamedTuple

from fivestar.errors import SettingsError
from fivestar.evaluation.budget import BASE_BYTES, FACT_BYTES, table_bytes
from fivestar.evaluation.ranking import SCORE_BYTES
from fivestar.models.base import Model
from fivestar.runs.settings import TrainingSettings
from fivestar.runs.sizes import bytes_of, written

# Copies of the tables that an update rule keeps.
_MOMENTS = {"adagrad": 1, "adam": 2, "sgd": 0, "riemannian-sgd": 1}
# Measured: numbers × width that a true tail takes.
_PAIR_COPIES = 16
_FLOAT = 4


class Budget(NamedTuple):
    """Rows of scores, true tails, and bytes of scores in a ranking, at once."""

    rows: int
    pairs: int
    score_bytes: int


def make_budget(model: Model, facts: int, training: TrainingSettings) -> Budget:
    """The largest parts that keep within `memory`, or whole batches if that is not set."""
    if training.memory is None:
        return Budget(training.batch, 1 << 14, SCORE_BYTES)
    # The weights, their gradients, what the update rule keeps, and the best weights so far.
    copies = 3 + _MOMENTS[training.optimizer]
    fixed = BASE_BYTES + FACT_BYTES * facts + table_bytes(model) * copies
    row = _FLOAT * (2 * len(model.entities) + model.scratch)
    pair = _FLOAT * _PAIR_COPIES * model.entities.shape[1]
    rest = bytes_of(training.memory) - fixed
    if rest < row + pair:
        raise SettingsError(
            f"memory {training.memory} is too little: this model on this graph needs at least "
            f"{written(fixed + row + pair)}"
        )
    pairs = min(1 << 14, max(1, rest // 4 // pair))
    rows = min(training.batch, max(1, (rest - pairs * pair) // row))
    return Budget(rows, pairs, min(SCORE_BYTES, rest // 4))
