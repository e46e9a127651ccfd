"""Pictures of maps: the kinds there are, and what those of a trained run do to the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.plots import sphere
from fivestar.analysis.plots.style import INK, SCALE, Points, frame, panels, styled
from fivestar.analysis.relations import matrices, mobius_of
from fivestar.errors import SettingsError
from fivestar.geometry.classification import EXAMPLE_MULTIPLIERS, MobiusClass, classify, example_map
from fivestar.geometry.fixed_points import fixed_points, multiplier, power, velocity
from fivestar.geometry.mobius import apply, distance, identity_like, relative_determinant, to_sphere
from fivestar.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = "abcd"
_MARKED = torch.tensor(
    [-0.75 + 0.4j, 0.5 + 0.35j, -0.45 - 0.6j, 0.65 - 0.75j], dtype=torch.complex128
)
_GRID = 30
# Entities are near 0; a fixed point beyond this is not drawn if that can be avoided.
_FAR = 4.0
# How far tr²/det may be from where a kind has it, for the name above a picture.
_TOLERANCE = 0.05


@styled
def kinds() -> Figure:
    """The five kinds of Möbius maps: their flow on the Riemann sphere and in the plane.

    Four points a, b, c and d are marked, with the way from each to its image.
    """
    figure, axes = panels(2, len(EXAMPLE_MULTIPLIERS), 2.5, 2.6)
    for column, kind in enumerate(EXAMPLE_MULTIPLIERS):
        m = example_map(kind)
        above, below = axes[:, column]
        sphere.draw_sphere(above)
        sphere.draw_flow(above, m)
        above.set_title(kind.name.lower(), fontsize=11)
        draw_flow(below, m, extent=2.0)
        ways = apply(power(m, torch.linspace(0, 1, 60, dtype=torch.float64)), _MARKED[:, None])
        for way, letter in zip(ways, _LETTERS, strict=True):
            sphere.draw_curve(above, to_sphere(way).numpy(), color=INK[1], linewidth=2)
            _way(below, way.numpy(), letter)
        sphere.draw_points(above, _MARKED.numpy(), color=INK[1], s=14)
        below.set_xlabel(_spoken_multiplier(m))
    return figure


@styled
def grids(run: Run, relations: Sequence[str], dimension: int | None = None) -> Figure:
    """A grid on [−1, 1]² and its images under one dimension of some relations."""
    maps = _maps(run, relations)
    dimension = _dimension(maps, dimension)
    figure, axes = panels(1, len(relations) + 1, 2.4, 2.6)
    z = grid()
    _draw_grid(axes[0, 0], z, z)
    axes[0, 0].set_title("before")
    for place, name, m in zip(axes[0, 1:], relations, maps[:, dimension], strict=True):
        _draw_grid(place, z, apply(m, torch.as_tensor(z)).numpy())
        place.set_title(name)
        place.set_xlabel(_described(m))
    figure.suptitle(f"dimension {dimension}", fontsize=9)
    return figure


@styled
def flows(run: Run, relations: Sequence[str], dimensions: Sequence[int] = ()) -> Figure:
    """The flow of relations in the plane: a row a relation, a column a dimension.

    Inverse relations have the same fixed points, with attraction and repulsion exchanged.
    """
    maps = _maps(run, relations)
    chosen = list(dimensions) or _clearest_flows(maps, 3)
    figure, axes = panels(len(relations), len(chosen), 2.5, 2.7)
    for column, dimension in enumerate(_dimension(maps, each) for each in chosen):
        ends = torch.stack(fixed_points(maps[:, dimension])).abs()
        seen = ends[ends < _FAR]
        extent = float(seen.max()) * 1.4 if len(seen) else 2.0
        for row, name in enumerate(relations):
            m, place = maps[row, dimension], axes[row, column]
            draw_flow(place, m, extent=max(extent, 0.5))
            place.set_title(f"{name}, dimension {dimension}")
            place.set_xlabel(_described(m))
    return figure


@styled
def epochs(runs: Mapping[int, Run], relation: str, dimension: int | None = None) -> Figure:
    """The image of a grid under one dimension of a relation as training goes on."""
    by_epoch = {epoch: _maps(run, [relation])[0] for epoch, run in sorted(runs.items())}
    last = by_epoch[max(by_epoch)]
    dimension = _dimension(last[None], dimension)
    columns = min(len(runs), 3) if len(runs) <= 9 else 5
    rows = -(-len(runs) // columns)
    figure, axes = panels(rows, columns, 2.3, 2.5)
    z = grid()
    for place in axes.flat[len(runs) :]:
        place.set_axis_off()
    for place, (epoch, maps) in zip(axes.flat, by_epoch.items(), strict=False):
        _draw_grid(place, z, apply(maps[dimension], torch.as_tensor(z)).numpy())
        place.set_title(f"epoch {epoch}")
        place.set_xlabel(_described(maps[dimension]))
    figure.suptitle(f"{relation}, dimension {dimension}", fontsize=9)
    return figure


def grid(size: int = _GRID) -> Points:
    """A grid (size, size) on [−1, 1]²."""
    ends = np.linspace(-1, 1, size)
    found: Points = ends[None, :] + 1j * ends[:, None]
    return found


def clearest(maps: Tensor, count: int = 1) -> list[int]:
    """The dimensions of maps (relations, dimensions, 2, 2) in which all of them do the most."""
    does = distance(maps, identity_like(maps)) * relative_determinant(maps)
    return does.amin(dim=0).topk(min(count, maps.shape[1])).indices.tolist()


def _clearest_flows(maps: Tensor, count: int) -> list[int]:
    """Those of the clearest dimensions in which no fixed point is far away come first."""
    ends = torch.stack(fixed_points(maps)).nan_to_num(torch.inf).abs()
    is_far = (ends.amax(dim=(0, 1)) > _FAR).tolist()
    ordered = clearest(maps, maps.shape[1])
    return sorted(ordered, key=lambda dimension: is_far[dimension])[:count]


def draw_flow(axes: Axes, m: Tensor, extent: float) -> None:
    """Stream lines of a map on [−extent, extent]², with its fixed points."""
    ends = torch.linspace(-extent, extent, 60, dtype=torch.float64)
    speed = velocity(m, torch.complex(ends[None, :], ends[:, None])).numpy()
    x = ends.numpy()
    axes.streamplot(
        x, x, speed.real, speed.imag, color=INK[0], linewidth=0.6, density=0.9, arrowsize=0.7
    )
    attracting, repelling = (complex(z) for z in fixed_points(m))
    still = abs(complex(multiplier(m))) < 1 + 1e-6  # such a map attracts nothing
    for z, filled in ((repelling, still), (attracting, True)):
        if np.isfinite(z) and abs(z) < 4 * extent:
            face = "black" if filled else "white"
            axes.scatter(z.real, z.imag, s=32, facecolor=face, edgecolor="black", zorder=5)
    axes.set_xlim(-extent, extent)
    axes.set_ylim(-extent, extent)
    axes.set_aspect("equal")


def _way(axes: Axes, way: Points, letter: str) -> None:
    """From a point to its image, with names at both ends."""
    axes.plot(way.real, way.imag, color=INK[1], linewidth=2, zorder=4)
    axes.annotate(
        "",
        (way[-1].real, way[-1].imag),
        (way[-4].real, way[-4].imag),
        zorder=4,
        arrowprops={"arrowstyle": "-|>", "color": INK[1], "lw": 1.5},
    )
    axes.scatter(way[0].real, way[0].imag, color=INK[1], s=14, zorder=5)
    for z, name in ((way[0], letter), (way[-1], f"{letter}′")):
        axes.annotate(
            name,
            (z.real, z.imag),
            (4, 3),
            textcoords="offset points",
            zorder=6,
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.08", "facecolor": "white", "alpha": 0.75, "lw": 0},
        )


def _draw_grid(axes: Axes, z: Points, moved: Points) -> None:
    for lines in (moved, moved.T):
        for line in lines[::3]:
            axes.plot(_unbroken(line).real, _unbroken(line).imag, color="#c9ced6", linewidth=0.4)
    axes.scatter(moved.real, moved.imag, c=z.real, cmap=SCALE, s=3, zorder=3)
    frame(axes, [moved])


def _unbroken(line: Points) -> Points:
    """Without the jumps of a line that passes the pole."""
    step = np.abs(np.diff(line, append=line[-1:]))
    usual = np.median(step[:-1])
    return np.where(step > 20 * usual, np.nan, line)


def _maps(run: Run, relations: Sequence[str]) -> Tensor:
    """The maps (relations, dimensions, 2, 2) of relations by name."""
    model = mobius_of(run)
    if not relations:
        raise SettingsError("name at least one relation")
    numbers = [run.graph.relations.id_of(name) for name in relations]
    return matrices(model, model.relations.detach()[numbers])


def _dimension(maps: Tensor, wanted: int | None) -> int:
    if wanted is None:
        return clearest(maps)[0]
    if not 0 <= wanted < maps.shape[1]:
        raise SettingsError(f"no dimension {wanted}: there are 0 to {maps.shape[1] - 1}")
    return wanted


def _described(m: Tensor) -> str:
    kind = MobiusClass(int(classify(m, _TOLERANCE))).name.lower()
    return f"{kind}\n{_spoken_multiplier(m)}"


def _spoken_multiplier(m: Tensor) -> str:
    k = complex(multiplier(m))
    degrees = np.degrees(np.angle(k))
    # −180° and −0° are 180° and 0°.
    degrees = 180.0 if degrees <= -179.5 else round(degrees) + 0.0
    return f"|k| = {abs(k):.2f}, arg k = {degrees:.0f}°"
