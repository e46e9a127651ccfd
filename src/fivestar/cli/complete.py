"""`fivestar complete`: the most probable new triples of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import name_column, named, print_table
from fivestar.cli.terminal import counting_progress, resumable, warn
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    from fivestar.prediction.predictions import Named

EXAMPLE = "Example: fivestar complete my_run --top 1000 --out new.tsv"
_SHOWN = 5


@with_local_runs
def complete(
    run: RunFolder,
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
    max_queries: Annotated[
        int | None,
        typer.Option(
            help="At most this many queries, for the entities with the most facts of each "
            "relation; by default one per head and tail of each relation.",
            min=1,
            show_default=False,
        ),
    ] = None,
    second_answers: Annotated[
        bool,
        typer.Option(
            help="Also triples that give an entity a second answer where nearly all others have "
            "exactly one.",
        ),
    ] = True,
    out: Annotated[
        Path, typer.Option(help="Output file: .nt, .tsv or .parquet.", show_default=False)
    ],
) -> None:
    """Predict the most probable triples that are not in the graph.

    Run the same command again to resume after an interruption.
    """
    from fivestar.prediction.completion import Goal  # noqa: PLC0415  (slow to import)
    from fivestar.prediction.completion_file import check_file  # noqa: PLC0415

    Goal(
        threshold, top, slots, max_queries, second_answers
    )  # refuse bad arguments before anything is loaded
    check_file(out)
    model = fivestar.load(run)
    again = "run the same command again to resume"
    with resumable(again), counting_progress("scoring") as progress:
        found = model.complete(
            top=top,
            threshold=threshold,
            relations=relation,
            slots=slots,
            max_queries=max_queries,
            second_answers=second_answers,
            out=out,
            progress=progress,
        )
    names = {
        "head": model.graph.entities,
        "relation": model.graph.relations,
        "tail": model.graph.entities,
    }
    rows: list[tuple[str | Named, ...]] = [
        (
            *(named(vocabulary, row[key]) for key, vocabulary in names.items()),
            f"{row['probability']:.1%}" if "probability" in row else "–",
        )
        for row in found.table.slice(0, _SHOWN).to_pylist()
    ]
    if rows:
        print_table([*map(name_column, names), "probability"], rows)
    screen.print(f"{len(found):,} new triples in {out}", markup=False, soft_wrap=True)
    if found.new.floor is not None:
        warn(
            f"answers with a softmax probability below {found.new.floor:g} were not considered; "
            f"some may be as probable as the last of these {len(found):,}"
        )
    if found.new.skipped:
        warn(
            f"{found.new.skipped:,} queries were not answered, those of entities with the fewest "
            f"facts; without --max-queries {max_queries:,} all are"
        )
