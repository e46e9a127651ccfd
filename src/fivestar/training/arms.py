"""What a time budget chooses from: the settings that matter most, around the defaults.

The default settings are always tried first, then other weights of the regularizer, the setting
that depends most on the graph. What the user has set is not searched.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fivestar.runs.settings import Settings
from fivestar.training.space import Choices, Range, Space

# Ranges that have held good settings on all graphs tried; widened where a default is outside.
_REG = (0.003, 0.3)
_ADAGRAD_LR = (0.1, 0.5)
_LR_FACTOR = 4.0  # other optimizers, around their default
_CANDIDATES = (1024, 4096)
# Up to this many entities an exact softmax takes about as long as a sampled one.
_EXACT = 5000
_INITS = ("rotation", "identity")
# Factors of the default regularization weight that are tried after the default itself, and after
# the other settings have been changed once.
_NEAR, _FAR = (1 / 3, 3.0), (1 / 10, 10.0)


def space_around(
    base: Settings, fixed: Collection[str], num_entities: int, dims: tuple[int, ...] = ()
) -> Space:
    """Return what to search around some settings.

    Args:
        base: the default arm.
        fixed: settings that the user has chosen, as `training.lr`.
        num_entities: decides which numbers of sampled candidates make sense.
        dims: dimensions to choose from; empty: the one of `base`.

    Returns:
        A space that holds `base`; without choices if all settings are fixed.
    """
    training = base.training
    choices: dict[str, Choices] = {}
    if training.regularizer != "none" and training.reg_weight > 0:
        choices["training.reg_weight"] = _around(training.reg_weight, *_REG)
    low, high = training.lr / _LR_FACTOR, training.lr * _LR_FACTOR
    choices["training.lr"] = _around(
        training.lr, *(_ADAGRAD_LR if training.optimizer == "adagrad" else (low, high))
    )
    if training.objective == "softmax" and training.reciprocals:
        choices["training.num_candidates"] = _candidates(training.num_candidates, num_entities)
    if base.model.name == "fivestar" and base.model.options["denominator"] != "phase":
        choices["model.init"] = _with(base.model.options["init"], _INITS)
    if dims:
        choices["model.dim"] = _with(base.model.dim, dims)
    return Space(
        "budget",
        {
            name: values
            for name, values in choices.items()
            if name not in fixed and (isinstance(values, Range) or len(values) > 1)
        },
    )


def starting_points(base: Settings, space: Space) -> list[dict[str, Any]]:
    """Return what to try first: the default, then one setting changed at a time."""
    default = default_point(base, space)
    points = [default, *_scaled(default, space, _NEAR)]
    for name, values in space.choices.items():
        if isinstance(values, Range):
            if name != "training.reg_weight":
                points.append({**default, name: _far_end(default[name], values)})
        else:
            points += [{**default, name: value} for value in values]
    points += _scaled(default, space, _FAR)
    return [point for n, point in enumerate(points) if point not in points[:n]]


def _scaled(
    default: dict[str, Any], space: Space, factors: tuple[float, ...]
) -> list[dict[str, Any]]:
    """Return the default with other regularization weights, as far as the space goes."""
    regs = space.choices.get("training.reg_weight")
    if not isinstance(regs, Range):
        return []
    scaled = (default["training.reg_weight"] * factor for factor in factors)
    return [
        {**default, "training.reg_weight": min(max(reg, regs.low), regs.high)} for reg in scaled
    ]


def _far_end(value: float, values: Range) -> float:
    """Return the end of a range that is further away, by ratio."""
    return values.high if value**2 <= values.low * values.high else values.low


def default_point(base: Settings, space: Space) -> dict[str, Any]:
    """Return the values that some settings have of what a space chooses."""
    found = {}
    for name in space.choices:
        section, _, setting = name.partition(".")
        found[name] = getattr(getattr(base, section), setting)
    return found


def _around(default: float, low: float, high: float) -> Range:
    return Range(float(min(low, default)), float(max(high, default)), log=True)


def _candidates(default: int, num_entities: int) -> tuple[int, ...]:
    sampled = tuple(number for number in _CANDIDATES if number < num_entities / 2)
    return _with(default, (0, *sampled) if num_entities <= _EXACT else sampled)


def _with(default: Any, others: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the default and the other values, each once."""
    return tuple(dict.fromkeys((default, *others)))
