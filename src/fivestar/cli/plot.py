"""`fivestar plot`: figures of a trained 5★E."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, RunFolders, with_local_runs
from fivestar.cli.shapes import Roughest, Widest
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    from fivestar.runs.run import Run

app = typer.Typer(
    help="Plot maps, grids, flows, shapes and entities. (Entity types: fivestar cluster --out)",
    epilog="Example: fivestar plot classes --out classes.png",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="Output file: .png, .svg or .pdf.", show_default=False)]
Relations = Annotated[
    list[str], typer.Option("--relation", help="Relation (repeatable).", show_default=False)
]
Relation = Annotated[str, typer.Option(help="Relation.", show_default=False)]
Dimension = Annotated[
    int | None,
    typer.Option(help="Dimension, from 0. (default: the clearest)", show_default=False),
]
Dimensions = Annotated[
    list[int] | None,
    typer.Option(
        "--dimension",
        help="Dimension, from 0 (repeatable). (default: the clearest)",
        show_default=False,
    ),
]


@app.command("classes", epilog="Example: fivestar plot classes --out classes.png")
def classes(*, out: Out) -> None:
    """Plot the five classes of Möbius maps on the Riemann sphere and in the plane."""
    _draw(out, "maps", "mobius_classes")


@app.command(
    "grid",
    epilog="Example: fivestar plot grid my_run --relation has_part --relation part_of --out g.png",
)
@with_local_runs
def grid(run: RunFolder, *, relation: Relations, dimension: Dimension = None, out: Out) -> None:
    """Plot a grid and its image under relations in one dimension."""
    _draw(out, "maps", "grids", _load(run), relation, dimension)


@app.command(
    "flow",
    epilog="Example: fivestar plot flow my_run --relation has_part --relation part_of --out f.png",
)
@with_local_runs
def flow(run: RunFolder, *, relation: Relations, dimension: Dimensions = None, out: Out) -> None:
    """Plot the flow of relations with their fixed points."""
    _draw(out, "maps", "flows", _load(run), relation, dimension or ())


@app.command("epochs", epilog="Example: fivestar plot epochs my_run --relation part_of --out e.png")
@with_local_runs
def epochs(run: RunFolder, *, relation: Relation, dimension: Dimension = None, out: Out) -> None:
    """Plot the image of a grid under a relation at each snapshot (--snapshot-epochs)."""

    def kept() -> dict[int, Run]:
        from fivestar.errors import SettingsError  # noqa: PLC0415

        numbers = fivestar.load(run).settings.training.snapshot_epochs
        if not numbers:
            raise SettingsError(
                f"{run} has no snapshots; train with --snapshot-epochs, as in 0,5,10"
            )
        return {epoch: fivestar.load(run, epoch) for epoch in numbers}

    _draw(out, "maps", "epochs", kept, relation, dimension)


@app.command(
    "entities",
    epilog="Example: fivestar plot entities my_run --relation part_of --out entities.png",
)
@with_local_runs
def entities(run: RunFolder, *, relation: Relation, dimension: Dimensions = None, out: Out) -> None:
    """Plot heads, transformed heads and tails of a relation."""
    _draw(out, "points", "entities", _load(run), relation, dimension or ())


@app.command(
    "shapes", epilog="Example: fivestar plot shapes my_run my_complex_run --out shapes.png"
)
@with_local_runs
def shapes(
    runs: RunFolders,
    *,
    widest: Widest = 0.2,
    roughest: Roughest = 0.2,
    out: Out,
) -> None:
    """Plot the clearest lines and circles and their images under a relation.

    Also for ComplEx and RotatE.
    """

    def examples() -> list[tuple[str, Run, Any]]:
        from fivestar.analysis.labels import run_labels  # noqa: PLC0415  (slow)
        from fivestar.analysis.shapes import ShapeCriterion, clearest_examples  # noqa: PLC0415

        loaded = [fivestar.load(place) for place in runs]
        named = zip(run_labels(loaded), loaded, strict=True)
        return clearest_examples(named, ShapeCriterion(widest, roughest))

    _draw(out, "points", "shapes", examples)


def _load(folder: Path) -> Callable[[], Run]:
    def load() -> Run:
        return fivestar.load(folder)

    return load


def _draw(out: Path, module: str, name: str, *arguments: Any) -> None:
    """Draw a figure and save it; check the arguments before the slow part."""
    from importlib import import_module  # noqa: PLC0415

    from fivestar.analysis.plots.style import check_figure_path, save_figure  # noqa: PLC0415  (slow to import)

    check_figure_path(out)
    draw = getattr(import_module(f"fivestar.analysis.plots.{module}"), name)
    save_figure(draw(*(each() if callable(each) else each for each in arguments)), out)
    screen.print(f"saved {out}", markup=False, soft_wrap=True)
