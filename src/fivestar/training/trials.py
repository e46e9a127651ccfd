"""A trial of a search, as it is told and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["complete", "pruned", "failed", "running"]
_STATES: dict[str, State] = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


@dataclass(frozen=True)
class Tried:
    """What was set, and what validation said."""

    number: int
    state: State
    point: dict[str, Any]
    mrr: float | None
    epochs: int | None
    why: str | None


def tried_of(frozen: Any) -> Tried:
    """A trial of Optuna's; of one that has no value, the best validation so far."""
    state = _STATES.get(frozen.state.name, "running")
    so_far = max(frozen.intermediate_values.values(), default=None)
    return Tried(
        number=frozen.number,
        state=state,
        point=dict(frozen.params),
        mrr=frozen.value if state == "complete" else so_far,
        epochs=frozen.user_attrs.get("epochs"),
        why=frozen.user_attrs.get("why"),
    )


def summary(trials: Sequence[Tried]) -> str:
    """How many there are, in words.

    >>> summary([Tried(0, "complete", {}, 0.3, 5, None), Tried(1, "failed", {}, None, 1, "?")])
    '2 trials (1 failed)'
    """
    count = Counter(trial.state for trial in trials)
    rest = ", ".join(f"{count[state]} {state}" for state in ("pruned", "failed") if count[state])
    return f"{len(trials)} trials" + (f" ({rest})" if rest else "")
