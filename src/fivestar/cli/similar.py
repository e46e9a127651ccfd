"""`fivestar similar`: nearest neighbors in embedding space."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import (
    Column,
    name_column,
    number_column,
    print_table,
    prose_column,
    short_name,
)

if TYPE_CHECKING:
    from fivestar.prediction.predictions import Named

EXAMPLE = "Example: fivestar similar my_run Lyon"


@with_local_runs
def similar(
    run: RunFolder,
    entity: Annotated[str, typer.Argument(help="Name or label.")],
    *,
    top: Annotated[int, typer.Option(help="Number of neighbors.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the nearest neighbors of an entity (centered cosine similarity)."""
    model = fivestar.load(run)
    found = model.similar(entity, top)
    if as_json:
        listed = [each.as_json() for each in found]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False, allow_nan=False))
        return
    graph = model.graph
    types = None if graph.types is None else graph.types.vocabulary
    columns = [Column(""), name_column("entity"), number_column("cosine")]
    if types is not None:
        columns.append(prose_column("types in common"))
    rows: list[list[str | Named]] = []
    for each in found:
        rows.append([str(each.rank), each.entity, f"{each.similarity:.3f}"])
        if types is not None:
            labels = (types.label_of(types.id_of(name)) for name in each.common_types or ())
            rows[-1].append(", ".join(map(short_name, labels)))
    print_table(columns, rows, title=f"nearest neighbors of {found.entity.label}")
