"""The paper's tables of geometry: transformations of each model, and classes of Möbius maps.

Both are measured or checked on the code itself. A random relation of a model is a map T of the
head. It translates if T(0) ≠ 0. With J its Jacobian, it inverts (and reflects: both occur only
jointly) if J is not constant; it scales if J changes lengths, and rotates if the rotational part
of J rotates some plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from fivestar.errors import FivestarError
from fivestar.geometry.classification import (
    EXAMPLE_MULTIPLIERS,
    MobiusClass,
    classify,
    example_map,
    invariant,
)
from fivestar.geometry.fixed_points import canonical_form, fixed_points, multiplier
from fivestar.geometry.mobius import chordal_distance, compose, distance, inverse
from fivestar.models.registry import make_model

TRANSFORMATIONS = ("translation", "rotation", "homothety", "inversion", "reflection")
MODELS: Mapping[str, str] = {
    "TransE": "transe",
    "DistMult": "distmult",
    "RotatE": "rotate",
    "ComplEx": "complex",
    "QuatE": "quate",
    "5★E": "fivestar",
}
_DIM = 4
_TOLERANCE = 1e-6
_SAME_MAP = 1e-9


class Condition(NamedTuple):
    """The condition of a class on σ = tr²/det and on the multiplier k, and its canonical form."""

    sigma: str
    multiplier: str
    form: str


CONDITIONS = {
    MobiusClass.PARABOLIC: Condition("σ = 4, not the identity", "k = 1", "[1 1; 0 1]"),
    MobiusClass.CIRCULAR: Condition("σ = 0", "k = −1", "[i 0; 0 −i]"),
    MobiusClass.ELLIPTIC: Condition(
        "0 < σ < 4", "|k| = 1, k ≠ ±1", "[e^{iθ/2} 0; 0 e^{−iθ/2}], k = e^{iθ}"
    ),
    MobiusClass.HYPERBOLIC: Condition("σ real, > 4", "k > 1", "[e^{θ/2} 0; 0 e^{−θ/2}], k = e^{θ}"),
    MobiusClass.LOXODROMIC: Condition("σ not in [0, ∞)", "|k| > 1, not k > 1", "[√k 0; 0 1/√k]"),
}


def transformations(name: str, seed: int = 0) -> set[str]:
    """Return the transformations that a random relation of a model consists of.

    >>> transformations("rotate")
    {'rotation'}
    """
    generator = torch.Generator().manual_seed(seed)
    model = make_model(name, 1, 1, _DIM).double()
    width, size = model.entities.shape[1], model.relations.shape[1]
    relation = torch.randn(1, size, dtype=torch.float64, generator=generator)
    heads = torch.randn(2, width, dtype=torch.float64, generator=generator)

    def transform(head: Tensor) -> Tensor:
        return model.transform(head[None], relation)[0]

    origin = torch.zeros(width, dtype=torch.float64)
    jacobians = [_jacobian(transform, head) for head in heads]
    left, scales, right = torch.linalg.svd(jacobians[0])
    rotation = torch.linalg.eigvals(left @ right)
    inverts = _differ(*jacobians)
    present = {
        "translation": _differ(transform(origin), origin),
        "rotation": _differ(rotation.imag, torch.zeros_like(rotation.imag)),
        "homothety": _differ(scales, torch.ones_like(scales)),
        "inversion": inverts,
        "reflection": inverts,
    }
    return {name for name, is_present in present.items() if is_present}


def transformations_table() -> list[list[str]]:
    """Return the header and one row per model, with a star for each of its transformations."""
    rows = [["model", *TRANSFORMATIONS]]
    for label, name in MODELS.items():
        present = transformations(name)
        rows.append([label, *("★" if each in present else "☆" for each in TRANSFORMATIONS)])
    return rows


def mobius_classes_table() -> list[list[str]]:
    """Return the header and one row per class of Möbius maps, checked on an example map.

    Raises:
        FivestarError: An example map is not of its class.
    """
    rows = [
        ["class", "σ = tr²/det", "multiplier k", "canonical form", "fixed points", "e.g. σ", "k"]
    ]
    for mobius_class, condition in CONDITIONS.items():
        m = example_map(mobius_class)
        form, conjugator = canonical_form(m)
        again = compose(conjugator, compose(form, inverse(conjugator)))
        if int(classify(m)) != mobius_class or float(distance(m, again)) > _SAME_MAP:
            raise FivestarError(f"the example of a {mobius_class.name.lower()} map is not one")
        count = 1 if float(chordal_distance(*fixed_points(m))) < 1e-6 else 2
        values = str(count), _number(invariant(m)), _number(multiplier(m))
        rows.append([mobius_class.name.lower(), *condition, *values])
    assert set(CONDITIONS) == set(EXAMPLE_MULTIPLIERS)  # noqa: S101  (a class without a row)
    return rows


def _jacobian(transform: Callable[[Tensor], Tensor], head: Tensor) -> Tensor:
    jacobian: Tensor = torch.autograd.functional.jacobian(transform, head)  # type: ignore[no-untyped-call]
    return jacobian


def _differ(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() > _TOLERANCE)


def _number(z: Tensor) -> str:
    value = complex(z)
    real, imaginary = (round(part, 2) + 0.0 for part in (value.real, value.imag))
    if imaginary == 0:
        return f"{real:g}"
    return f"{real:g} {'−' if imaginary < 0 else '+'} {abs(imaginary):g}i"
