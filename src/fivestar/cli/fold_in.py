"""`fivestar fold-in`: add new entities to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.source import Reading, read_source
from fivestar.cli.terminal import counting_progress, warn
from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar fold-in my_run facts.tsv --out my_larger_run"


def fold_in(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    facts: Annotated[
        Path, typer.Argument(help="File of triples, each with at least one new entity.")
    ],
    *,
    epochs: Annotated[int, typer.Option(help="Epochs.", min=0)] = 20,
    lr: Annotated[float, typer.Option(help="Learning rate.", min=0)] = 0.03,
    out: Annotated[Path, typer.Option(help="New folder to write to.", show_default=False)],
) -> None:
    """Add new entities to a trained model without retraining.

    Only the new embeddings are trained; all others stay fixed.
    """
    from fivestar.errors import OutputError  # noqa: PLC0415
    from fivestar.prediction.fold_in import doubtful  # noqa: PLC0415  (slow to import)
    from fivestar.prediction.fold_in import fold_in as fold  # noqa: PLC0415
    from fivestar.runs.run import load_run  # noqa: PLC0415

    if out.exists():
        raise OutputError(f"{out} exists already; choose another folder or remove it first")
    loaded = load_run(run)
    told = read_source(str(facts), Reading())
    rows = told.named(told.facts).to_pylist()
    named = [(row["head"], row["relation"], row["tail"]) for row in rows]
    with counting_progress("fitting") as progress:
        found = fold(loaded, named, epochs, lr, progress)
    for name, near in doubtful(found.new, loaded.graph.entities).items():
        warn(f"Treating {name!r} as a new entity. Did you mean {' or '.join(map(repr, near))}?")
    found.run.save(out)
    entities = "1 new entity" if len(found.new) == 1 else f"{len(found.new):,} new entities"
    screen.print(
        f"{entities} from {len(rows):,} facts; saved in {out}", markup=False, soft_wrap=True
    )
