"""`fivestar cluster`: do entities of one type lie together?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import counting_progress
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fivestar.analysis.clustering import Clustering, Typed
    from fivestar.runs.run import Run

EXAMPLE = "Example: fivestar cluster my_run --types city --types country"


def cluster(
    runs: Annotated[list[Path], typer.Argument(help="The folders of one or more runs.")],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            help="A type to look at; again for more. (default: the most frequent)",
            show_default=False,
        ),
    ] = None,
    neighbours: Annotated[int, typer.Option(help="How many neighbours count.", min=1)] = 10,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw a map of the entities: a .png, .svg or .pdf.", show_default=False),
    ] = None,
    method: Annotated[Literal["tsne", "pca"], typer.Option(help="How to draw it.")] = "tsne",
    seed: Annotated[int, typer.Option(help="Of the map, and of types dealt out anew.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Measure how well the types of entities are told apart by where a model puts them.

    Of entities of exactly one of the types; embeddings are scaled to the same total variance.
    """
    from fivestar.analysis.clustering import clustering, typed_entities  # noqa: PLC0415  (slow)
    from fivestar.runs.run import load_run  # noqa: PLC0415

    loaded = {place.name: load_run(place) for place in runs}
    # Each run by its own graph: ids may differ, names do not.
    typed = {name: typed_entities(run.graph, types or ()) for name, run in loaded.items()}
    found = {name: clustering(run, typed[name], neighbours, seed) for name, run in loaded.items()}
    if as_json:
        listed = {name: each.as_json() for name, each in found.items()}
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
    else:
        _show(found)
    if out is not None:
        _draw(loaded, typed, found, out, method, seed)


def _show(found: dict[str, Clustering]) -> None:
    first = next(iter(found.values()))
    sizes = ", ".join(f"{name} {count:,}" for name, count in first.types.items())
    screen.print(f"Entities: {sizes}", markup=False)
    columns = ("within", "between", "silhouette", "purity")
    table = Table("run", *columns, box=SIMPLE)
    for name, each in found.items():
        table.add_row(Text(name), *(f"{getattr(each, key):.3f}" for key in columns))
        table.add_row("  types dealt out anew", *(f"{each.shuffled[key]:.3f}" for key in columns))
    screen.print(table)
    screen.print(
        "within: variance within types, of 1 in all; between: mean distance of their centres; "
        f"purity: share of the {first.neighbours} nearest of the same type "
        f"({first.chance:.3f} by chance). Means over types.",
        markup=False,
    )


def _draw(
    runs: dict[str, Run],
    typed: dict[str, Typed],
    found: dict[str, Clustering],
    out: Path,
    method: Literal["tsne", "pca"],
    seed: int,
) -> None:
    from fivestar.analysis.clustering import entity_map  # noqa: PLC0415  (slow to import)
    from fivestar.analysis.plots.points import clusters  # noqa: PLC0415
    from fivestar.analysis.plots.style import check_name, save  # noqa: PLC0415

    check_name(out)
    maps: dict[str, tuple[npt.NDArray[np.float64], Typed]] = {}
    with counting_progress("placing") as progress:
        for name, run in runs.items():
            progress(len(maps), len(runs))
            maps[name] = (entity_map(run, typed[name], method, seed), typed[name])
    captions = {
        name: f"silhouette {each.silhouette:.3f}, purity {each.purity:.2f}"
        for name, each in found.items()
    }
    save(clusters(maps, captions), out)
    screen.print(f"drawn in {out}", markup=False, soft_wrap=True)
