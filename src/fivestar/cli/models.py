"""`fivestar models`: the models, their options and their training settings."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar models rotate"


def models(
    name: Annotated[
        str | None, typer.Argument(help="All about this model.", show_default=False)
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List all models, or describe one with its default and its published training settings."""
    from fivestar.models.registry import MODELS, model_class  # noqa: PLC0415  (slow to import)

    chosen = sorted(MODELS) if name is None else [name]
    found = {each: _described(each, model_class(each)) for each in chosen}
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif name is not None:
        _show_one(found[name])
    else:
        _show_all(found)


def _show_all(found: dict[str, dict[str, Any]]) -> None:
    table = Table("name", "formula", "options", "trained by")
    for name, model in found.items():
        cells = name, model["formula"], _pairs(model["options"]), model["training"]["objective"]
        table.add_row(*(Text(cell) for cell in cells))
    out.print(table)
    out.print("More of one: fivestar models NAME", markup=False)


def _show_one(model: dict[str, Any]) -> None:
    lines = [model["formula"], model["description"]]
    if model["options"]:
        lines.append(f"Options: {_pairs(model['options'])}")
    lines.append(f"Default training: {_flags(model['training'])} ({model['training_source']})")
    if model["published"]:
        source = model["published_source"]
        lines.append(f"--recipe published: {_flags(model['published'])} ({source})")
    out.print("\n".join(lines), markup=False, highlight=False)


def _flags(training: dict[str, Any]) -> str:
    return _pairs({key.replace("_", "-"): value for key, value in training.items()})


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {_word(value)}" for key, value in values.items())


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(name: str, kind: Any) -> dict[str, Any]:
    from fivestar.runs.defaults import (  # noqa: PLC0415
        default_training,
        published_training,
        source,
    )

    text = inspect.getdoc(kind) or ""
    formula, _, more = text.partition("\n\n")
    return {
        "formula": " ".join(formula.split()),
        "description": " ".join(more.split()),
        "options": kind.options({}),
        "training": {"objective": "softmax"} | default_training(name, {}),
        "training_source": source(name),
        "published": published_training(name),
        "published_source": source(name, "published.toml"),
    }
