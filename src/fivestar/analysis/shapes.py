"""Lines and circles: in which shape the heads of a relation lie, and in which it puts them.

In each dimension the heads of a relation are points of the plane. A line and a circle are fitted
to them, and again to where the relation moves them. Points are in line if they are much longer
than wide; they are on a circle if their distance to a centre varies little *and* they go round
it: a short arc is none. The null model is the same points with one coordinate shuffled among
them, in axes halfway between their longest and their shortest extent: the same spread along both
axes, no shape but by chance. Similarities (ComplEx, RotatE) keep shapes, by theorem; a Möbius map
may turn a line into a circle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.relations import matrices, mobius_of, points
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import apply, is_infinite
from fivestar.runs.conversion import to_fivestar
from fivestar.runs.run import Run

# Fewer heads than these make no shape.
LEAST_HEADS = 30
SHAPES = ("line", "circle", "neither")


@dataclass(frozen=True)
class Criterion:
    """What counts as a line or a circle."""

    widest: float = 0.2  # a line: its width by its length (standard deviations)
    roughest: float = 0.2  # a circle: the deviation from the radius, by the radius
    largest_gap: float = 2 * math.pi / 3  # a circle: the angle without a point


@dataclass(frozen=True)
class Example:
    """A relation and dimension that shows a change of shape, and how clearly (0 is perfect)."""

    relation: str
    dimension: int
    change: str
    clarity: float


@dataclass(frozen=True)
class Shapes:
    """How often each change of shape happens, in the model and by chance."""

    criterion: Criterion
    relations: int
    counts: dict[str, int]
    by_chance: dict[str, int]
    examples: list[Example]

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


def shapes(run: Run, criterion: Criterion | None = None, seed: int = 0) -> Shapes:
    """Look at every relation with enough heads, in every dimension."""
    criterion = criterion or Criterion()
    model, graph = mobius_of(run), run.graph
    maps, generator = matrices(model), torch.Generator().manual_seed(seed)
    names = [f"{before} → {after}" for before, after in product(SHAPES, SHAPES)]
    counts, chance = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    best: dict[str, Example] = {}
    used = 0
    for number in range(len(graph.relations)):
        heads = np.unique(graph.train.heads[graph.train.relations == number]).astype(np.int64)
        if len(heads) < LEAST_HEADS:
            continue
        used += 1
        here = points(model, torch.as_tensor(heads))
        order = torch.randperm(len(here), generator=generator)
        shuffled = without_shape(here, order)
        for some, tally in ((here, counts), (shuffled, chance)):
            before, after = (fitted(z, criterion) for z in (some, apply(maps[number], some)))
            clarity = torch.maximum(before.clarity, after.clarity)
            for name, (one, other) in zip(names, product(range(3), range(3)), strict=True):
                where = (before.shape == one) & (after.shape == other)
                tally[name] += int(where.sum())
                if tally is counts and where.any():
                    at = int(torch.where(where, clarity, torch.inf).argmin())
                    found = Example(graph.relations.name_of(number), at, name, float(clarity[at]))
                    if name not in best or found.clarity < best[name].clarity:
                        best[name] = found
    if not used:
        raise SettingsError(f"no relation of {graph.name} has {LEAST_HEADS} heads or more")
    clear = [best[name] for name in names if name in best and "neither" not in name]
    return Shapes(criterion, used, counts, chance, clear)


def without_shape(z: Tensor, order: Tensor) -> Tensor:
    """Points (n, dimensions) with one coordinate in another order, in axes across their extent."""
    middle, longest = fitted_line(z)
    turn = longest * torch.polar(*z.real.new_tensor([1, math.pi / 4]))
    turned = (z - middle) / turn
    return torch.complex(turned.real, turned.imag[order]) * turn + middle


@dataclass(frozen=True)
class Fitted:
    """For each dimension: which of `SHAPES` (by number), and its residual."""

    shape: Tensor
    clarity: Tensor


def fitted(z: Tensor, criterion: Criterion) -> Fitted:
    """The shapes of points (n, dimensions)."""
    # A point at ∞ lies on no circle of the plane; it counts as its far neighbour would.
    z = torch.where(is_infinite(z), torch.full_like(z, 1e12), z)
    width, (rough, gap) = flatness(z), roundness(z)
    is_line = width <= criterion.widest
    is_circle = (rough <= criterion.roughest) & (gap <= criterion.largest_gap) & ~is_line
    shape = torch.where(is_line, 0, torch.where(is_circle, 1, 2))
    return Fitted(shape, torch.where(is_line, width, rough))


def fitted_line(z: Tensor) -> tuple[Tensor, Tensor]:
    """The middle of points (n, …) and the direction in which they are longest, of length 1."""
    middle = z.mean(dim=0)
    angle = (z - middle).square().mean(dim=0).angle() / 2
    return middle, torch.polar(torch.ones_like(angle), angle)


def fitted_circle(z: Tensor) -> tuple[Tensor, Tensor]:
    """The centre and the radius of the circle nearest to points (n, dimensions)."""
    middle = z.mean(dim=0)
    z = z - middle
    size = z.abs().mean(dim=0).clamp_min(1e-300)
    z = z / size
    # |z|² = 2 Re(conj(c) z) + (R² − |c|²): linear in the centre and the last term.
    columns = torch.stack([2 * z.real, 2 * z.imag, torch.ones_like(z.real)], dim=-1)
    known = z.abs().square().transpose(0, 1)[..., None]
    solved = torch.linalg.lstsq(columns.transpose(0, 1), known).solution[..., 0]
    centre = torch.complex(solved[..., 0], solved[..., 1])
    radius = (solved[..., 2] + centre.abs().square()).clamp_min(1e-300).sqrt()
    return middle + size * centre, size * radius


def flatness(z: Tensor) -> Tensor:
    """Width by length of points (n, …): the root of the ratio of their two variances."""
    z = z - z.mean(dim=0)
    xx, xy, yy = (part.mean(dim=0) for part in (z.real**2, z.real * z.imag, z.imag**2))
    middle, root = (xx + yy) / 2, ((xx - yy).square() / 4 + xy.square()).sqrt()
    return ((middle - root).clamp_min(0) / (middle + root).clamp_min(1e-300)).sqrt()


def roundness(z: Tensor) -> tuple[Tensor, Tensor]:
    """Of the circle fitted to points (n, dimensions): deviation by radius, and the largest gap."""
    centre, radius = fitted_circle(z)
    around = z - centre
    rough = (around.abs() - radius).square().mean(dim=0).sqrt() / radius
    angles = around.angle().sort(dim=0).values
    closing = angles[:1] + 2 * math.pi - angles[-1:]
    return rough, torch.cat([angles.diff(dim=0), closing]).amax(dim=0)


def clearest_of(
    runs: Iterable[tuple[str, Run]], criterion: Criterion
) -> list[tuple[str, Run, Example]]:
    """The clearest examples of runs by name; other models as the 5★E that they are."""
    found = []
    for name, run in runs:
        same = run if run.settings.model.name == "fivestar" else to_fivestar(run)
        found += [(name, same, example) for example in shapes(same, criterion).examples]
    return found
