"""What a search chooses from, as data: lists of values, and ranges.

`batch = [250, 500, 1000]` or `lr = { low = 0.03, high = 0.3, log = true }`, below [model] or
[training].
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError
from fivestar.runs.settings import Settings, make_settings
from fivestar.spelling import closest_names

_FOLDER = Path(__file__).with_name("spaces")
_RANGE = {"low", "high", "log"}
# The seed is no setting to choose: the best of many seeds is luck.
_NOT_TO_CHOOSE = ("training.seed", "model.name")


@dataclass(frozen=True)
class Range:
    """All numbers between two, evenly or evenly in their logarithm; whole ones if both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Choices = tuple[Any, ...] | Range


@dataclass(frozen=True)
class Space:
    """Settings as `training.lr`, and what each may be."""

    name: str
    choices: dict[str, Choices]

    def without(self, setting: str) -> Space:
        """The same with one setting no longer chosen."""
        kept = {name: values for name, values in self.choices.items() if name != setting}
        return Space(self.name, kept)

    def grid(self) -> list[dict[str, Any]]:
        """All points, if there are no ranges."""
        ranges = [name for name, values in self.choices.items() if isinstance(values, Range)]
        if ranges:
            raise SettingsError(
                f"the space {self.name} has no grid: {', '.join(ranges)} is a range; list its "
                "values, or use --sampler tpe"
            )
        values = [tuple(v) for v in self.choices.values() if not isinstance(v, Range)]
        return [dict(zip(self.choices, point, strict=True)) for point in product(*values)]

    def some_point(self) -> dict[str, Any]:
        """One of its points."""
        return {
            name: values.low if isinstance(values, Range) else values[0]
            for name, values in self.choices.items()
        }


def with_point(base: Settings, point: Mapping[str, Any]) -> Settings:
    """Settings with those of a point of a space instead of their own."""
    values = base.model_dump(exclude_none=True)
    for name, value in point.items():
        section, _, setting = name.partition(".")
        values[section][setting] = value
    return make_settings(values, "search")


def read_space(name: str, graph: str) -> Space:
    """A space by its name (paper, small) or of a TOML file."""
    if name == "paper" and graph.startswith("nell-995"):
        name = "paper-nell"
    file = _FOLDER / f"{name}.toml" if (_FOLDER / f"{name}.toml").is_file() else Path(name)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        known = sorted(path.stem for path in _FOLDER.glob("*.toml"))
        near = closest_names(name, known)
        hint = f"did you mean {near[0]!r}?" if near else f"by name there are {', '.join(known)}"
        raise SettingsError(f"{name}: no such space or file of one; {hint}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: is not TOML: {error}") from error
    return Space(name, _choices(values, file))


def _choices(values: Mapping[str, Any], file: Path) -> dict[str, Choices]:
    found: dict[str, Choices] = {}
    for section, settings in values.items():
        if section not in Settings.model_fields or not isinstance(settings, dict):
            raise SettingsError(f"{file}: [{section}] is no section of settings: model, training")
        for key, given in settings.items():
            name = f"{section}.{key.replace('-', '_')}"
            if name in _NOT_TO_CHOOSE:
                raise SettingsError(f"{file}: {name} is nothing to search for; remove it")
            found[name] = _choice(given, f"{file}: {section}.{key}")
    if not found:
        raise SettingsError(f"{file}: has nothing to choose from")
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
