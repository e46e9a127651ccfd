"""The progress of a training, as its checkpoints record it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter


@dataclass
class Progress:
    """The progress of training. The history holds one line per epoch."""

    epoch: int = 0  # epochs done
    seconds: float = 0.0
    # Of the epoch under way: steps and triples done, the sum of their losses, and its seconds.
    step: int = 0
    triples: int = 0
    loss: float = 0.0
    epoch_seconds: float = 0.0
    # By validation: all metrics of the best epoch, so that it need not be ranked again.
    best_mrr: float = -1.0
    best_epoch: int = 0
    best_metrics: dict[str, Any] = field(default_factory=dict)
    waited: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    # What was taken over from another run before the first epoch.
    origin: dict[str, Any] = field(default_factory=dict)
    # In a refit: the metrics of the training before it.
    before_refit: dict[str, Any] = field(default_factory=dict)


_PROGRESS = TypeAdapter(Progress)


def progress_of(values: Mapping[str, Any]) -> Progress:
    """Return the progress that a checkpoint records, with valid types."""
    return _PROGRESS.validate_python(values, strict=False)
