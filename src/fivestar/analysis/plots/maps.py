"""Plots of Möbius maps: the classes, and how the relations of a run transform the plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.plots import sphere
from fivestar.analysis.plots.style import (
    COLORMAP,
    COLORS,
    ComplexPoints,
    panels,
    set_few_ticks,
    set_view,
    styled,
)
from fivestar.analysis.relations import (
    relation_maps,
    require_fivestar,
    require_mobius,
    transform_points,
)
from fivestar.errors import SettingsError
from fivestar.geometry.classification import EXAMPLE_MULTIPLIERS, MobiusClass, classify, example_map
from fivestar.geometry.fixed_points import fixed_points, multiplier, power, velocity
from fivestar.geometry.mobius import (
    apply,
    chordal_distance,
    distance,
    identity_like,
    relative_determinant,
    to_sphere,
)
from fivestar.models.fivestar import FiveStarE
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = "abcd"
_MARKED = torch.tensor(
    [-0.75 + 0.4j, 0.5 + 0.35j, -0.45 - 0.6j, 0.65 - 0.75j], dtype=torch.complex128
)
_GRID = 30
# Entities are near 0; dimensions with a fixed point beyond this are avoided.
_FAR = 4.0
# Tolerance when classifying a map for its caption.
_TOLERANCE = 0.05
# Up to rounding, of |k| = 1 and of fixed points that coincide.
_SAME = 1e-6
# By kind of fixed point: a parabolic one attracts on one side and repels on the other, a neutral
# one does neither.
_MARKER = {"marker": "o", "markersize": 6, "color": "black", "markeredgecolor": "black"}
_FIXED_POINT_STYLES: dict[str, dict[str, Any]] = {
    "attracting": {**_MARKER, "fillstyle": "full"},
    "repelling": {**_MARKER, "markerfacecolor": "white"},
    "neutral": {**_MARKER, "marker": "D", "markersize": 5.5, "markerfacecolor": "#f2b800"},
    "parabolic": {**_MARKER, "fillstyle": "right", "markerfacecoloralt": "white"},
}


@styled
def mobius_classes() -> Figure:
    """Plot the flows of the five classes of Möbius maps, on the sphere and in the plane.

    Four points a, b, c and d are marked, with the path of each to its image, and the fixed points.
    """
    figure, axes = panels(2, len(EXAMPLE_MULTIPLIERS), 2.2, (2.2 * sphere.ASPECT + 0.2, 2.4))
    for column, mobius_class in enumerate(EXAMPLE_MULTIPLIERS):
        m = example_map(mobius_class)
        above, below = axes[:, column]
        sphere.draw_sphere(above)
        sphere.draw_flow(above, m)
        above.set_title(mobius_class.name.lower(), fontsize=11)
        draw_flow(below, m, extent=2.0)
        paths = apply(power(m, torch.linspace(0, 1, 60, dtype=torch.float64)), _MARKED[:, None])
        for path, letter in zip(paths, _LETTERS, strict=True):
            sphere.draw_curve(above, to_sphere(path).numpy(), color=COLORS[1], linewidth=2)
            _draw_path(below, path.numpy(), letter)
        sphere.draw_points(above, _MARKED.numpy(), color=COLORS[1], s=14)
        for z, kind in kinds_of_fixed_points(m):
            sphere.draw_fixed_point(above, z, _FIXED_POINT_STYLES[kind])
        below.set_xlabel(_multiplier_text(m))
    _add_legend(figure, map(example_map, EXAMPLE_MULTIPLIERS))
    return figure


@styled
def grids(run: Run, relations: Sequence[str], dimension: int | None = None) -> Figure:
    """Plot a grid on [−1, 1]² and its images under relations.

    Args:
        run: a run of a 5★E of any form.
        relations: names of relations, one panel each.
        dimension: the dimension; by default the one in which all relations do the most.

    Raises:
        SettingsError: if there is no such dimension, or the run is of another model.
    """
    model, rows = _rows(run, relations)
    dimension = _dimension(model, rows, dimension)
    figure, axes = panels(1, len(relations) + 1, 2.2, 2.9)
    z = grid()
    _draw_grid(axes[0, 0], z, z)
    axes[0, 0].set_title("before")
    for panel, name, row in zip(axes[0, 1:], relations, rows, strict=True):
        _draw_image_of_grid(panel, model, row, dimension)
        panel.set_title(name)
    figure.suptitle(f"dimension {dimension}, denominator {model.denominator}", fontsize=9)
    return figure


@styled
def flows(run: Run, relations: Sequence[str], dimensions: Sequence[int] = ()) -> Figure:
    """Plot the flows of relations in the plane, one row per relation, one column per dimension.

    Inverse relations have the same fixed points, with attraction and repulsion exchanged.

    Args:
        run: a run of a 5★E with Möbius maps.
        relations: names of relations.
        dimensions: the dimensions; by default the three in which all relations do the most.
    """
    require_mobius(run)
    model, rows = _rows(run, relations)
    maps = relation_maps(model, rows)
    chosen = list(dimensions) or _clearest_flows(maps, 3)
    figure, axes = panels(len(relations), len(chosen), 2.5, 3.0)
    for column, dimension in enumerate(_dimension(model, rows, each) for each in chosen):
        ends = torch.stack(fixed_points(maps[:, dimension])).abs()
        near = ends[ends < _FAR]
        extent = float(near.max()) * 1.4 if len(near) else 2.0
        for row, name in enumerate(relations):
            m, panel = maps[row, dimension], axes[row, column]
            draw_flow(panel, m, extent=max(extent, 0.5))
            panel.set_title(f"{name}, dimension {dimension}")
            panel.set_xlabel(_caption(m))
    _add_legend(figure, maps[:, chosen].flatten(0, 1))
    return figure


@styled
def epochs(runs: Mapping[int, Run], relation: str, dimension: int | None = None) -> Figure:
    """Plot the image of a grid under one dimension of a relation at several epochs.

    Args:
        runs: snapshots of a run by epoch.
        relation: the name of a relation.
        dimension: the dimension; by default the one in which the last snapshot does the most.
    """
    by_epoch = {epoch: _rows(run, [relation]) for epoch, run in sorted(runs.items())}
    dimension = _dimension(*by_epoch[max(by_epoch)], dimension)
    columns = min(len(runs), 3) if len(runs) <= 9 else 5
    rows = -(-len(runs) // columns)
    figure, axes = panels(rows, columns, 2.3, 2.5)
    for panel in axes.flat[len(runs) :]:
        panel.set_axis_off()
    for panel, (epoch, (model, tables)) in zip(axes.flat, by_epoch.items(), strict=False):
        _draw_image_of_grid(panel, model, tables[0], dimension)
        panel.set_title(f"epoch {epoch}")
    form = f"denominator {model.denominator}"
    figure.suptitle(f"{relation}, dimension {dimension}, {form}", fontsize=9)
    return figure


def grid(size: int = _GRID) -> ComplexPoints:
    """Return a grid (size, size) on [−1, 1]²."""
    ends = np.linspace(-1, 1, size)
    points: ComplexPoints = ends[None, :] + 1j * ends[:, None]
    return points


def clearest_dimensions(maps: Tensor, count: int = 1) -> list[int]:
    """Return the dimensions of maps (relations, d, 2, 2) in which all of them do the most."""
    effect = distance(maps, identity_like(maps)) * relative_determinant(maps)
    return effect.amin(dim=0).topk(min(count, maps.shape[1])).indices.tolist()


def _clearest_flows(maps: Tensor, count: int) -> list[int]:
    """Return the clearest dimensions, first those in which no fixed point is far away."""
    ends = torch.stack(fixed_points(maps)).nan_to_num(torch.inf).abs()
    is_far = (ends.amax(dim=(0, 1)) > _FAR).tolist()
    ordered = clearest_dimensions(maps, maps.shape[1])
    return sorted(ordered, key=lambda dimension: is_far[dimension])[:count]


def draw_flow(axes: Axes, m: Tensor, extent: float) -> None:
    """Draw the stream lines of a map on [−extent, extent]², with its fixed points."""
    ends = torch.linspace(-extent, extent, 60, dtype=torch.float64)
    velocities = velocity(m, torch.complex(ends[None, :], ends[:, None])).numpy()
    x = ends.numpy()
    axes.streamplot(
        x,
        x,
        velocities.real,
        velocities.imag,
        color=COLORS[0],
        linewidth=0.6,
        density=0.9,
        arrowsize=0.7,
    )
    for z, kind in kinds_of_fixed_points(m):
        if abs(z) < 4 * extent:
            axes.plot(z.real, z.imag, zorder=7, **_FIXED_POINT_STYLES[kind])
    axes.set_xlim(-extent, extent)
    axes.set_ylim(-extent, extent)
    axes.set_aspect("equal")
    set_few_ticks(axes)


def kinds_of_fixed_points(m: Tensor) -> list[tuple[complex, str]]:
    """Return the finite fixed points of a map (2, 2) and what the map does to points near each.

    Returns:
        Pairs of a point and "attracting", "repelling", "neutral" (circular and elliptic maps turn
        around it) or "parabolic" (the only one).
    """
    attracting, repelling = fixed_points(m)
    if float(chordal_distance(attracting, repelling)) <= _SAME:
        kinds = [(attracting, "parabolic")]
    elif abs(complex(multiplier(m))) <= 1 + _SAME:
        kinds = [(attracting, "neutral"), (repelling, "neutral")]
    else:
        kinds = [(repelling, "repelling"), (attracting, "attracting")]
    return [(complex(z), kind) for z, kind in kinds if np.isfinite(complex(z))]


def _add_legend(figure: Figure, maps: Iterable[Tensor]) -> None:
    """Add a legend of the kinds of fixed points that these maps have."""
    found = {kind for m in maps for _, kind in kinds_of_fixed_points(m)}
    for kind, style in _FIXED_POINT_STYLES.items():
        if kind in found:
            figure.axes[0].plot([], [], linestyle="none", label=f"{kind} fixed point", **style)
    figure.legend(loc="outside lower center", ncols=len(_FIXED_POINT_STYLES))


def _draw_path(axes: Axes, path: ComplexPoints, letter: str) -> None:
    """Draw the path from a point to its image, with names at both ends."""
    axes.plot(path.real, path.imag, color=COLORS[1], linewidth=2, zorder=4)
    axes.annotate(
        "",
        (path[-1].real, path[-1].imag),
        (path[-4].real, path[-4].imag),
        zorder=4,
        arrowprops={"arrowstyle": "-|>", "color": COLORS[1], "lw": 1.5},
    )
    axes.scatter(path[0].real, path[0].imag, color=COLORS[1], s=14, zorder=5)
    for z, name in ((path[0], letter), (path[-1], f"{letter}′")):
        axes.annotate(
            name,
            (z.real, z.imag),
            (4, 3),
            textcoords="offset points",
            zorder=6,
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.08", "facecolor": "white", "alpha": 0.75, "lw": 0},
        )


def _draw_image_of_grid(axes: Axes, model: FiveStarE, row: Tensor, dimension: int) -> None:
    """Draw the image of the grid under a relation, with the class of its map if it is one."""
    z = grid()
    _draw_grid(axes, z, _grid_images(model, row[None])[0, ..., dimension].numpy())
    if model.denominator == "mobius":
        axes.set_xlabel(_caption(relation_maps(model, row)[dimension]))


def _grid_images(model: FiveStarE, rows: Tensor) -> Tensor:
    """Return the images (relations, size, size, d) of the grid."""
    z = torch.as_tensor(grid())[..., None].expand(_GRID, _GRID, model.dim)
    return torch.stack([transform_points(model, row, z) for row in rows])


def _draw_grid(axes: Axes, z: ComplexPoints, images: ComplexPoints) -> None:
    for lines in (images, images.T):
        for line in lines[::3]:
            axes.plot(
                _without_jumps(line).real, _without_jumps(line).imag, color="#c9ced6", linewidth=0.4
            )
    axes.scatter(images.real, images.imag, c=z.real, cmap=COLORMAP, s=3, zorder=3)
    set_view(axes, [images])


def _without_jumps(line: ComplexPoints) -> ComplexPoints:
    """Return a line with NaN where it passes the pole."""
    step = np.abs(np.diff(line, append=line[-1:]))
    typical_step = np.median(step[:-1])
    return np.where(step > 20 * typical_step, np.nan, line)


def _rows(run: Run, relations: Sequence[str]) -> tuple[FiveStarE, Tensor]:
    """Return the model and the rows (relations, 8d) of relations by name."""
    model = require_fivestar(run)
    if not relations:
        raise SettingsError("name at least one relation")
    ids = [run.graph.relations.id_of(name) for name in relations]
    return model, model.relations.detach()[ids]


def _dimension(model: FiveStarE, rows: Tensor, dimension: int | None) -> int:
    if dimension is None:
        if model.denominator == "mobius":
            return clearest_dimensions(relation_maps(model, rows))[0]
        before = torch.as_tensor(grid())[..., None]
        moved = chordal_distance(before, _grid_images(model, rows)).mean(dim=(1, 2))
        return int(moved.amin(dim=0).argmax())
    if not 0 <= dimension < model.dim:
        raise SettingsError(f"no dimension {dimension}: there are 0 to {model.dim - 1}")
    return dimension


def _caption(m: Tensor) -> str:
    is_near_identity = float(distance(m, identity_like(m))) <= _TOLERANCE
    name = MobiusClass(int(classify(m, _TOLERANCE))).name.lower()
    return f"{'near the identity' if is_near_identity else name}\n{_multiplier_text(m)}"


def _multiplier_text(m: Tensor) -> str:
    k = complex(multiplier(m))
    degrees = np.degrees(np.angle(k))
    # −180° and −0° are 180° and 0°.
    degrees = 180.0 if degrees <= -179.5 else round(degrees) + 0.0
    return f"|k| = {abs(k):.2f}, arg k = {degrees:.0f}°".replace("-", "−")
