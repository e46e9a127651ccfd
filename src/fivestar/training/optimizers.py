"""From gradients to weights: optimizers, learning-rate schedule, clipping, weight averaging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fivestar.errors import SettingsError
from fivestar.geometry.poincare_ball import expmap, project
from fivestar.models.base import Model
from fivestar.runs.settings import TrainingSettings
from fivestar.training.gathered_rows import grad_of


class Optimizer:
    """The optimizer of a run. Its learning rate depends on the epoch alone, so it is not saved."""

    def __init__(self, model: Model, training: TrainingSettings) -> None:
        self.model = model
        self.tables = list(model.parameters())
        self.training = training
        self.torch_optimizer = _optimizer(model, training)

    def step(self, epochs_done: float, touched: Tensor | None = None) -> None:
        """Update the weights by the gradients of the tables.

        Args:
            epochs_done: epochs before this step, with a fraction; sets the learning rate.
            touched: the entities whose gradients are not 0, if known. Adagrad leaves all other rows
                unchanged, so only these are updated: the same result without a pass over all.
        """
        for group in self.torch_optimizer.param_groups:
            group["lr"] = learning_rate(self.training, epochs_done)
        if self.training.clip:
            torch.nn.utils.clip_grad_norm_(self.tables, self.training.clip)
        with self._slower_off_diagonal():
            if touched is not None and self.training.optimizer == "adagrad":
                self._adagrad(touched)
            else:
                self.torch_optimizer.step()
        if self.training.optimizer != "riemannian-sgd":
            project_to_ball(self.model)

    @contextmanager
    def _slower_off_diagonal(self) -> Iterator[None]:
        """Scale the step of the columns that have a learning rate of their own."""
        columns = self.model.off_diagonal(self.model.relations.detach())
        if columns is None or self.model.off_diagonal_lr == 1:
            yield
            return
        before = columns.clone()
        yield
        columns.lerp_(before, 1 - self.model.off_diagonal_lr)

    @torch.no_grad()
    def _adagrad(self, touched: Tensor) -> None:
        table = self.model.entities
        table_grad, table.grad = grad_of(table), None
        self.torch_optimizer.step()  # all other tables
        table.grad = table_grad
        state, group = self.torch_optimizer.state[table], self.torch_optimizer.param_groups[0]
        grad = table_grad.index_select(0, touched)
        state["sum"].index_add_(0, touched, grad.square())
        std = state["sum"].index_select(0, touched).sqrt_()
        step = grad.div_(std.add_(group["eps"]))
        table.index_add_(0, touched, step, alpha=-group["lr"])
        state["step"] += 1


def learning_rate(training: TrainingSettings, epochs_done: float) -> float:
    """Return the learning rate after `epochs_done`: linear warmup, then constant or linear decay.

    >>> settings = TrainingSettings(lr=0.2, epochs=10, warmup=2, decay="linear")
    >>> [learning_rate(settings, epoch) for epoch in (1, 2, 6, 10)]
    [0.1, 0.2, 0.1, 0.0]
    """
    if epochs_done < training.warmup:
        return training.lr * epochs_done / training.warmup
    if training.decay == "none" or training.epochs <= training.warmup:
        return training.lr
    return training.lr * (training.epochs - epochs_done) / (training.epochs - training.warmup)


def _optimizer(model: Model, training: TrainingSettings) -> torch.optim.Optimizer:
    tables = list(model.parameters())
    match training.optimizer:
        case "adagrad":
            return torch.optim.Adagrad(tables, lr=training.lr, fused=True)
        case "adam":
            return torch.optim.Adam(tables, lr=training.lr, fused=True)
        case "sgd":
            return torch.optim.SGD(tables, lr=training.lr, fused=True)
        case "riemannian-sgd":
            if not model.manifold_parameters(model.entities, model.relations):
                raise SettingsError("riemannian-sgd needs parameters on a Poincaré ball: use sgd")
            return RiemannianSGD(model, training.lr)


class RiemannianSGD(torch.optim.Optimizer):
    """Riemannian SGD: steps along geodesics for points of a ball, SGD for other parameters.

    The gradient of a point x is scaled by ((1 − ‖x‖²)/2)², the inverse of the metric, and followed
    by the exponential map (Bonnabel 2013; Balažević et al. 2019).
    """

    def __init__(self, model: Model, lr: float) -> None:
        self.model = model
        super().__init__(list(model.parameters()), {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update all tables."""
        lr = self.param_groups[0]["lr"]
        model = self.model
        tables = (model.entities, model.relations)
        grads = [grad_of(table) for table in tables]
        points = model.manifold_parameters(model.entities, model.relations)
        point_grads = model.manifold_parameters(*grads)
        updated = [_geodesic_step(x, grad, lr) for x, grad in zip(points, point_grads, strict=True)]
        for table, grad in zip(tables, grads, strict=True):
            table.sub_(grad, alpha=lr)
        for point, new_point in zip(points, updated, strict=True):
            point.copy_(new_point)


def _geodesic_step(point: Tensor, grad: Tensor, lr: float) -> Tensor:
    metric = (1 - point.square().sum(dim=1, keepdim=True)).square() / 4
    return expmap(point, grad * metric * -lr)


@torch.no_grad()
def project_to_ball(model: Model) -> None:
    """Project points that an Euclidean update has moved out of their ball back inside."""
    for point in model.manifold_parameters(model.entities, model.relations):
        point.copy_(project(point))


class WeightAverage:
    """An exponential moving average of the weights over about `span` epochs.

    At first a plain mean of all epochs so far. It needs one copy of the weights and is defined at
    any epoch, so validation can choose among averages as it does among weights.
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self.tables: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, model: nn.Module, epoch: int) -> None:
        """Add the weights at the end of an epoch, counted from 1."""
        for name, table in model.state_dict().items():
            if name not in self.tables:
                self.tables[name] = table.clone()
            elif table.is_floating_point():
                self.tables[name].lerp_(table, 1 / min(epoch, self.span))
            else:
                self.tables[name].copy_(table)

    @contextmanager
    def swapped_into(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights within the context, if there are any yet."""
        now = model.state_dict()
        own = {name: now[name].clone() for name in self.tables}
        model.load_state_dict(self.tables, strict=False)
        try:
            yield
        finally:
            model.load_state_dict(own, strict=False)
