"""`fivestar models`: which models there are."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar models"


def models(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False
) -> None:
    """List all models: their formula, size and options."""
    from fivestar.models.registry import MODELS  # noqa: PLC0415  (slow to import)

    found = {name: _described(kind) for name, kind in sorted(MODELS.items())}
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    table = Table("name", "formula", "options and their defaults")
    for name, model in found.items():
        options = ", ".join(f"{key} {value}" for key, value in model["options"].items())
        table.add_row(Text(name), Text(model["formula"]), Text(options))
    out.print(table)


def _described(kind: Any) -> dict[str, Any]:
    text = inspect.getdoc(kind) or ""
    formula, _, more = text.partition("\n\n")
    return {
        "formula": " ".join(formula.split()),
        "description": more,
        "options": kind.options({}),
    }
