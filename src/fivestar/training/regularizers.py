"""Regularizers: penalties on the parameters that a triple uses.

Each triple counts its head, its relation (or its transformed head) and its tail once. Penalties are
functions of squared moduli, because |x| has no gradient at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import torch
from torch import Tensor

from fivestar.models.base import Model
from fivestar.plugins import REGULARIZERS


@dataclass(frozen=True)
class Regularizer:
    """The sum of a penalty over the dimensions of heads, relations or transformed heads, and tails.

    The parts of head and relation are computed once per query, for all triples that share it.

    Args:
        penalty: Maps squared moduli (…, D) to penalties of the same shape, differentiable.
        of: Whether relations or transformed heads are penalized besides heads and tails.
    """

    penalty: Callable[[Tensor], Tensor]
    of: Literal["relation", "transformed"]

    def query_penalty(self, model: Model, head: Tensor, relation: Tensor, query: Tensor) -> Tensor:
        """Return the penalties (B,) of queries."""
        if self.of == "relation":
            second = model.relation_squared_moduli(relation)
        else:
            second = model.squared_moduli(query)
        first = self.penalty(model.head_squared_moduli(head))
        return first.sum(dim=1) + self.penalty(second).sum(dim=1)

    def tail_penalty(self, model: Model, tail: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the penalty of all tails (T, D) together, each times its weight (T,) if given."""
        penalties = self.penalty(model.squared_moduli(tail))
        return penalties.sum() if weights is None else weights @ penalties.sum(dim=1)


@overload
def register_regularizer(name: str) -> Callable[[Regularizer], Regularizer]: ...
@overload
def register_regularizer(name: str, regularizer: Regularizer) -> Regularizer: ...
def register_regularizer(name: str, regularizer: Regularizer | None = None) -> Any:
    """Register a regularizer under a name, for the setting `regularizer` in this process.

    For the command line, declare it as an entry point of the group `fivestar.regularizers` instead.

    Args:
        name: Lower-case letters, digits, - and _.
        regularizer: An instance of `fivestar.Regularizer`.

    Returns:
        The regularizer, or a decorator if none is given.

    Raises:
        RegistrationError: The name is taken, or the object is not a regularizer.

    Example::

        n4 = fivestar.Regularizer(lambda squared: squared.square(), "transformed")
        fivestar.register_regularizer("n4", n4)
    """
    if regularizer is None:
        return lambda value: REGULARIZERS.register(name, value)
    return REGULARIZERS.register(name, regularizer)


class _Cube(torch.autograd.Function):
    """|x|³ of |x|²: three times as fast as a power of 1.5, with the right gradient 0 at 0."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor) -> Tensor:
        """Return |x|² · |x|."""
        modulus = squared.sqrt()
        ctx.save_for_backward(modulus)
        return squared * modulus

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return 3/2 |x| times the gradient."""
        (modulus,) = ctx.saved_tensors
        return gradient * modulus * 1.5


def _cube(squared: Tensor) -> Tensor:
    cubed: Tensor = _Cube.apply(squared)  # type: ignore[no-untyped-call]
    return cubed


class _Power(torch.autograd.Function):
    """|x|ᵖ of |x|² for p ≥ 2, with the right gradient at 0."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, half: float) -> Tensor:
        """Return (|x|²) to the power p/2."""
        ctx.half = half
        ctx.save_for_backward(squared)
        return squared.pow(half)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return p/2 |x|ᵖ⁻² times the gradient."""
        (squared,) = ctx.saved_tensors
        return gradient * squared.pow(ctx.half - 1) * ctx.half, None


def _square(squared: Tensor) -> Tensor:
    return squared


def make_regularizer(name: str, exponent: float = 3.0) -> Regularizer | None:
    """Return a registered regularizer, n3 and n3-transformed with another exponent if wanted.

    Args:
        name: Its name.
        exponent: p of Σ|x|ᵖ, at least 2.
    """
    regularizer: Regularizer | None = REGULARIZERS[name]
    if regularizer is None or exponent == 3:
        return regularizer

    def penalty(squared: Tensor) -> Tensor:
        powers: Tensor = _Power.apply(squared, exponent / 2)  # type: ignore[no-untyped-call]
        return powers

    return replace(regularizer, penalty=penalty)


# Σ |h|³ + ‖r‖³ + |t|³ (Lacroix et al. 2018).
N3 = Regularizer(_cube, "relation")
# Σ |h|³ + |q|³ + |t|³, q the transformed head: well defined where the matrix has no fixed scale.
N3_TRANSFORMED = Regularizer(_cube, "transformed")
# Σ |h|² + ‖r‖² + |t|².
F2 = Regularizer(_square, "relation")
# Σ |h|² + |q|² + |t|² (Zhang et al. 2020, the half that a reciprocal triple completes).
DURA = Regularizer(_square, "transformed")
NONE = None
