"""The paper's figures of trained models: the runs that each needs, and how it is plotted.

The settings of the runs are data, in `recipes/figures/GRAPH-MODEL.toml`. No figure uses the test
split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fivestar.analysis.labels import run_labels
from fivestar.analysis.shapes import ShapeCriterion, clearest_examples
from fivestar.experiments.reproduction import RECIPES, Job
from fivestar.runs.run import load_run
from fivestar.runs.settings import read_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TYPES = (
    "/tv/tv_program",
    "/film/film",
    "/music/instrument",
    "/organization/endowed_organization",
    "/location/statistical_region",
    "/music/group_member",
)


@dataclass(frozen=True)
class TrainedFigure:
    """A figure of trained models."""

    title: str
    graph: str
    models: tuple[str, ...]
    draw: Callable[[Sequence[Path]], Figure]

    def jobs(self, changes: dict[str, dict[str, Any]]) -> list[Job]:
        """Return the runs that the figure needs, with some settings changed."""
        files = (RECIPES / "figures" / f"{self.graph}-{model}.toml" for model in self.models)
        return [Job(self.graph, read_settings(file, changes)) for file in files]


def _grid(folders: Sequence[Path]) -> Figure:
    from fivestar.analysis.plots.maps import grids  # noqa: PLC0415  (needs an extra)

    return grids(load_run(folders[0]), ["_has_part", "_part_of", "_hypernym", "_hyponym"])


def _flow(*relations: str) -> Callable[[Sequence[Path]], Figure]:
    def draw(folders: Sequence[Path]) -> Figure:
        from fivestar.analysis.plots.maps import flows  # noqa: PLC0415  (needs an extra)

        return flows(load_run(folders[0]), relations)

    return draw


def _entities(relation: str) -> Callable[[Sequence[Path]], Figure]:
    def draw(folders: Sequence[Path]) -> Figure:
        from fivestar.analysis.plots.points import entities  # noqa: PLC0415  (needs an extra)

        return entities(load_run(folders[0]), relation)

    return draw


def _epochs(folders: Sequence[Path]) -> Figure:
    from fivestar.analysis.plots.maps import epochs  # noqa: PLC0415  (needs an extra)

    snapshots = load_run(folders[0]).settings.training.snapshot_epochs
    return epochs({epoch: load_run(folders[0], epoch) for epoch in snapshots}, "_has_part")


def _shapes(folders: Sequence[Path]) -> Figure:
    from fivestar.analysis.plots.points import shapes  # noqa: PLC0415  (needs an extra)

    # Looser than in `fivestar shapes`, by whose criterion no line becomes a circle.
    loose = ShapeCriterion(max_width=0.35, max_deviation=0.35)
    runs = [load_run(folder) for folder in folders]
    return shapes(clearest_examples(zip(run_labels(runs), runs, strict=True), loose))


def _clusters(folders: Sequence[Path]) -> Figure:
    from fivestar.analysis.clustering import (  # noqa: PLC0415  (needs an extra)
        clustering_metrics,
        entity_map,
        typed_entities,
    )
    from fivestar.analysis.plots.points import clusters  # noqa: PLC0415

    maps, captions = {}, {}
    runs = [load_run(folder) for folder in folders]
    for name, run in zip(run_labels(runs), runs, strict=True):
        typed = typed_entities(run.graph, TYPES)
        scores = clustering_metrics(run, typed)
        maps[name] = (entity_map(run, typed), typed)
        captions[name] = f"silhouette {scores.silhouette:.3f}, purity {scores.purity:.2f}"
    return clusters(maps, captions)


_ONE = ("fivestar",)
FIGURES = {
    "figure-grid": TrainedFigure(
        "a grid transformed by four relations of WN18", "wn18", _ONE, _grid
    ),
    "figure-flow-hypernym": TrainedFigure(
        "flows of hypernym and hyponym", "wn18", _ONE, _flow("_hypernym", "_hyponym")
    ),
    "figure-flow-has-part": TrainedFigure(
        "flows of has part and part of", "wn18", _ONE, _flow("_has_part", "_part_of")
    ),
    "figure-entities-hypernym": TrainedFigure(
        "heads, transformed heads and tails of hypernym", "wn18", _ONE, _entities("_hypernym")
    ),
    "figure-entities-derivationally": TrainedFigure(
        "the same of derivationally related form",
        "wn18",
        _ONE,
        _entities("_derivationally_related_form"),
    ),
    "figure-epochs": TrainedFigure(
        "a grid transformed by has part, by epoch", "wn18", _ONE, _epochs
    ),
    "figure-shapes": TrainedFigure(
        "lines and circles, and their images under relations",
        "nell-995-h100",
        ("fivestar", "complex", "rotate"),
        _shapes,
    ),
    "figure-clusters": TrainedFigure(
        "entities of six types, embedded by three models",
        "fb15k-237",
        ("complex", "quate", "fivestar"),
        _clusters,
    ),
}
