"""How gradients become new weights: the update rule, the learning rate over time, clipping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.models.base import Model
from fivestar.runs.settings import TrainingSettings
from fivestar.training.gathered_rows import grad_of
from fivestar.training.riemannian import RiemannianSGD, bring_back


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
