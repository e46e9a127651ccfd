"""How much of a step is done at once, so that training and validation keep within a bound.

The working set is what training adds to a process that has imported torch and read the graph.
"""

from __future__ import annotations

from typing import NamedTuple

from fivestar.errors import SettingsError
from fivestar.evaluation.budget import BASE_BYTES, FACT_BYTES, table_bytes
from fivestar.evaluation.ranking import SCORE_BYTES
from fivestar.models.base import Model
from fivestar.models.similarity import TILE
from fivestar.runs.settings import OVER_ALL, TrainingSettings
from fivestar.runs.units import format_bytes, parse_bytes

# Copies of the tables that an update rule keeps.
_MOMENTS = {"adagrad": 1, "adam": 2, "sgd": 0, "riemannian-sgd": 1}
# Measured: numbers × width that a true tail takes, and a drawn one.
_PAIR_COPIES = 16
_DRAWN_COPIES = 12
# Numbers of drawn tails held at once if there is no bound: more than fits the cache is slower.
_DRAWN = 1 << 20
_FLOAT = 4


class Budget(NamedTuple):
    """Rows of scores, true tails (with those drawn for them), and bytes of scores in a ranking."""

    rows: int
    pairs: int
    score_bytes: int


def make_budget(model: Model, facts: int, training: TrainingSettings) -> Budget:
    """The largest parts that keep within `memory`, or whole batches if that is not set."""
    pair, most_pairs = _pair(model, training)
    if training.memory is None:
        return Budget(training.batch_size, most_pairs, SCORE_BYTES)
    # The weights, their gradients, what the update rule keeps, and the best weights so far.
    copies = 3 + _MOMENTS[training.optimizer]
    if training.average:
        copies += 2  # the average, and the weights while it stands in their place
    fixed = BASE_BYTES + FACT_BYTES * facts + table_bytes(model) * copies
    row = 0
    if training.objective in OVER_ALL:
        row = _FLOAT * (2 * len(model.entities) + model.scratch_per_query)
        if not training.reciprocals:
            # All entities as moved by a relation, and the gradient by them.
            fixed += _FLOAT * 2 * len(model.entities) * model.query_dim
            fixed += _FLOAT * TILE * model.scratch_per_query
    rest = parse_bytes(training.memory) - fixed
    if rest < row + pair:
        raise SettingsError(
            f"memory {training.memory} is too little: this model on this graph needs at least "
            f"{format_bytes(fixed + row + pair)}"
        )
    if not row:
        return Budget(training.batch_size, min(most_pairs, rest // pair), min(SCORE_BYTES, rest))
    pairs = min(most_pairs, max(1, rest // 4 // pair))
    rows = min(training.batch_size, max(1, (rest - pairs * pair) // row))
    return Budget(rows, pairs, min(SCORE_BYTES, rest // 4))


def _pair(model: Model, training: TrainingSettings) -> tuple[int, int]:
    """The bytes that a true tail takes with those drawn for it; how many at most are at once."""
    width = model.entities.shape[1]
    if training.objective in OVER_ALL:
        return _FLOAT * _PAIR_COPIES * width, 1 << 14
    drawn = 1 + training.num_negatives
    most = _DRAWN // (drawn * width)
    if training.reciprocals:
        return _FLOAT * (drawn * _DRAWN_COPIES * width + model.scratch_per_query), max(2, most)
    return _FLOAT * drawn * model.scratch_per_query, max(2, most // 2)
