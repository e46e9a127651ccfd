"""Updates against their formulas: rates, clipping, touched rows, points of a ball, averages."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import made

from fivestar import make_settings, read_graph
from fivestar.errors import SettingsError
from fivestar.geometry.poincare_ball import MARGIN, expmap, project, squared_distance
from fivestar.models.registry import make_model
from fivestar.runs.settings import TrainingSettings
from fivestar.training.gathered_rows import grad_of
from fivestar.training.loop import Trainer
from fivestar.training.optimizers import (
    Optimizer,
    WeightAverage,
    clip_gradients,
    learning_rate,
    project_to_ball,
)


def with_gradients(form, touched=None, seed=0):
    """Return a model with random gradients; those of entities that are not touched are 0."""
    model = made(form)
    generator = torch.Generator().manual_seed(seed)
    for table in model.parameters():
        table.grad = torch.randn(table.shape, generator=generator, dtype=table.dtype) * 0.1
    if touched is not None:
        untouched = torch.ones(len(model.entities), dtype=torch.bool)
        untouched[touched] = False
        model.entities.grad[untouched] = 0
    return model


@given(st.integers(0, 5), st.integers(6, 20), st.floats(0, 1), st.sampled_from(["none", "linear"]))
def test_the_rate_rises_linearly_and_then_stays_or_falls_linearly(warmup, epochs, share, decay):
    settings = TrainingSettings(lr=0.2, epochs=epochs, warmup=warmup, decay=decay)
    done = share * epochs
    if done < warmup:
        wanted = 0.2 * done / warmup
    elif decay == "none":
        wanted = 0.2
    else:
        wanted = 0.2 * (1 - (done - warmup) / (epochs - warmup))
    assert learning_rate(settings, done) == pytest.approx(wanted)


def test_a_warmup_of_all_epochs_does_not_divide_by_0():
    settings = TrainingSettings(lr=0.2, epochs=3, warmup=3, decay="linear")
    assert learning_rate(settings, 3) == 0.2


@pytest.mark.parametrize("form", ["complex", "murp"])
def test_a_step_of_sgd_and_its_projection(form):
    model = with_gradients(form)
    settings = TrainingSettings(optimizer="sgd", lr=0.5, epochs=10, decay="linear")
    wanted = [table.detach() - 0.25 * table.grad for table in model.parameters()]
    Optimizer(model, settings).step(5.0)
    if form == "murp":
        entities, relations = wanted
        for point in model.manifold_parameters(entities, relations):
            point.copy_(project(point))
    for table, other in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(table.detach(), other)


def test_gradients_are_clipped_to_their_norm_together():
    model = with_gradients("complex")
    norm = torch.sqrt(sum(table.grad.square().sum() for table in model.parameters()))
    assert norm > 0.01
    wanted = [table.detach() - 2 * table.grad * (0.01 / norm) for table in model.parameters()]
    settings = TrainingSettings(optimizer="sgd", lr=2.0, clip=0.01, decay="none")
    Optimizer(model, settings).step(0.0)
    for table, other in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(table.detach(), other, rtol=1e-5, atol=1e-7)


def sparse(grad, rows):
    return torch.sparse_coo_tensor(
        rows[None], grad[rows], grad.shape, is_coalesced=True, check_invariants=True
    )


def test_sparse_gradients_are_clipped_as_dense_ones():
    touched = torch.tensor([1, 4, 6])
    models = [with_gradients("complex", touched) for _ in range(2)]
    models[1].entities.grad = sparse(models[1].entities.grad, touched)
    for model in models:
        clip_gradients(model, 0.01)
    for table, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(table.grad, other.grad.to_dense())
    norm = torch.sqrt(sum(table.grad.square().sum() for table in models[0].parameters()))
    assert norm == pytest.approx(0.01, rel=1e-3)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_row_adagrad_divides_each_row_by_the_root_of_its_summed_mean_squares(steps, dim, seed):
    model = make_model("distmult", 4, 2, dim)
    model.reset_parameters(torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed)
    optimizer = Optimizer(model, TrainingSettings(optimizer="row-adagrad", lr=0.3, decay="none"))
    entities, relations = (table.detach().clone() for table in model.parameters())
    row_sums, sums = torch.zeros(4, 1), torch.zeros(2, dim)
    for _ in range(steps):
        for table in model.parameters():
            table.grad = torch.randn(table.shape, generator=generator)
        row_sums += (model.entities.grad**2).sum(dim=1, keepdim=True) / dim
        sums += model.relations.grad**2
        entities -= 0.3 * model.entities.grad / row_sums.sqrt()
        relations -= 0.3 * model.relations.grad / sums.sqrt()
        optimizer.step(0.0)
    torch.testing.assert_close(model.entities.detach(), entities)
    torch.testing.assert_close(model.relations.detach(), relations)


@given(st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_row_adagrad_of_rows_of_one_number_is_adagrad(steps, is_sparse, seed):
    touched = torch.tensor([0, 2])
    models = [make_model("distmult", 4, 2, 1) for _ in range(2)]
    for model in models:
        model.reset_parameters(torch.Generator().manual_seed(seed))
    optimizers = [
        Optimizer(model, TrainingSettings(optimizer=name, lr=0.3, decay="none"))
        for model, name in zip(models, ("row-adagrad", "adagrad"), strict=True)
    ]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        grads = [torch.randn(t.shape, generator=generator) for t in models[0].parameters()]
        for model, optimizer in zip(models, optimizers, strict=True):
            for table, grad in zip(model.parameters(), grads, strict=True):
                table.grad = grad.clone()
            if is_sparse:
                model.entities.grad = sparse(model.entities.grad, touched)
            optimizer.step(0.0)
    for mine, theirs in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_row_adagrad_halves_the_memory_of_the_entity_table():
    """One number per entity, so table and state are hardly more than the table."""

    def state_numbers(optimizer):
        model = make_model("complex", 50, 4, 10)
        own = Optimizer(model, TrainingSettings(optimizer=optimizer)).torch_optimizer
        return own.state[model.entities]["sum"].numel()

    assert state_numbers("adagrad") == 50 * 20
    assert state_numbers("row-adagrad") == 50


@pytest.mark.parametrize(
    "optimizer",
    ["adagrad", "row-adagrad", "sgd", "adam", "riemannian-sgd", "riemannian-adagrad"],
)
def test_updating_the_touched_rows_is_the_whole_update(optimizer):
    """Twice, so that the state of the first update counts."""
    touched = torch.tensor([1, 4, 6])
    settings = TrainingSettings(optimizer=optimizer, lr=0.3, decay="none")
    form = "murp" if optimizer.startswith("riemannian-") else "complex"
    models = [made(form), made(form)]
    optimizers = [Optimizer(model, settings) for model in models]
    for seed in (0, 1):
        source = with_gradients(form, touched, seed)
        for model, own in zip(models, optimizers, strict=True):
            for table, other in zip(model.parameters(), source.parameters(), strict=True):
                table.grad = other.grad.clone()
            if model is models[1]:
                model.entities.grad = sparse(model.entities.grad, touched)
            own.step(0.0)
            assert torch.equal(model.entities.grad.to_dense(), source.entities.grad)
    for table, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(table, other)
    if optimizer.endswith("adagrad"):
        first, second = (
            own.torch_optimizer.state[model.entities]
            for own, model in zip(optimizers, models, strict=True)
        )
        torch.testing.assert_close(first["sum"], second["sum"])
        assert optimizer != "adagrad" or first["step"] == second["step"] == 2


def test_a_riemannian_step_follows_the_geodesic():
    model = with_gradients("murp")
    before = [table.detach().clone() for table in model.parameters()]
    grads = [table.grad for table in model.parameters()]
    Optimizer(model, TrainingSettings(optimizer="riemannian-sgd", lr=0.5)).step(0.0)
    wanted = [table - 0.5 * grad for table, grad in zip(before, grads, strict=True)]
    for point, old, grad in zip(
        *(model.manifold_parameters(*tables) for tables in (wanted, before, grads)), strict=True
    ):
        metric = ((1 - (old * old).sum(1, keepdim=True)) / 2) ** 2
        point.copy_(expmap(old, -0.5 * metric * grad))
    for table, other in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(table.detach(), other)


@given(st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_riemannian_adagrad_accumulates_in_the_metric_of_the_ball(steps, is_sparse, seed):
    """Each point has one accumulator, of its gradients' mean squares in the metric where it was."""
    touched = torch.tensor([1, 4, 6])
    model = made("murp")
    training = TrainingSettings(optimizer="riemannian-adagrad", lr=0.1, decay="none")
    optimizer = Optimizer(model, training)
    wanted = [table.detach().clone() for table in model.parameters()]
    sums = [torch.zeros_like(table) for table in wanted]
    for step in range(steps):
        grads = [table.grad for table in with_gradients("murp", touched, seed + step).parameters()]
        points, point_grads = (model.manifold_parameters(*them) for them in (wanted, grads))
        metrics = [((1 - (x * x).sum(1, keepdim=True)) / 2) ** 2 for x in points]
        squares = [grad**2 for grad in grads]
        for square, grad, metric in zip(
            model.manifold_parameters(*squares), point_grads, metrics, strict=True
        ):
            square[:] = metric * (grad**2).mean(1, keepdim=True)
        sums = [total + square for total, square in zip(sums, squares, strict=True)]
        moves = [-0.1 * grad / (s.sqrt() + 1e-10) for grad, s in zip(grads, sums, strict=True)]
        point_moves = model.manifold_parameters(*moves)
        moved = [expmap(x, m * v) for x, m, v in zip(points, metrics, point_moves, strict=True)]
        wanted = [table + move for table, move in zip(wanted, moves, strict=True)]
        for point, new in zip(model.manifold_parameters(*wanted), moved, strict=True):
            point.copy_(new)
        for table, grad in zip(model.parameters(), grads, strict=True):
            table.grad = grad.clone()
        if is_sparse:
            model.entities.grad = sparse(model.entities.grad, touched)
        optimizer.step(0.0)
    for table, other in zip(model.parameters(), wanted, strict=True):
        torch.testing.assert_close(table.detach(), other)


