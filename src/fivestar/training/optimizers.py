"""From gradients to weights: optimizers, learning-rate schedule, clipping, weight averaging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad

from fivestar.errors import SettingsError
from fivestar.geometry.poincare_ball import expmap, project
from fivestar.models.base import Model
from fivestar.runs.settings import TrainingSettings
from fivestar.threads import coarse_threads, run_parts, split_work
from fivestar.training.gathered_rows import grad_of


class Optimizer:
    """The optimizer of a run. Its learning rate depends on the epoch alone, so it is not saved."""

    def __init__(
        self,
        model: Model,
        training: TrainingSettings,
        new_table: Callable[[Tensor], Tensor] = torch.zeros_like,
    ) -> None:
        self.model = model
        self.tables = list(model.parameters())
        self.training = training
        if training.table == "mmap" and training.optimizer == "adagrad":
            self.torch_optimizer = _adagrad_with_state(model, training, new_table)
        else:
            self.torch_optimizer = _optimizer(model, training)
        # The gradient of all entities, if Adam gets that of some; 0 between steps.
        self._dense: Tensor | None = None
        # Sets the gradients to 0 of what is not to be trained.
        self.freeze: Callable[[Tensor], None] | None = None

    def step(self, epochs_done: float) -> None:
        """Update the weights by the gradients of the tables.

        A row without a gradient stays unchanged by all optimizers but Adam, so where the gradient
        of the entity table is sparse, only its rows are updated: the same result without a pass
        over all.

        Args:
            epochs_done: epochs before this step, with a fraction; sets the learning rate.
        """
        for group in self.torch_optimizer.param_groups:
            group["lr"] = learning_rate(self.training, epochs_done)
        is_adam = self.training.optimizer == "adam"
        is_sparse = grad_of(self.model.entities).is_sparse
        # Other updates are passes over whole tables, in few operators that use all threads.
        is_coarse = self.training.optimizer == "adagrad" or (is_sparse and not is_adam)
        if self.freeze is not None:
            self.freeze(grad_of(self.model.entities))
        with coarse_threads() if is_coarse else nullcontext():
            if self.training.clip:
                clip_gradients(self.model, self.training.clip)
            grad = grad_of(self.model.entities)
            with self._touched_relations(), self._slower_off_diagonal():
                self._update(grad)
            if not self.training.optimizer.startswith("riemannian-"):
                touched = grad.indices()[0] if is_sparse and not is_adam else None
                project_to_ball(self.model, touched)

    def _update(self, grad: Tensor) -> None:
        """Update all tables, given the gradient of the entity table."""
        if grad.is_sparse and isinstance(self.torch_optimizer, torch.optim.Adam):
            self._step_all(grad)
        elif isinstance(self.torch_optimizer, torch.optim.Adagrad) or (
            grad.is_sparse and isinstance(self.torch_optimizer, torch.optim.SGD)
        ):
            self._step_by_rows(grad)
        else:
            self.torch_optimizer.step()

    @contextmanager
    def _touched_relations(self) -> Iterator[None]:
        """Leave relations without a gradient, which would stay unchanged, out of the update.

        Within the context the relation table and its optimizer state are those of the others. Adam
        updates all relations.
        """
        table, state = self.model.relations, self.torch_optimizer.state[self.model.relations]
        whole, grad = table.data, grad_of(table)
        if not grad.is_sparse:
            yield
            return
        touched, sums = grad.indices()[0], state.get("sum")
        table.grad = None
        if self.training.optimizer == "adam":
            table.grad = torch.zeros_like(whole).index_copy_(0, touched, grad.values())
            yield
            table.grad = grad
            return
        table.data = whole.index_select(0, touched)
        table.grad = grad.values()
        if sums is not None:
            state["sum"] = sums.index_select(0, touched)
        yield
        whole.index_copy_(0, touched, table.data)
        if sums is not None:
            state["sum"] = sums.index_copy_(0, touched, state["sum"])
        table.grad = None
        table.data, table.grad = whole, grad

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
    def _step_by_rows(self, grad: Tensor) -> None:
        """Update the rows of the entity table that have a gradient, and all other tables."""
        table, optimizer = self.model.entities, self.torch_optimizer
        table.grad = None
        optimizer.step()  # all other tables
        table.grad = grad
        group, state = optimizer.param_groups[0], optimizer.state[table]
        if "sum" in state:
            state["step"] += 1
        if not grad.is_sparse:
            update = partial(_adagrad_rows, table, grad, state, group)
            rows = split_work(len(table), table.numel(), table.device)
            run_parts([partial(update, part) for part in rows], table.device)
            return
        touched, step = grad.indices()[0], grad.values()
        if "sum" in state:
            state["sum"].index_add_(0, touched, step.square())
            std = state["sum"].index_select(0, touched).sqrt_()
            step = step / std.add_(group["eps"])
        table.index_add_(0, touched, step, alpha=-group["lr"])

    def _step_all(self, sparse_grad: Tensor) -> None:
        """Update all tables, all rows of the entity table included."""
        table = self.model.entities
        touched, values = sparse_grad.indices()[0], sparse_grad.values()
        if self._dense is None:
            self._dense = torch.zeros_like(table)
        table.grad = self._dense.index_copy_(0, touched, values)
        self.torch_optimizer.step()
        self._dense.index_fill_(0, touched, 0)
        table.grad = sparse_grad


@torch.no_grad()
def _adagrad_rows(
    table: Tensor, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any], rows: slice
) -> None:
    """Update some rows by the kernel of torch's Adagrad."""
    adagrad(
        [table[rows]],
        [grad[rows]],
        [state["sum"][rows]],
        [state["step"] - 1],  # counted up by the kernel
        fused=group["fused"],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        lr_decay=group["lr_decay"],
        eps=group["eps"],
        maximize=False,
    )


