"""Penalties on the size of what a triple uses. Each triple counts its head, relation and tail once.

All take squared moduli, since |x| has no gradient at 0: |x|³ = (|x|²)^1.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from fivestar.models.base import Factors


class Regularizer(NamedTuple):
    """A penalty in two parts, since all triples of a query share the first.

    `query` takes the factors of queries, `tail` the squared moduli of tails; both give a number a
    row and dimension.
    """

    query: Callable[[Factors], Tensor]
    tail: Callable[[Tensor], Tensor]


def _cube(squared: Tensor) -> Tensor:
    return squared.pow(1.5)


def _square(squared: Tensor) -> Tensor:
    return squared


# Σ |h|³ + ‖r‖³ + |t|³ (Lacroix et al. 2018).
N3 = Regularizer(lambda f: _cube(f.head) + _cube(f.relation), _cube)
# Σ |h|³ + |q|³ + |t|³, q the moved head: holds where the matrix itself has no fixed scale.
N3_MOVED = Regularizer(lambda f: _cube(f.head) + _cube(f.moved), _cube)
# Σ |h|² + ‖r‖² + |t|².
F2 = Regularizer(lambda f: f.head + f.relation, _square)
# Σ |h|² + |q|² + |t|² (Zhang et al. 2020, the half that a reciprocal triple completes).
DURA = Regularizer(lambda f: f.head + f.moved, _square)

REGULARIZERS: dict[str, Regularizer | None] = {
    "n3": N3,
    "n3-moved": N3_MOVED,
    "f2": F2,
    "dura": DURA,
    "none": None,
}
