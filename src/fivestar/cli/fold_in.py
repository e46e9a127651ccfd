"""`fivestar fold-in`: add new entities to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.source import Reading, read_source
from fivestar.cli.terminal import counting_progress, warn
from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar fold-in my_run facts.tsv --out my_larger_run"


@with_local_runs
def fold_in(
    run: RunFolder,
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
    from fivestar.prediction.fold_in import possible_misspellings  # noqa: PLC0415  (slow)

    if out.exists():
        raise OutputError(f"{out} exists already; choose another folder or remove it first")
    model = fivestar.load(run)
    given = read_source(str(facts), Reading())
    rows = given.named(given.facts).to_pylist()
    named = [(row["head"], row["relation"], row["tail"]) for row in rows]
    with counting_progress("fitting") as progress:
        extended = model.add_entities(named, epochs, lr, progress)
    new = list(extended.graph.entities)[len(model.graph.entities) :]
    for name, near in possible_misspellings(new, model.graph.entities).items():
        warn(f"Treating {name!r} as a new entity. Did you mean {' or '.join(map(repr, near))}?")
    extended.save(out)
    entities = "1 new entity" if len(new) == 1 else f"{len(new):,} new entities"
    screen.print(f"{entities} from {len(rows):,} facts; saved {out}", markup=False, soft_wrap=True)
