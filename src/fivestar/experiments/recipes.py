"""The settings that `fivestar reproduce` trains a model with on a graph, as data.

`recipes/GRAPH/MODEL.toml`, or one for a family of graphs (nell-995-h25, -h50, …): the protocol of
the paper, where what is found on h25 is used on the other three, and for the other dimension.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fivestar.runs.defaults import CURRENT
from fivestar.runs.settings import Settings, make_settings, read_settings

_FOLDER = Path(__file__).with_name("recipes")
_FAMILIES = ("nell-995",)
Values = dict[str, dict[str, Any]]


def recipe_file(graph: str, model: str) -> Path | None:
    """The file of a model on a graph; none if it is trained in its published way."""
    homes = [graph, *(family for family in _FAMILIES if graph.startswith(f"{family}-"))]
    files = (_FOLDER / home / f"{model}.toml" for home in homes)
    return next((file for file in files if file.is_file()), None)


def recipe(
    graph: str, model: str, changes: Mapping[str, Mapping[str, Any]], file: Path | None = None
) -> Settings:
    """The settings of a model on a graph (or of a file), under the protocol, with some changes."""
    layers: list[Mapping[str, Mapping[str, Any]]] = [_values(_FOLDER / "protocol.toml")]
    file = file or recipe_file(graph, model)
    if file is not None:
        read_settings(file)  # says what is wrong with it
        layers.append(_values(file))
    layers.append(changes)
    merged: Values = {"model": {"name": model}, "training": {}}
    for layer in layers:
        for section, values in layer.items():
            if section in merged:
                merged[section] |= {name.replace("-", "_"): value for name, value in values.items()}
    version = _values(file or _FOLDER / "protocol.toml").get("defaults", CURRENT)
    return make_settings({**merged, "defaults": version}, str(file or f"{model} on {graph}"))


def _values(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
