"""Where gradients are."""

from __future__ import annotations

from torch import Tensor


def gradient_of(tensor: Tensor) -> Tensor:
    """Where the gradient of a tensor is, that is known to have one."""
    assert tensor.grad is not None  # noqa: S101  (made by Step or by a backward pass)
    return tensor.grad