@torch.no_grad()
def clip_gradients(model: Model, limit: float) -> None:
    """Scale all gradients of a model so that their norm, taken together, is at most the limit."""
    grads, norms = [], []
    for table in model.parameters():
        grad = grad_of(table)
        grads.append(grad.values() if grad.is_sparse else grad)
        norm = torch.linalg.vector_norm(grads[-1])
        is_sharded = table is model.entities and not model.shard.is_whole
        norms.append(model.shard.sum(norm.square()).sqrt() if is_sharded else norm)
    scale = (limit / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale)


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
    fused = model.entities.device.type == "cpu"  # not all versions of torch have it on GPUs
    match training.optimizer:
        case "adagrad":
            return torch.optim.Adagrad(tables, lr=training.lr, fused=fused)
        case "row-adagrad":
            return RowAdagrad(model, training.lr)
        case "adam":
            return torch.optim.Adam(tables, lr=training.lr, fused=fused)
        case "sgd":
            return torch.optim.SGD(tables, lr=training.lr, fused=fused)
        case "riemannian-sgd" | "riemannian-adagrad":
            if not model.manifold_parameters(model.entities, model.relations):
                plain = training.optimizer.removeprefix("riemannian-")
                raise SettingsError(
                    f"{training.optimizer} needs parameters on a Poincaré ball: use {plain}"
                )
            is_sgd = training.optimizer == "riemannian-sgd"
            return (RiemannianSGD if is_sgd else RiemannianAdagrad)(model, training.lr)


