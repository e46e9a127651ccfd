"""The kinds of Möbius maps: conditions and canonical forms, each checked on a typical map."""

from __future__ import annotations

from typing import NamedTuple

import torch

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

_SAME = 1e-9


class Condition(NamedTuple):
    """What makes a map of a kind: its σ = tr²/det, its multiplier k, and its canonical form."""

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


def table() -> list[list[str]]:
    """A row a kind; the last columns are figures of a typical map. The first row names them."""
    rows = [
        ["kind", "σ = tr²/det", "multiplier k", "canonical form", "fixed points", "e.g. σ", "k"]
    ]
    for kind, condition in CONDITIONS.items():
        m = example_map(kind)
        form, conjugator = canonical_form(m)
        again = compose(conjugator, compose(form, inverse(conjugator)))
        if int(classify(m)) != kind or float(distance(m, again)) > _SAME:
            raise FivestarError(f"the typical {kind.name.lower()} map is none")
        ends = fixed_points(m)
        count = 1 if float(chordal_distance(*ends)) < 1e-6 else 2
        figures = str(count), _number(invariant(m)), _number(multiplier(m))
        rows.append([kind.name.lower(), *condition, *figures])
    assert set(CONDITIONS) == set(EXAMPLE_MULTIPLIERS)  # noqa: S101  (a kind without a row)
    return rows


def _number(z: torch.Tensor) -> str:
    value = complex(z)
    real, imaginary = (round(part, 2) + 0.0 for part in (value.real, value.imag))
    return (
        f"{real:g}"
        if imaginary == 0
        else f"{real:g} {'−' if imaginary < 0 else '+'} {abs(imaginary):g}i"
    )
