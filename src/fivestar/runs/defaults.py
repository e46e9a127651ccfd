"""Defaults by version, so that a changed default never changes what an older file means.

Settings files and ledger lines omit values that equal the defaults. Each is read with the defaults
of its own version: a settings file says `defaults = 1` at its top, and the ledger always counts
from version 1, so equal settings have equal hashes whenever they were recorded.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fivestar.errors import SettingsError
from fivestar.runs.renamed import current_names

CURRENT = 2
# Named settings: ours, those that a model was published with, and those of the 5★E paper.
METHODS = ("default", "published", "paper")
# Settings whose default depends on the graph.
GRAPH_DEFAULTS = frozenset({"batch_size", "epochs", "num_candidates", "reg_weight"})
# Pair redundancy is at most .38 or at least .61 on the graphs that the weights were chosen on.
_REDUNDANT = 0.5
# Triples per pair of entities: below the first a graph is sparse, above the second it is dense.
_SPARSE, _DENSE = 5e-4, 1e-2
# The dimension that the defaults were chosen at.
_DIM = 100
_FOLDER = Path(__file__).parent


@cache
def baseline() -> dict[str, dict[str, Any]]:
    """Return the frozen defaults of version 1, under the current names."""
    return {name: current_names(values) for name, values in _read("defaults_v1.toml").items()}


@cache
def _read(file: str) -> dict[str, dict[str, Any]]:
    """Return the sections of a file, by the names that settings have in Python."""
    sections = tomllib.loads((_FOLDER / file).read_text(encoding="utf-8"))
    return {
        name: {key.replace("-", "_"): value for key, value in values.items()}
        for name, values in sections.items()
    }


def _by_model(file: str, model: str) -> dict[str, Any]:
    """Return the training settings of a model in a file, without their source."""
    return {key: value for key, value in _read(file).get(model, {}).items() if key != "source"}


def published_training(model: str) -> dict[str, Any]:
    """Return the published training settings of a model; empty for a third-party model."""
    return _by_model("published.toml", model)


def default_training(model: str, given: Mapping[str, Any], dim: int = _DIM) -> dict[str, Any]:
    """Return the default training settings of a model, as far as they fit what is given.

    Settings of a recipe belong together: with another objective none of them apply.

    Args:
        model: Name of the model.
        given: The training settings that are given.
        dim: Its dimension; the more, the smaller the learning rate of some models.

    >>> default_training("fivestar", {})["lr"], default_training("fivestar", {}, 500)["lr"]
    (0.3, 0.0897)
    """
    recipe = _by_model("defaults.toml", model)
    exponent = recipe.pop("lr_exponent", 0.0)
    if dim > _DIM and exponent:
        recipe["lr"] = float(f"{recipe['lr'] * (dim / _DIM) ** exponent:.3g}")
    if given.get("objective", recipe.get("objective")) != recipe.get("objective"):
        return {}
    recipe.pop("num_candidates", None)  # these two are known with the graph (`defaults_for`)
    if isinstance(recipe.get("reg_weight"), dict):
        recipe.pop("reg_weight")
    if given.get("regularizer", recipe.get("regularizer")) != recipe.get("regularizer"):
        recipe.pop("reg_exponent", None)
    return recipe


class GraphSize(NamedTuple):
    """The statistics of a graph that the defaults depend on."""

    entities: int
    triples: int
    pair_redundancy: float


def defaults_for(model: str, training: Mapping[str, Any], graph: GraphSize) -> dict[str, Any]:
    """Return the default settings that depend on the graph.

    A small graph needs small batches to get enough steps, and a large one fewer epochs and sampled
    candidates. The weight of the regularizer is that of `regularization_weight`.

    Args:
        model: Name of the model.
        training: Its training settings; the default weight belongs to the default regularizer, and
            candidates are sampled only for a softmax with reciprocals.
        graph: The size of the graph.

    >>> training = {"objective": "softmax", "regularizer": "n3-transformed", "reciprocals": True}
    >>> defaults_for("fivestar", training, GraphSize(14_541, 272_115, 0.38))
    {'batch_size': 500, 'epochs': 29, 'num_candidates': 4096, 'reg_weight': 0.0602}
    >>> defaults_for("fivestar", training, GraphSize(135, 5_216, 0.61))
    {'batch_size': 100, 'epochs': 40, 'num_candidates': 0, 'reg_weight': 0.02}
    """
    values: dict[str, Any] = {
        "batch_size": min(max(graph.triples // 250, 100), 500),
        "epochs": min(max(8_000_000 // max(graph.triples, 1), 5), 40),
    }
    recipe = _by_model("defaults.toml", model)
    if recipe.get("objective") == training["objective"] == "softmax":
        sampled = training["reciprocals"] and graph.entities > recipe.get("num_candidates", 0)
        values["num_candidates"] = recipe.get("num_candidates", 0) if sampled else 0
        weight = recipe.get("reg_weight")
        if isinstance(weight, dict) and recipe["regularizer"] == training["regularizer"]:
            values["reg_weight"] = regularization_weight(**weight, graph=graph)
    return values


def validation_sample(num_entities: int) -> int:
    """Return the default number of validation queries for a graph; 0: all.

    On a large graph the ranking of all of them would take longer than the training between two
    validations. The standard error of an MRR from 10,000 queries is below .01.

    >>> validation_sample(74_536), validation_sample(4_600_000)
    (0, 10000)
    """
    return 10_000 if num_entities > 100_000 else 0


def regularization_weight(
    weak: float, strong: float, graph: GraphSize, redundant: float | None = None
) -> float:
    """Return the default weight for a graph: strong for a sparse one, weak for a dense one.

    In between it is interpolated between the logarithms. Where most facts can be read off another
    fact of the same two entities, strong regularization only costs accuracy.

    Args:
        weak: For a dense graph.
        strong: For a sparse graph.
        graph: The statistics of the graph.
        redundant: For a sparse graph whose facts are mostly redundant; by default as a dense one.

    >>> regularization_weight(0.02, 0.1, GraphSize(40_943, 86_835, 0.34))  # WN18RR
    0.1
    >>> regularization_weight(0.02, 0.1, GraphSize(14_951, 483_142, 0.81), 0.007)  # FB15k
    0.0117
    """
    if graph.pair_redundancy > _REDUNDANT:
        strong = weak if redundant is None else redundant
    density = max(graph.triples, 1) / max(graph.entities, 1) ** 2
    share = math.log(density / _SPARSE) / math.log(_DENSE / _SPARSE)
    share = min(max(share, 0.0), 1.0)
    return float(f"{strong * (weak / strong) ** share:.3g}")


def source(model: str, file: str = "defaults.toml") -> str:
    """Return how the settings of a model in a file were chosen."""
    return str(_read(file).get(model, {}).get("source", ""))


def with_defaults_of(version: Any, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Fill a settings file of an older version with the defaults of that version."""
    if version not in (1, CURRENT) or isinstance(version, bool):
        raise SettingsError(f"defaults = {version!r}: there are versions 1 and {CURRENT}")
    if version == CURRENT:
        return dict(sections)
    sections = as_saved(sections)
    model = dict(sections.get("model", {}))
    if model.get("name", "fivestar") == "fivestar" and model.get("denominator") != "phase":
        model.setdefault("init", "identity")
    return with_method("published", {**sections, "model": model})


