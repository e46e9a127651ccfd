"""`fivestar fold-in`: new entities for a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.source import Reading, read_source
from fivestar.cli.terminal import counting_progress, warn
from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar fold-in my_run facts.tsv --out my_larger_run"


def fold_in(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    facts: Annotated[
        Path, typer.Argument(help="A file of triples, each with an entity that the run lacks.")
    ],
    *,
    epochs: Annotated[int, typer.Option(help="How long to fit.", min=0)] = 20,
    lr: Annotated[float, typer.Option(help="The learning rate.", min=0)] = 0.03,
    out: Annotated[Path, typer.Option(help="The new folder.", show_default=False)],
) -> None:
    """Give a run entities that it has never seen, from facts about them.

    Only their embeddings are fitted, in seconds; all else stays as it was trained.
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
        warn(f"{name!r} is taken for something new; did you mean {' or '.join(map(repr, near))}?")
    found.run.save(out)
    entities = "1 new entity" if len(found.new) == 1 else f"{len(found.new):,} new entities"
    screen.print(
        f"{entities} from {len(rows):,} facts; saved in {out}", markup=False, soft_wrap=True
    )
