"""`fivestar complete`: the most probable new triples of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import counting_progress
from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar complete my_run --top 1000 --out new.tsv"
_SHOWN = 5


def complete(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    *,
    relation: Annotated[
        list[str] | None,
        typer.Option(help="Only this relation (repeatable).", show_default=False),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Minimum probability.", min=0, max=1, show_default=False),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Number of triples to return.", min=1, show_default=False)
    ] = None,
    slots: Annotated[
        Literal["seen", "all"],
        typer.Option(help="Candidate entities: those seen with the relation in train, or all."),
    ] = "seen",
    out: Annotated[
        Path, typer.Option(help="Output file: .nt, .tsv or .parquet.", show_default=False)
    ],
) -> None:
    """Predict the most probable triples that are not in the graph.

    Run the same command again to resume after an interruption.
    """
    from fivestar.prediction.completion import Goal  # noqa: PLC0415  (slow to import)
    from fivestar.prediction.completion_file import check_file, complete_into  # noqa: PLC0415
    from fivestar.prediction.predictor import Predictor  # noqa: PLC0415
    from fivestar.runs.run import load_run  # noqa: PLC0415

    goal = Goal(threshold, top, slots)
    check_file(out)
    predictor = Predictor(load_run(run))
    names = predictor.graph.relations
    chosen = None if relation is None else [names.find(name) for name in relation]
    with counting_progress("scoring") as progress:
        found = complete_into(out, predictor, goal, chosen, progress)
    table = Table("head", "relation", "tail", "probability")
    rows = predictor.graph.named(found.triples).slice(0, _SHOWN).to_pylist()
    for row, likely in zip(rows, found.probabilities, strict=False):
        shown = "–" if predictor.calibration is None else f"{likely:.1%}"
        table.add_row(*(Text(str(row[key])) for key in ("head", "relation", "tail")), shown)
    if rows:
        screen.print(table)
    screen.print(f"{len(found):,} new triples in {out}", markup=False, soft_wrap=True)
