"""Tables in mapped files: the same training, in memory that need not hold them."""

from __future__ import annotations

import errno
import os

import pytest
import torch
from tests.graphs import people_graph

import fivestar
from fivestar.errors import OutputError, Paused, SettingsError
from fivestar.runs import run as run_module
from fivestar.runs.run import is_finite
from fivestar.training import loop, mapped_tables
from fivestar.training.mapped_tables import mapped_zeros
from fivestar.training.resources import part_sizes

TRAINING = {
    "epochs": 4,
    "batch_size": 20,
    "num_candidates": 16,
    "partitions": 3,
    "evaluate_every": 1,
}


def settings(**changes):
    return {"model": {"dim": 6}, "training": {**TRAINING, **changes}}


def weights(run):
    return run.model.state_dict()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": "row-adagrad"},
        {"optimizer": "sgd", "lr": 0.01},
        {"refit": True},
        {"objective": "negative-sampling", "num_candidates": 0, "partitions": 1},
    ],
)
def test_the_same_weights_as_in_memory(changes, tmp_path):
    graph = people_graph()
    mapped = fivestar.train(graph, settings(table="mmap", **changes), tmp_path / "run")
    expected = weights(fivestar.train(graph, settings(**changes)))
    for name, table in weights(mapped).items():
        assert torch.equal(table, expected[name])
    files = [path.name for path in tmp_path.rglob("*")]
    assert not [name for name in files if "tmp" in name]  # mapped files have no names


def test_entities_state_and_best_weights_are_mapped(tmp_path, monkeypatch):
    shapes = []

    def record(shape, folder):
        shapes.append(tuple(shape))
        return mapped_zeros(shape, folder)

    monkeypatch.setattr(loop, "mapped_zeros", record)
    graph = people_graph()
    trainer = loop.Trainer(graph, fivestar.make_settings(settings(table="mmap")), tmp_path)
    assert shapes == [(len(graph.entities), 12)] * 2
    state = trainer.optimizer.torch_optimizer.state[trainer.model.entities]["sum"]
    assert state.shape == trainer.model.entities.shape
    trainer.run()
    assert shapes == [(len(graph.entities), 12)] * 3


@pytest.mark.parametrize("optimizer", ["adagrad", "row-adagrad"])
def test_a_killed_training_resumes_with_the_same_result(optimizer, tmp_path):
    graph, values = people_graph(), settings(table="mmap", optimizer=optimizer)
    expected = weights(fivestar.train(graph, values))

    def stop(epochs):
        if epochs > 2.3:
            raise Paused("enough")

    with pytest.raises(Paused):
        fivestar.train(graph, values, tmp_path / "run", on_step=stop)
    resumed = weights(fivestar.resume(tmp_path / "run"))
    for name, table in resumed.items():
        assert torch.equal(table, expected[name])


def test_a_full_disk_is_an_error_before_training(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mapped_tables.os, "posix_fallocate", no_space)
    with pytest.raises(OutputError, match="No space left"):
        fivestar.train(people_graph(), settings(table="mmap"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adam"}, "adagrad, row-adagrad or sgd"),
        ({"average": 2}, "average 0"),
        ({"num_candidates": 0, "partitions": 1}, "set num_candidates"),
        ({"device": "cuda"}, "use device cpu"),
    ],
)
def test_what_needs_the_whole_table_in_memory_is_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        fivestar.train(people_graph(), settings(table="mmap", **changes))


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    values = fivestar.make_settings(settings(table="mmap"))
    with pytest.raises(SettingsError, match="one process"):
        loop.Trainer(people_graph(), values)


def test_memory_is_that_of_three_partitions():
    graph = people_graph()

    def rows(**changes):
        values = fivestar.make_settings(settings(memory="6GiB", **changes)).for_graph(graph)
        model = run_module.build_model(graph, values)
        # 12 GB of numbers that no memory holds.
        model.entities = torch.nn.Parameter(torch.empty(3_000_000, 1000, device="meta"))
        return part_sizes(model, 1000, values.training, 100).rows

    with pytest.raises(SettingsError, match="needs at least"):
        rows(optimizer="row-adagrad")
    with pytest.raises(SettingsError, match="with more partitions, less"):
        rows(table="mmap", optimizer="row-adagrad", partitions=4)
    assert rows(table="mmap", optimizer="row-adagrad", partitions=8) == 20
    with pytest.raises(SettingsError, match="with more partitions, less"):
        rows(table="mmap", partitions=8)  # Adagrad has as much state again


def test_finite_numbers_are_checked_part_by_part(monkeypatch):
    monkeypatch.setattr(run_module, "_CHECKED_NUMBERS", 10)
    table = torch.zeros(100, 3)
    assert is_finite(table)
    assert is_finite(torch.tensor(1.0))
    table[99, 2] = torch.inf
    assert not is_finite(table)
    assert not is_finite(torch.tensor(torch.nan))


def test_large_weights_are_mapped_when_a_run_is_loaded(tmp_path, monkeypatch):
    run = fivestar.train(people_graph(), settings(), tmp_path / "run")
    monkeypatch.setattr(run_module, "_MAP_ABOVE", 0)
    monkeypatch.setattr(run_module, "load", None)  # what reads a whole file
    loaded = fivestar.load(tmp_path / "run")
    assert torch.equal(loaded.model.entities, run.model.entities)
