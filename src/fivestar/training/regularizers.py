"""Penalties on the size of what a triple uses. Each triple counts its head, relation and tail once.

All take squared moduli, since |x| has no gradient at 0: |x|³ = (|x|²)^1.5.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from fivestar.models.base import Factors

# (factors of the queries, triples a query, squared moduli of the tails) → penalty
Regularizer = Callable[[Factors, Tensor, Tensor], Tensor]


def n3(factors: Factors, counts: Tensor, tail: Tensor) -> Tensor:
    """Σ |h|³ + ‖r‖³ + |t|³ (Lacroix et al. 2018)."""
    return (
        _weighted(factors.head.pow(1.5) + factors.relation.pow(1.5), counts) + tail.pow(1.5).sum()
    )


def n3_moved(factors: Factors, counts: Tensor, tail: Tensor) -> Tensor:
    """Σ |h|³ + |q|³ + |t|³, q the moved head: holds where the matrix itself has no fixed scale."""
    return _weighted(factors.head.pow(1.5) + factors.moved.pow(1.5), counts) + tail.pow(1.5).sum()


def f2(factors: Factors, counts: Tensor, tail: Tensor) -> Tensor:
    """Σ |h|² + ‖r‖² + |t|²."""
    return _weighted(factors.head + factors.relation, counts) + tail.sum()


def dura(factors: Factors, counts: Tensor, tail: Tensor) -> Tensor:
    """Σ |h|² + |q|² + |t|² (Zhang et al. 2020, the half that a reciprocal triple completes)."""
    return _weighted(factors.head + factors.moved, counts) + tail.sum()


REGULARIZERS: dict[str, Regularizer | None] = {
    "n3": n3,
    "n3-moved": n3_moved,
    "f2": f2,
    "dura": dura,
    "none": None,
}


def _weighted(penalty: Tensor, counts: Tensor) -> Tensor:
    return penalty.sum(dim=1) @ counts
