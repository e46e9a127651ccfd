"""`fivestar similar`: nearest neighbors in embedding space."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

import fivestar
from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar similar my_run Lyon"


def similar(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    entity: Annotated[str, typer.Argument(help="Name or label.")],
    *,
    top: Annotated[int, typer.Option(help="Number of neighbors.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the nearest neighbors of an entity (centered cosine similarity)."""
    found = fivestar.load(run).similar(entity, top)
    if as_json:
        listed = [each.as_json() for each in found]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False, allow_nan=False))
        return
    has_types = any(each.common_types is not None for each in found)
    titles = ("types in common",) if has_types else ()
    cosine = Column("cosine", justify="right")
    table = Table("", "entity", cosine, *titles, title=Text(f"nearest neighbors of {entity}"))
    table.title_justify = "left"
    for each in found:
        types = (Text(", ".join(each.common_types or ())),) if has_types else ()
        table.add_row(str(each.rank), Text(str(each.entity)), f"{each.similarity:.3f}", *types)
    out.print(table)
