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
            touched: the entities whose gradients are not 0, if known. All optimizers but Adam leave
                all other rows unchanged, so only these are updated: the same result without a pass
                over all.
        """
        for group in self.torch_optimizer.param_groups:
            group["lr"] = learning_rate(self.training, epochs_done)
        if self.training.clip:
            torch.nn.utils.clip_grad_norm_(self.tables, self.training.clip)
        if self.training.optimizer == "adam":
            touched = None
        with self._slower_off_diagonal():
            if touched is None:
                self.torch_optimizer.step()
            else:
                self._step_touched(touched)
        if self.training.optimizer != "riemannian-sgd":
            project_to_ball(self.model, touched)

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
    def _step_touched(self, touched: Tensor) -> None:
        """Update some rows of the entity table, and all other tables."""
        if isinstance(self.torch_optimizer, RiemannianSGD):
            self.torch_optimizer.step_touched(touched)
            return
        table = self.model.entities
        table_grad, table.grad = grad_of(table), None
        self.torch_optimizer.step()  # all other tables
        table.grad = table_grad
        group = self.torch_optimizer.param_groups[0]
        step = table_grad.index_select(0, touched)
        if self.training.optimizer == "adagrad":
            state = self.torch_optimizer.state[table]
            state["sum"].index_add_(0, touched, step.square())
            std = state["sum"].index_select(0, touched).sqrt_()
            step = step.div_(std.add_(group["eps"]))
            state["step"] += 1
        table.index_add_(0, touched, step, alpha=-group["lr"])


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
        self._update(self.model.entities, grad_of(self.model.entities))

    @torch.no_grad()
    def step_touched(self, touched: Tensor) -> None:
        """Update some rows of the entity table, and all other tables."""
        table = self.model.entities
        rows, grad = (x.index_select(0, touched) for x in (table, grad_of(table)))
        self._update(rows, grad)
        table.index_copy_(0, touched, rows)

    def _update(self, entities: Tensor, entity_grad: Tensor) -> None:
        """Update rows of entities, and all relations, in place."""
        lr, model = self.param_groups[0]["lr"], self.model
        tables = (entities, model.relations)
        grads = [entity_grad, grad_of(model.relations)]
        points = model.manifold_parameters(*tables)
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
def project_to_ball(model: Model, touched: Tensor | None = None) -> None:
    """Project points that an Euclidean update has moved out of their ball back inside.

    Args:
        model: The model.
        touched: The entities that were moved, if they are few.
    """
    if not model.manifold_parameters(model.entities, model.relations):
        return
    entities = model.entities if touched is None else model.entities.index_select(0, touched)
    for point in model.manifold_parameters(entities, model.relations):
        point.copy_(project(point))
    if touched is not None:
        model.entities.index_copy_(0, touched, entities)


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
