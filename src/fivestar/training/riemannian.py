"""Gradient descent on the Poincaré ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fivestar.geometry.poincare_ball import expmap, project
from fivestar.models.base import Model
from fivestar.training.gathered_rows import grad_of


class RiemannianSGD(torch.optim.Optimizer):
    """Steps along geodesics for what lies on a ball, along straight lines for the rest.

    The gradient of a point x is scaled by ((1 − ‖x‖²)/2)², the inverse of the metric, and followed
    by the exponential map (Bonnabel 2013; Balažević et al. 2019).
    """

    def __init__(self, model: Model, lr: float) -> None:
        self.model = model
        super().__init__(list(model.parameters()), {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update of all tables."""
        lr = self.param_groups[0]["lr"]
        model = self.model
        tables = (model.entities, model.relations)
        gradients = [grad_of(table) for table in tables]
        balls = model.manifold_parameters(model.entities, model.relations)
        slopes = model.manifold_parameters(*gradients)
        reached = [_walked(point, slope, lr) for point, slope in zip(balls, slopes, strict=True)]
        for table, gradient in zip(tables, gradients, strict=True):
            table.sub_(gradient, alpha=lr)
        for point, place in zip(balls, reached, strict=True):
            point.copy_(place)


def _walked(point: Tensor, slope: Tensor, lr: float) -> Tensor:
    metric = (1 - point.square().sum(dim=1, keepdim=True)).square() / 4
    return expmap(point, slope * metric * -lr)


@torch.no_grad()
def bring_back(model: Model) -> None:
    """Points that an update in straight lines has moved out of a ball come back inside."""
    for point in model.manifold_parameters(model.entities, model.relations):
        point.copy_(project(point))
