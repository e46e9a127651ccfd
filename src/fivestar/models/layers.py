"""Layers of neural models whose behaviour in training depends on the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def normalised(layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    """Batch normalisation; a single row, which has no variance, is taken by the running figures."""
    if layer.training and len(x) > 1:
        found: Tensor = layer(x)
        return found
    return nn.functional.batch_norm(
        x, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps
    )


def init_uniform_(weight: Tensor, bias: Tensor | None, generator: torch.Generator) -> None:
    """Uniform by the number of inputs, as torch starts its layers, but from our generator."""
    bound = weight[0].numel() ** -0.5
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)
        if bias is not None:
            bias.uniform_(-bound, bound, generator=generator)


def init_xavier_normal_(table: Tensor, generator: torch.Generator) -> None:
    """Normal, by the numbers of rows and columns (Glorot and Bengio 2010)."""
    with torch.no_grad():
        table.normal_(generator=generator).mul_((2 / sum(table.shape)) ** 0.5)
