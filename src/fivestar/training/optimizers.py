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


class Updates:
    """The optimiser of a run. The learning rate follows from the time alone, so none is saved."""

    def __init__(self, model: Model, training: TrainingSettings) -> None:
        self.model = model
        self.tables = list(model.parameters())
        self.training = training
        self.optimizer = _optimizer(model, training)

    def apply(self, epochs_done: float, touched: Tensor | None = None) -> None:
        """One update by the gradients in the tables.

        `touched` are the entities whose gradients are not 0, if that is known. Adagrad leaves all
        others as they are, so only these rows are moved: the same result without a pass over all.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.training, epochs_done)
        if self.training.clip:
            torch.nn.utils.clip_grad_norm_(self.tables, self.training.clip)
        with self._slower_off_diagonal():
            if touched is not None and self.training.optimizer == "adagrad":
                self._adagrad(touched)
            else:
                self.optimizer.step()
        if self.training.optimizer != "riemannian-sgd":
            bring_back(self.model)

    @contextmanager
    def _slower_off_diagonal(self) -> Iterator[None]:
        """Shorten the step of the columns that learn at a rate of their own."""
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
        gradient, table.grad = grad_of(table), None
        self.optimizer.step()  # all other tables
        table.grad = gradient
        state, group = self.optimizer.state[table], self.optimizer.param_groups[0]
        slope = gradient.index_select(0, touched)
        state["sum"].index_add_(0, touched, slope.square())
        size = state["sum"].index_select(0, touched).sqrt_()
        step = slope.div_(size.add_(group["eps"]))
        table.index_add_(0, touched, step, alpha=-group["lr"])
        state["step"] += 1


def learning_rate(training: TrainingSettings, epochs_done: float) -> float:
    """The rate after so many epochs, a fraction included: a ramp up, then a ramp down if asked for.

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
                raise SettingsError(
                    "riemannian-sgd moves points of a ball, and this model has none; use sgd"
                )
            return RiemannianSGD(model, training.lr)


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
