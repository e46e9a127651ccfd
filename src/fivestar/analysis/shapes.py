"""Lines and circles: the shapes of heads and of their images under a relation.

In each dimension the heads of a relation are points of the plane. A line and a circle are fitted
to them and to their images. Points are on a line if they are much longer than wide, and on a circle
if their distance to a center varies little *and* they surround it: a short arc is no circle. The
baseline is the same points with one coordinate permuted, in axes halfway between their longest and
their shortest extent: it has the same spread along both axes. Similarities (ComplEx, RotatE, and
5★E with the denominator `none`) preserve shapes; a Möbius map may turn a line into a circle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.relations import entity_points, require_fivestar, transform_points
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import is_infinite
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.fivestar import Denominator
from fivestar.runs.run import Run, convert_to_fivestar

# Relations with fewer heads are not measured.
MIN_HEADS = 30
SHAPES = ("line", "circle", "neither")


@dataclass(frozen=True)
class ShapeCriterion:
    """When points count as a line or a circle.

    Attributes:
        max_width: of a line, as a share of its length (standard deviations).
        max_deviation: of a circle, from its radius, as a share of the radius.
        max_gap: of a circle, the largest angle without a point.
    """

    max_width: float = 0.2
    max_deviation: float = 0.2
    max_gap: float = 2 * math.pi / 3


@dataclass(frozen=True)
class ShapeExample:
    """A relation and dimension with a change of shape; a residual of 0 is a perfect fit."""

    relation: str
    dimension: int
    change: str
    residual: float


@dataclass(frozen=True)
class ShapeCounts:
    """Counts of the changes of shape, over all relations and dimensions.

    Attributes:
        criterion: when points count as a line or a circle.
        denominator: the form of the 5★E.
        relations: the number of relations with at least `MIN_HEADS` heads.
        counts: the number of (relation, dimension) pairs per change, as "line → circle".
        baseline: the same for permuted points.
        examples: the best fit of each change between lines and circles.
    """

    criterion: ShapeCriterion
    denominator: Denominator
    relations: int
    counts: dict[str, int]
    baseline: dict[str, int]
    examples: list[ShapeExample]

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


def count_shapes(
    run: Run,
    criterion: ShapeCriterion | None = None,
    relations: Iterable[int] | None = None,
    seed: int = 0,
) -> ShapeCounts:
    """Count the changes of shape by the relations of a run.

    Args:
        run: a run of a 5★E of any form.
        criterion: when points count as a line or a circle.
        relations: ids of relations; by default all.
        seed: the seed of the baseline.

    Returns:
        The counts, their baseline, and the clearest examples.

    Raises:
        SettingsError: if the run is of another model, or no relation has enough heads.
    """
    criterion = criterion or ShapeCriterion()
    model, graph = require_fivestar(run), run.graph
    generator = torch.Generator().manual_seed(seed)
    changes = [f"{before} → {after}" for before, after in product(SHAPES, SHAPES)]
    counts, baseline = dict.fromkeys(changes, 0), dict.fromkeys(changes, 0)
    best: dict[str, ShapeExample] = {}
    num_relations = 0
    ids = range(len(graph.relations)) if relations is None else relations
    for relation, heads in _relations_with_heads(graph, ids):
        num_relations += 1
        points = entity_points(model, heads)
        permuted = permute_coordinate(points, torch.randperm(len(points), generator=generator))
        for z, tally in ((points, counts), (permuted, baseline)):
            images = transform_points(model, model.relations.detach()[relation], z)
            before, after = (fit_shapes(w, criterion) for w in (z, images))
            residuals = torch.maximum(before.residual, after.residual)
            for change, (one, other) in zip(changes, product(range(3), range(3)), strict=True):
                mask = (before.shape == one) & (after.shape == other)
                tally[change] += int(mask.sum())
                if tally is counts and mask.any():
                    dim = int(torch.where(mask, residuals, torch.inf).argmin())
                    name = graph.relations.name_of(relation)
                    example = ShapeExample(name, dim, change, float(residuals[dim]))
                    if change not in best or example.residual < best[change].residual:
                        best[change] = example
    if not num_relations:
        raise SettingsError(f"none of these relations of {graph.name} has {MIN_HEADS} heads")
    examples = [best[change] for change in changes if change in best and "neither" not in change]
    return ShapeCounts(criterion, model.denominator, num_relations, counts, baseline, examples)


def permute_coordinate(z: Tensor, order: Tensor) -> Tensor:
    """Permute one coordinate of points (n, d), in axes at 45° to their longest extent."""
    mean, direction = fit_line(z)
    axis = direction * torch.polar(*z.real.new_tensor([1, math.pi / 4]))
    rotated = (z - mean) / axis
    return torch.complex(rotated.real, rotated.imag[order]) * axis + mean


@dataclass(frozen=True)
class FittedShapes:
    """For each dimension (d): the index in `SHAPES` and the residual of the fit."""

    shape: Tensor
    residual: Tensor


def fit_shapes(z: Tensor, criterion: ShapeCriterion) -> FittedShapes:
    """Classify points (n, d) as a line, a circle or neither, per dimension."""
    # A point at ∞ lies on no circle of the plane; it counts as a point far away.
    z = torch.where(is_infinite(z), torch.full_like(z, 1e12), z)
    width, (deviation, gap) = flatness(z), roundness(z)
    is_line = width <= criterion.max_width
    is_circle = (deviation <= criterion.max_deviation) & (gap <= criterion.max_gap) & ~is_line
    shape = torch.where(is_line, 0, torch.where(is_circle, 1, 2))
    return FittedShapes(shape, torch.where(is_line, width, deviation))


def fit_line(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of points (n, …) and the unit direction of their longest extent (…)."""
    mean = z.mean(dim=0)
    angle = (z - mean).square().mean(dim=0).angle() / 2
    return mean, torch.polar(torch.ones_like(angle), angle)


