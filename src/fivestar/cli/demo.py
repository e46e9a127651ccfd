"""`fivestar demo`: train on the bundled demo graph, evaluate, predict, in about a minute."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fivestar
from fivestar.cli.ask import ask
from fivestar.cli.evaluate import evaluate
from fivestar.cli.tables import name_column, print_table
from fivestar.cli.terminal import out, resumable_run

if TYPE_CHECKING:
    from fivestar.prediction.trained_model import TrainedModel

EXAMPLE = "Example: fivestar demo"
QUERIES = (
    ("Lyon", "in_country", "_"),
    ("_", "neighbour_of", "Germany"),
    ("Brazil", "has_time_zone", "_"),
)


def demo(
    *,
    epochs: Annotated[
        int | None,
        typer.Option(help="Training epochs. (default: from the graph)", min=1, show_default=False),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--out", help="New folder to keep the run in.", show_default=False),
    ] = None,
) -> None:
    """Train 5★E on the bundled demo graph, evaluate it, and predict missing links."""
    with TemporaryDirectory() as folder:
        run = keep or Path(folder) / "run"
        given: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        with resumable_run(run) if keep else nullcontext():
            model = fivestar.train(out=run, **given)
        out.print("\nTest metrics (filtered ranks among all entities):")
        evaluate(run)
        _show_held_out(model)
        for head, relation, tail in QUERIES:
            ask(run, head, relation, tail, top=5)
    command = _command_as_typed()
    if keep is None:
        lines = f"Keep the model:   {command} demo --out demo_run"
    else:
        lines = (
            f"Ask for more:     {command} ask {keep} Lyon in_country _\n"
            f"Open the page:    {command} serve {keep}"
        )
    out.print(f"\n{lines}", markup=False, soft_wrap=True)


def _command_as_typed() -> str:
    """Return how this shell calls the command: by name, or by path if it is not on the PATH."""
    path = Path(sys.argv[0])
    found = which("fivestar")
    if path.name != "fivestar" or (found and path.exists() and path.samefile(found)):
        return "fivestar"
    return sys.argv[0]


def _show_held_out(model: TrainedModel) -> None:
    """Print the best-ranked test fact of each relation."""
    from fivestar.evaluation import report  # noqa: PLC0415  (slow to import)

    found = report.evaluate(model.model, model.graph, model.graph.test)
    first = found.tail_ranks.realistic == 1
    share = f"{first.mean():.0%} of the {len(first):,} test facts"
    out.print(f"\nHeld-out facts: the model ranks the tail of {share} first.", soft_wrap=True)
    rank = found.tail_ranks.realistic + found.head_ranks.realistic
    rows = []
    for number in range(len(model.graph.relations)):
        facts = (model.graph.test.relations == number).nonzero()[0]
        if len(facts):
            best = facts[rank[facts].argmin()]
            rows.append(_fact(model, model.graph.test.array[best], found, best))
    columns = ("tail rank", "head rank", "probability")
    print_table([name_column("held-out fact"), *columns], rows)


def _fact(model: TrainedModel, fact: Any, found: Any, row: Any) -> tuple[str, ...]:
    entities, relations = model.graph.entities, model.graph.relations
    head, tail = (entities.name_of(int(number)) for number in fact[[0, 2]])
    relation = relations.name_of(int(fact[1]))
    probability = model.score(head, relation, tail).probability
    return (
        f"{head} {relation} {tail}",
        f"{found.tail_ranks.realistic[row]:g}",
        f"{found.head_ranks.realistic[row]:g}",
        "" if probability is None else f"{probability:.0%}",
    )
