"""Defaults by version, so that a changed default never changes what an older file means.

Settings files and ledger lines omit values that equal the defaults. Each is read with the defaults
of its own version: a settings file says `defaults = 1` at its top, and the ledger always counts
from version 1, so equal settings have equal hashes whenever they were recorded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError

CURRENT = 2
_FOLDER = Path(__file__).parent


@cache
def baseline() -> dict[str, dict[str, Any]]:
    """Return the frozen defaults of version 1, under the names of that time."""
    return tomllib.loads((_FOLDER / "defaults_v1.toml").read_text(encoding="utf-8"))


@cache
def _published() -> dict[str, dict[str, Any]]:
    return tomllib.loads((_FOLDER / "published.toml").read_text(encoding="utf-8"))


def published_training(model: str) -> dict[str, Any]:
    """Return the published training settings of a model; empty for a third-party model."""
    recipe = _published().get(model, {})
    return {key.replace("-", "_"): value for key, value in recipe.items() if key != "source"}


def published_source(model: str) -> str:
    """Return the citation of the published settings."""
    return str(_published().get(model, {}).get("source", ""))


def renamed(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section of settings with older names replaced by the current ones.

    >>> renamed({"start": "small", "dim": 10})
    {'init': 'small', 'dim': 10}
    """
    current = {old: new for new, old in baseline()["names"].items()}
    return {current.get(name, name): value for name, value in section.items()}


def with_defaults_of(version: Any, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Fill a settings file of an older version with the defaults of that version."""
    if version not in (1, CURRENT) or isinstance(version, bool):
        raise SettingsError(f"defaults = {version!r}: there are versions 1 and {CURRENT}")
    if version == CURRENT:
        return dict(sections)
    model, training = dict(sections.get("model", {})), dict(sections.get("training", {}))
    name = model.get("name", "fivestar")
    recipe = published_training(name)
    if training.get("objective", recipe.get("objective")) != recipe.get("objective"):
        recipe = {}
    if name == "fivestar" and model.get("denominator") != "phase":
        model.setdefault("init", "identity")
    return {"model": model, "training": {**baseline()["training"], **recipe, **training}}
