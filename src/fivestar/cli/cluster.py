"""`fivestar cluster`: clustering of entity embeddings by type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import fivestar
from fivestar.cli.run_argument import RunFolders, with_local_runs
from fivestar.cli.tables import name_column, print_table, short_name
from fivestar.cli.terminal import counting_progress
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fivestar.analysis.clustering import ClusteringMetrics, TypedEntities
    from fivestar.runs.run import Run

EXAMPLE = "Example: fivestar cluster my_run --types city --types country"


@with_local_runs
def cluster(
    runs: RunFolders,
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            help="Entity type (repeatable). (default: the most frequent)",
            show_default=False,
        ),
    ] = None,
    neighbors: Annotated[int, typer.Option(help="Number of neighbors for the purity.", min=1)] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Plot a map of the entities to this .png, .svg or .pdf file.", show_default=False
        ),
    ] = None,
    method: Annotated[Literal["tsne", "pca"], typer.Option(help="Projection.")] = "tsne",
    seed: Annotated[
        int, typer.Option(help="Random seed of the projection and the permutation baseline.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Measure how well entity embeddings cluster by type.

    Over entities with exactly one of the types; embeddings are scaled to unit total variance.
    """
    from fivestar.analysis.clustering import clustering_metrics, typed_entities  # noqa: PLC0415  (slow)

    loaded: dict[str, Run] = {place.name: fivestar.load(place) for place in runs}
    # Each run by its own graph: ids may differ, names do not.
    typed = {name: typed_entities(run.graph, types or ()) for name, run in loaded.items()}
    found = {
        name: clustering_metrics(run, typed[name], neighbors, seed) for name, run in loaded.items()
    }
    if as_json:
        listed = {name: each.as_json() for name, each in found.items()}
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
    else:
        _show(found)
    if out is not None:
        _draw(loaded, typed, found, out, method, seed)


def _show(found: dict[str, ClusteringMetrics]) -> None:
    first = next(iter(found.values()))
    sizes = ", ".join(f"{short_name(name)} {count:,}" for name, count in first.types.items())
    screen.print(f"Entities: {sizes}", markup=False)
    columns = ("within", "between", "silhouette", "purity")
    rows = []
    for name, each in found.items():
        rows.append((name, *(f"{getattr(each, key):.3f}" for key in columns)))
        baseline = (f"{each.permutation_baseline[key]:.3f}" for key in columns)
        rows.append(("  permutation baseline", *baseline))
    print_table([name_column("run"), *columns], rows)
    screen.print(
        "within: variance within types (total 1); between: mean distance of their centers; "
        f"purity: share of the {first.num_neighbors} nearest of the same type "
        f"({first.random_purity:.3f} by chance). Means over types.",
        markup=False,
    )


def _draw(
    runs: dict[str, Run],
    typed: dict[str, TypedEntities],
    found: dict[str, ClusteringMetrics],
    out: Path,
    method: Literal["tsne", "pca"],
    seed: int,
) -> None:
    from fivestar.analysis.clustering import entity_map  # noqa: PLC0415  (slow to import)
    from fivestar.analysis.labels import run_labels  # noqa: PLC0415
    from fivestar.analysis.plots.points import clusters  # noqa: PLC0415
    from fivestar.analysis.plots.style import check_figure_path, save_figure  # noqa: PLC0415

    check_figure_path(out)
    maps: dict[str, tuple[npt.NDArray[np.float64], TypedEntities]] = {}
    labels = dict(zip(runs, run_labels(list(runs.values())), strict=True))
    with counting_progress("projecting") as progress:
        for name, run in runs.items():
            progress(len(maps), len(runs))
            maps[labels[name]] = (entity_map(run, typed[name], method, seed), typed[name])
    captions = {
        labels[name]: f"silhouette {each.silhouette:.3f}, purity {each.purity:.2f}"
        for name, each in found.items()
    }
    save_figure(clusters(maps, captions), out)
    screen.print(f"saved {out}", markup=False, soft_wrap=True)