def fit_circle(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return the center and the radius (d) of the least-squares circles of points (n, d)."""
    mean = z.mean(dim=0)
    z = z - mean
    scale = z.abs().mean(dim=0).clamp_min(1e-300)
    z = z / scale
    # |z|² = 2 Re(conj(c) z) + (R² − |c|²): linear in the center and the last term.
    columns = torch.stack([2 * z.real, 2 * z.imag, torch.ones_like(z.real)], dim=-1)
    targets = z.abs().square().transpose(0, 1)[..., None]
    solution = torch.linalg.lstsq(columns.transpose(0, 1), targets).solution[..., 0]
    center = torch.complex(solution[..., 0], solution[..., 1])
    radius = (solution[..., 2] + center.abs().square()).clamp_min(1e-300).sqrt()
    return mean + scale * center, scale * radius


def flatness(z: Tensor) -> Tensor:
    """Return width/length of points (n, …): the root of the ratio of their two variances."""
    z = z - z.mean(dim=0)
    xx, xy, yy = (part.mean(dim=0) for part in (z.real**2, z.real * z.imag, z.imag**2))
    mean, root = (xx + yy) / 2, ((xx - yy).square() / 4 + xy.square()).sqrt()
    return ((mean - root).clamp_min(0) / (mean + root).clamp_min(1e-300)).sqrt()


def roundness(z: Tensor) -> tuple[Tensor, Tensor]:
    """Fit circles to points (n, d); return deviation/radius and the largest angular gap (d)."""
    center, radius = fit_circle(z)
    offsets = z - center
    deviation = (offsets.abs() - radius).square().mean(dim=0).sqrt() / radius
    angles = offsets.angle().sort(dim=0).values
    closing = angles[:1] + 2 * math.pi - angles[-1:]
    return deviation, torch.cat([angles.diff(dim=0), closing]).amax(dim=0)


def clearest_examples(
    runs: Iterable[tuple[str, Run]], criterion: ShapeCriterion
) -> list[tuple[str, Run, ShapeExample]]:
    """Return the clearest examples of several named runs.

    Args:
        runs: pairs of a name and a run. Other models are converted to a 5★E; as these preserve
            shapes, they have an example of a line even if none meets the criterion: the flattest.
        criterion: when points count as a line or a circle.

    Returns:
        Triples of the name, the (converted) run and an example.
    """
    examples = []
    for name, run in runs:
        is_other = run.settings.model.name != "fivestar"
        converted = convert_to_fivestar(run) if is_other else run
        own = count_shapes(converted, criterion).examples
        if is_other and not any(example.change == "line → line" for example in own):
            own = [_flattest(converted), *own]
        examples += [(name, converted, example) for example in own]
    return examples


def _flattest(run: Run) -> ShapeExample:
    """Return the relation and dimension whose heads are closest to a line."""
    model, graph = require_fivestar(run), run.graph
    found = []
    for relation, heads in _relations_with_heads(graph, range(len(graph.relations))):
        width, dimension = flatness(entity_points(model, heads)).min(dim=0)
        name = graph.relations.name_of(relation)
        found.append(ShapeExample(name, int(dimension), "line → line", float(width)))
    return min(found, key=lambda example: example.residual)


def _relations_with_heads(
    graph: KnowledgeGraph, relations: Iterable[int]
) -> Iterator[tuple[int, Tensor]]:
    """Return the relations with enough heads in train, and the ids of their heads."""
    for relation in relations:
        heads = np.unique(graph.train.heads[graph.train.relations == relation]).astype(np.int64)
        if len(heads) >= MIN_HEADS:
            yield relation, torch.as_tensor(heads)