def _adagrad_with_state(
    model: Model, training: TrainingSettings, new_table: Callable[[Tensor], Tensor]
) -> torch.optim.Optimizer:
    """Return Adagrad whose state of the entity table is a new table.

    torch makes the state in memory with the optimizer, so it gets an empty table meanwhile.
    """
    entities = model.entities
    table, entities.data = entities.data, entities.data[:0]
    optimizer = _optimizer(model, training)
    entities.data = table
    optimizer.state[entities]["sum"] = new_table(table)
    return optimizer


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad with one accumulator per row of the entity table; plain Adagrad for other tables.

    The accumulator of a row is the sum of the mean squares of its gradients, so the optimizer state
    of N entities is N numbers instead of N × width.
    """

    EPSILON = 1e-10  # as torch's Adagrad

    def __init__(self, model: Model, lr: float) -> None:
        self.model = model
        super().__init__(list(model.parameters()), {"lr": lr})
        for table in model.parameters():
            shape = (len(table), 1) if table is model.entities else table.shape
            self.state[table]["sum"] = table.new_zeros(shape)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update all tables; of the entity table only the rows of a sparse gradient."""
        lr = self.param_groups[0]["lr"]
        for table in self.param_groups[0]["params"]:
            grad, total = grad_of(table), self.state[table]["sum"]
            if grad.is_sparse:
                touched, grad = grad.indices()[0], grad.values()
                total.index_add_(0, touched, grad.square().mean(dim=1, keepdim=True))
                std = total.index_select(0, touched).sqrt_().add_(self.EPSILON)
                table.index_add_(0, touched, grad / std, alpha=-lr)
                continue
            square = grad.square()
            total += square.mean(dim=1, keepdim=True) if table is self.model.entities else square
            table.addcdiv_(grad, total.sqrt().add_(self.EPSILON), value=-lr)


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
        """Update all tables; of the entity table only the rows of a sparse gradient."""
        table = self.model.entities
        grad = grad_of(table)
        if not grad.is_sparse:
            self._update(table, grad, None)
            return
        touched = grad.indices()[0]
        rows = table.index_select(0, touched)
        self._update(rows, grad.values(), touched)
        table.index_copy_(0, touched, rows)

    def _update(self, entities: Tensor, entity_grad: Tensor, touched: Tensor | None) -> None:
        """Update rows of entities (None: all), and all relations, in place."""
        lr, model = self.param_groups[0]["lr"], self.model
        tables = (entities, model.relations)
        grads = self._directions((entity_grad, grad_of(model.relations)), tables, touched)
        points = model.manifold_parameters(*tables)
        point_grads = model.manifold_parameters(*grads)
        updated = [_geodesic_step(x, grad, lr) for x, grad in zip(points, point_grads, strict=True)]
        for table, grad in zip(tables, grads, strict=True):
            table.sub_(grad, alpha=lr)
        for point, new_point in zip(points, updated, strict=True):
            point.copy_(new_point)

    def _directions(
        self, grads: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], touched: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return what to step along, in Euclidean coordinates: the gradients themselves."""
        del tables, touched
        return grads


class RiemannianAdagrad(RiemannianSGD):
    """Riemannian Adagrad: one accumulator per point of a ball, plain Adagrad for other numbers.

    The gradient of a point is divided by the root of the sum of its mean squares, measured in the
    metric of the ball (Bécigneul and Ganea 2019), so that the first step of a point of dimension d
    is lr · √d long, wherever in the ball it is.
    """

    EPSILON = 1e-10  # as torch's Adagrad

    def __init__(self, model: Model, lr: float) -> None:
        super().__init__(model, lr)
        for table in (model.entities, model.relations):
            self.state[table]["sum"] = torch.zeros_like(table)

    def _directions(
        self, grads: tuple[Tensor, Tensor], tables: tuple[Tensor, Tensor], touched: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients over the roots of their accumulators, which are updated."""
        manifold = self.model.manifold_parameters
        squares = grads[0].square(), grads[1].square()
        for square, point in zip(manifold(*squares), manifold(*tables), strict=True):
            # All columns of a point hold its one accumulator.
            square.copy_(square.mean(dim=1, keepdim=True) * _inverse_metric(point))
        entities, relations = (
            self.state[table]["sum"] for table in (self.model.entities, self.model.relations)
        )
        relations += squares[1]
        if touched is None:
            entities += squares[0]
            own = entities
        else:
            entities.index_add_(0, touched, squares[0])
            own = entities.index_select(0, touched)
        sums = own, relations
        first, second = (
            grad / total.sqrt().add_(self.EPSILON) for grad, total in zip(grads, sums, strict=True)
        )
        return first, second


def _geodesic_step(point: Tensor, grad: Tensor, lr: float) -> Tensor:
    return expmap(point, grad * _inverse_metric(point) * -lr)


def _inverse_metric(point: Tensor) -> Tensor:
    """Return ((1 − ‖x‖²)/2)², which turns a Euclidean gradient into the Riemannian one."""
    return (1 - point.square().sum(dim=1, keepdim=True)).square() / 4


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