@pytest.mark.parametrize("length", [0.0, 0.5, 0.9])
def test_the_first_step_of_riemannian_adagrad_is_equally_long_everywhere(length):
    """Its hyperbolic length is lr · √d, near the origin and near the boundary."""
    model = made("murp")
    with torch.no_grad():
        points = model.entities[:, :-2]
        points *= length / points.norm(dim=1, keepdim=True)
    before = points.detach().clone()
    for table in model.parameters():
        generator = torch.Generator().manual_seed(1)
        table.grad = torch.randn(table.shape, generator=generator, dtype=table.dtype)
    training = TrainingSettings(optimizer="riemannian-adagrad", lr=0.1, decay="none")
    Optimizer(model, training).step(0.0)
    after, dim = model.entities.detach()[:, :-2], before.shape[1]
    excess = (after - before).square().sum(1)
    excess = excess / ((1 - before.square().sum(1)) * (1 - after.square().sum(1)))
    distance = squared_distance(excess).sqrt()
    torch.testing.assert_close(
        distance, torch.full_like(distance, 0.1 * dim**0.5), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("plain", ["sgd", "adagrad"])
def test_riemannian_steps_need_points_on_a_ball(plain):
    with pytest.raises(SettingsError, match=f"needs parameters on a Poincaré ball: use {plain}"):
        Optimizer(made("complex"), TrainingSettings(optimizer=f"riemannian-{plain}"))


@pytest.mark.parametrize("touched", [None, [2, 3]])
def test_points_outside_of_the_ball_are_projected(touched):
    model = made("murp")
    with torch.no_grad():
        model.entities[2:4, :-2] = 3.0
        model.relations.chunk(2, dim=1)[1][0] = 3.0
    others = model.entities.detach().clone()
    project_to_ball(model, None if touched is None else torch.tensor(touched))
    for point in model.manifold_parameters(model.entities, model.relations):
        assert float(point.detach().norm(dim=1).max()) == pytest.approx(1 - MARGIN)
    for row in (0, 1, 4, 5, 6):
        assert torch.equal(model.entities[row], others[row])
    assert torch.equal(model.entities[:, -2:], others[:, -2:])


def test_off_diagonal_entries_have_their_own_rate():
    model = with_gradients("fivestar mobius hermitian inner")
    model.off_diagonal_lr = 0.25
    before = model.relations.detach().clone()
    Optimizer(model, TrainingSettings(optimizer="sgd", lr=0.5, decay="none")).step(0.0)
    moved = model.relations.detach() - before
    wanted = -0.5 * model.relations.grad
    model.off_diagonal(wanted).mul_(0.25)
    torch.testing.assert_close(moved, wanted)


@pytest.mark.parametrize("span", [1, 3, 100])
def test_averages_are_means_and_then_move_exponentially(span):
    model, average = made("complex"), WeightAverage(span)
    wanted = None
    for epoch in range(1, 7):
        with torch.no_grad():
            model.entities.fill_(float(epoch**2))
        average.add(model, epoch)
        now = float(epoch**2)
        share = 1 / min(epoch, span)
        wanted = now if wanted is None else wanted + share * (now - wanted)
        assert average.tables["entities"].flatten()[0] == pytest.approx(wanted)
    if span == 100:
        assert wanted == pytest.approx(sum(e**2 for e in range(1, 7)) / 6)
    own = model.entities.detach().clone()
    with average.swapped_into(model):
        assert float(model.entities.detach()[0, 0]) == pytest.approx(wanted)
    assert torch.equal(model.entities, own)
    with pytest.raises(KeyError), average.swapped_into(model):
        raise KeyError
    assert torch.equal(model.entities, own)


def test_averages_copy_counters():
    """Batch normalization counts its batches in whole numbers."""
    model, average = made("conve"), WeightAverage(10)
    counters = [name for name, t in model.state_dict().items() if not t.is_floating_point()]
    assert counters
    for epoch in (1, 2, 3):
        for name in counters:
            model.state_dict()[name].fill_(7 * epoch)
        average.add(model, epoch)
    assert {int(average.tables[name]) for name in counters} == {21}


def test_without_averages_nothing_is_swapped():
    model = made("complex")
    own = model.entities.detach().clone()
    with WeightAverage(3).swapped_into(model):
        assert torch.equal(model.entities, own)


MANY_RELATIONS = read_graph([(f"e{i % 40}", f"r{i % 40}", f"e{5 * i % 47}") for i in range(90)])


@pytest.mark.parametrize(
    ("optimizer", "objective", "reciprocals"),
    [
        *((name, "softmax", True) for name in ("row-adagrad", "sgd", "adam")),
        *((f"riemannian-{name}", "softmax", True) for name in ("sgd", "adagrad")),
        *itertools.product(["adagrad"], ["softmax", "negative-sampling"], [True, False]),
    ],
)
def test_touched_relations_train_as_all_relations(optimizer, objective, reciprocals, monkeypatch):
    settings = make_settings(
        {
            "model": {"name": "murp" if "riemannian" in optimizer else "fivestar", "dim": 4},
            "training": {
                "objective": objective,
                "optimizer": optimizer,
                "lr": 0.05,
                "reciprocals": reciprocals,
                "regularizer": "none",
                "epochs": 2,
                "batch_size": 10,
                "evaluate_every": 0,
                "patience": 0,
            },
        }
    )
    trained, is_sparse = [], []
    for limit in (0, 1 << 20):
        monkeypatch.setattr("fivestar.training.step.LARGE_TABLE", limit)
        model = Trainer(MANY_RELATIONS, settings).run(lambda _: None)
        trained.append([table.detach() for table in model.parameters()])
        is_sparse.append(grad_of(model.relations).is_sparse)
    assert is_sparse == [True, False]
    assert all(map(torch.equal, *trained))
