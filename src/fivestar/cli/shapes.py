"""`fivestar shapes`: lines and circles among heads and transformed heads."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import name_column, named, print_table
from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar shapes my_run"

Widest = Annotated[float, typer.Option(help="Maximum width/length ratio of a line.", min=0, max=1)]
Roughest = Annotated[
    float, typer.Option(help="Maximum deviation/radius ratio of a circle.", min=0, max=1)
]


@with_local_runs
def shapes(
    run: RunFolder,
    *,
    relation: Annotated[
        str | None, typer.Option(help="Only this relation. (default: all)", show_default=False)
    ] = None,
    widest: Widest = 0.2,
    roughest: Roughest = 0.2,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Count how often relations map lines to circles and circles to lines.

    For every form of 5★E (--denominator of train). With a permutation baseline: the same points
    with one coordinate shuffled.
    """
    from fivestar.analysis.shapes import ShapeCriterion, count_shapes  # noqa: PLC0415  (slow)

    loaded = fivestar.load(run)
    ids = None if relation is None else [loaded.graph.relations.find(relation)]
    found = count_shapes(loaded, ShapeCriterion(widest, roughest), ids)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False))
        return
    total = sum(found.counts.values())
    print_table(
        ("heads → transformed heads", "dimensions", "share", "permutation baseline"),
        [
            (name, f"{count:,}", f"{count / total:.1%}", f"{found.baseline[name]:,}")
            for name, count in found.counts.items()
        ],
    )
    names = loaded.graph.relations
    rows = [
        (one.change, named(names, one.relation), str(one.dimension), f"{one.residual:.3f}")
        for one in found.examples
    ]
    if rows:
        print_table(("clearest", name_column("relation"), "dimension", "residual"), rows)
    out.print(
        f"5★E with denominator {found.denominator}, {found.relations} relations with enough heads. "
        f"Lines: width/length at most {widest:g}. "
        f"Circles: deviation/radius at most {roughest:g}, no gap of 120°.",
        markup=False,
    )
