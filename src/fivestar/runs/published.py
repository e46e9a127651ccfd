"""The published way of training each model, read from `published.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _recipes() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published_training(model: str) -> dict[str, Any]:
    """The training settings of a model by name; none of a model added by somebody else."""
    recipe = _recipes().get(model, {})
    return {key.replace("-", "_"): value for key, value in recipe.items() if key != "source"}


def published_source(model: str) -> str:
    """Where they are from."""
    return str(_recipes().get(model, {}).get("source", ""))