def as_saved(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of a saved run or ledger line under the current names, with all options.

    Options that did not exist at the time are filled in with the value that means the same. A value
    that is not a section stays as it is, for `make_settings` to refuse.

    >>> as_saved({"model": {"start": "small"}, "training": {"batch": 100}})
    {'model': {'off_diagonal_lr': 1.0, 'init': 'small'}, 'training': {'batch_size': 100}}
    """
    spelled = {
        name: current_names({key.replace("-", "_"): value for key, value in section.items()})
        if isinstance(section, Mapping)
        else section
        for name, section in sections.items()
    }
    model = spelled.get("model", {})
    if isinstance(model, Mapping) and model.get("name", "fivestar") == "fivestar":
        frozen = {key: v for key, v in baseline()["model"].items() if key not in ("name", "dim")}
        spelled["model"] = {**frozen, **model}
    return spelled


def with_method(method: Any, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Fill in the settings of a named method.

    Args:
        method: `default` for ours, which are filled in later; `published` for the training settings
            that the model was published with; `paper` for those of the 5★E paper, which only 5★E
            has: its loss, regularizer and initialization, for the equation or for the released
            code (`denominator = "phase"`).
        sections: The settings that are given; they win.

    Raises:
        SettingsError: There is no such method, or not for this model.
    """
    model = sections.get("model", {})
    name = model.get("name", "fivestar")
    if method not in METHODS:
        raise SettingsError(f"method = {method!r}: there are {', '.join(METHODS)}")
    if method == "default":
        return dict(sections)
    if method == "paper":
        if name != "fivestar":
            raise SettingsError(
                f"method = 'paper' is the method of the 5★E paper: use 'published' for {name}"
            )
        form = "phase" if model.get("denominator") == "phase" else "mobius"
        return {
            **sections,
            "model": {"name": name, **_by_model("paper.toml", form), **model},
            "training": {
                **baseline()["training"],
                **_by_model("paper.toml", "training"),
                **sections.get("training", {}),
            },
        }
    training = sections.get("training", {})
    published = published_training(name)
    if training.get("objective", published.get("objective")) != published.get("objective"):
        published = {}
    return {**sections, "training": {**baseline()["training"], **published, **training}}
