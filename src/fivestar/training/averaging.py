"""The mean of the weights of the last epochs, which is less noisy than the weights of any one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """An exponential mean over about `span` epochs; at first a plain mean of all so far.

    One copy of the weights is enough for it, and it is there at any epoch, so validation can choose
    among averages as it does among weights.
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self.tables: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, model: nn.Module, epoch: int) -> None:
        """Count in the weights at the end of this epoch, the first of which is 1."""
        for name, table in model.state_dict().items():
            if name not in self.tables:
                self.tables[name] = table.clone()
            elif table.is_floating_point():
                self.tables[name].lerp_(table, 1 / min(epoch, self.span))
            else:
                self.tables[name].copy_(table)

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """The model has the mean weights in the meantime, if there are any yet."""
        now = model.state_dict()
        own = {name: now[name].clone() for name in self.tables}
        model.load_state_dict(self.tables, strict=False)
        try:
            yield
        finally:
            model.load_state_dict(own, strict=False)
