"""The search space: for each setting a list of values, or a range.

`batch-size = [250, 500, 1000]` or `lr = { low = 0.03, high = 0.3, log = true }`, below [model] or
[training]. A time budget searches around the defaults: the default settings first, then other
regularization weights, the setting that depends most on the graph. Settings that the user has set
are not searched.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError
from fivestar.runs.renamed import NAMES
from fivestar.runs.settings import Settings, make_settings
from fivestar.spelling import closest_names

_FOLDER = Path(__file__).with_name("spaces")
_RANGE = {"low", "high", "log"}
# The seed is not searched: the best of many seeds is luck.
_NOT_SEARCHED = ("training.seed", "model.name")


@dataclass(frozen=True)
class Range:
    """A uniform or log-uniform range of numbers; of integers if both ends are integers."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether the range holds integers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Choices = tuple[Any, ...] | Range


@dataclass(frozen=True)
class Space:
    """The values of each searched setting, which is named as in `training.lr`."""

    name: str
    choices: dict[str, Choices]

    def without(self, setting: str) -> Space:
        """Return the space without one setting."""
        kept = {name: values for name, values in self.choices.items() if name != setting}
        return Space(self.name, kept)

    def grid(self) -> list[dict[str, Any]]:
        """Return all points; raise SettingsError if there are ranges."""
        ranges = [name for name, values in self.choices.items() if isinstance(values, Range)]
        if ranges:
            raise SettingsError(
                f"the space {self.name} has no grid: {', '.join(ranges)} is a range; list its "
                "values, or use sampler='tpe'"
            )
        values = [tuple(v) for v in self.choices.values() if not isinstance(v, Range)]
        return [dict(zip(self.choices, point, strict=True)) for point in product(*values)]

    def any_point(self) -> dict[str, Any]:
        """Return one point."""
        return {
            name: values.low if isinstance(values, Range) else values[0]
            for name, values in self.choices.items()
        }


def with_point(base: Settings, point: Mapping[str, Any]) -> Settings:
    """Return settings with the values of a point of a space."""
    values = base.model_dump(exclude_none=True)
    for name, value in point.items():
        section, _, setting = name.partition(".")
        values[section][setting] = value
    return make_settings(values, "search")


def read_space(name: str, graph: str) -> Space:
    """Read a search space.

    Args:
        name: a bundled space (paper, small), or a TOML file.
        graph: name of the graph; the space paper has a variant for nell-995.

    Raises:
        SettingsError: if there is no such space, or the file is invalid.
    """
    if name == "paper" and graph.startswith("nell-995"):
        name = "paper-nell"
    file = _FOLDER / f"{name}.toml" if (_FOLDER / f"{name}.toml").is_file() else Path(name)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(path.stem for path in _FOLDER.glob("*.toml"))
        near = closest_names(name, known)
        hint = f"did you mean {near[0]!r}?" if near else f"by name there are {', '.join(known)}"
        raise SettingsError(f"{name}: no such search space or file; {hint}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: is not TOML: {error}") from error
    return Space(name, _choices(values, file))


def _choices(values: Mapping[str, Any], file: Path) -> dict[str, Choices]:
    found: dict[str, Choices] = {}
    for section, settings in values.items():
        if section not in Settings.model_fields or not isinstance(settings, dict):
            raise SettingsError(
                f"{file}: [{section}] is not a section of settings (model, training)"
            )
        for key, given in settings.items():
            setting = key.replace("-", "_")
            name = f"{section}.{NAMES.get(setting, setting)}"
            if name in _NOT_SEARCHED:
                raise SettingsError(f"{file}: {name} cannot be searched; remove it")
            found[name] = _choice(given, f"{file}: {section}.{key}")
    if not found:
        raise SettingsError(f"{file}: has no settings to search")
    return found


def _choice(given: Any, where: str) -> Choices:
    if isinstance(given, list) and given:
        return tuple(given)
    if isinstance(given, dict) and {"low", "high"} <= set(given) <= _RANGE:
        low, high = given["low"], given["high"]
        log = bool(given.get("log", False))
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (low, high))
        if numbers and low < high and (low > 0 or not log):
            return Range(low, high, log)
    raise SettingsError(
        f"{where} must be a list of values, or {{ low = 0.1, high = 1.0, log = true }} with low "
        "below high (and above 0 for log)"
    )


# Ranges that held good settings on all graphs tried; widened if a default is outside.
_REG = (0.003, 0.3)
_ADAGRAD_LR = (0.1, 0.5)
_LR_FACTOR = 4.0  # other optimizers, and Adagrad without a regularizer, around the default
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
    """Return the space to search around some settings.

    Args:
        base: the default settings.
        fixed: settings that the user has chosen, as `training.lr`.
        num_entities: decides which numbers of sampled candidates make sense.
        dims: dimensions to choose from; empty: the one of `base`.

    Returns:
        A space that holds `base`; without choices if all settings are fixed.
    """
    training = base.training
    choices: dict[str, Choices] = {}
    has_regularizer = training.regularizer != "none" and training.reg_weight > 0
    if has_regularizer:
        choices["training.reg_weight"] = _around(training.reg_weight, *_REG)
    rates = (training.lr / _LR_FACTOR, training.lr * _LR_FACTOR)
    if has_regularizer and training.optimizer.endswith("adagrad"):
        rates = _ADAGRAD_LR
    choices["training.lr"] = _around(training.lr, *rates)
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
    """Return the points to try first: the default, then one setting changed at a time."""
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
    """Return the point of a space that settings correspond to."""
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
