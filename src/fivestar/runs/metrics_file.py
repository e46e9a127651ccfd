"""The schemas of metrics.json and history.jsonl: a run that was changed or damaged is refused.

Only what the package reads is described; other fields are kept as they are.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from fivestar.errors import DamagedRun

_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False, strict=True)


class _Ranked(_Part):
    mrr: _Share
    hits_1: _Share = Field(alias="hits@1")
    hits_3: _Share = Field(alias="hits@3")
    hits_10: _Share = Field(alias="hits@10")
    self_answer_rate: _Share | None = None


class _Calibration(_Part):
    method: Literal["isotonic", "platt"]
    points: list[float]
    probabilities: list[_Share]

    @model_validator(mode="after")
    def _is_a_curve(self) -> _Calibration:
        if self.method == "platt":
            if (len(self.points), len(self.probabilities)) != (2, 0):
                raise ValueError("a logistic curve has a coefficient and an intercept")
        elif not self.points or len(self.points) != len(self.probabilities):
            raise ValueError("an isotonic curve has as many points as probabilities")
        elif any(b < a for curve in (self.points, self.probabilities) for a, b in pairwise(curve)):
            raise ValueError("an isotonic curve does not fall")
        return self


class _Validation(_Part):
    triples: _Count
    ranked: _Count


class _Refit(_Part):
    epochs: _Count
    train_triples: _Count


class _Metrics(_Part):
    epochs: _Count | None = None
    seconds: Annotated[float, Field(ge=0)] | None = None
    best_epoch: _Count | None = None
    valid: _Ranked | None = None
    validation: _Validation | None = None
    calibration: _Calibration | None = None
    refit: _Refit | None = None
    budget: dict[str, JsonValue] | None = None
    entity_vectors: dict[str, JsonValue] | None = None
    started_from: dict[str, JsonValue] | None = None
    converted_from: dict[str, JsonValue] | None = None


class _Epoch(_Part):
    epoch: _Count
    seconds: Annotated[float, Field(ge=0)] | None = None
    loss: float | None = None
    valid_mrr: _Share | None = None


_HISTORY = TypeAdapter(list[_Epoch])


def read_metrics(path: Path) -> dict[str, Any]:
    """Read and validate metrics.json.

    Raises:
        DamagedRun: It is not what a run writes.
    """
    try:
        values = json.loads(path.read_bytes())
        _Metrics.model_validate(values)
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    found: dict[str, Any] = values
    return found


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read and validate history.jsonl.

    Raises:
        DamagedRun: It is not what a run writes.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        _HISTORY.validate_python(lines)
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    return lines


def _damaged(path: Path, error: Exception) -> DamagedRun:
    problem = str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    return DamagedRun(f"{path}: is not what a run writes ({problem}); restore it or train again")
