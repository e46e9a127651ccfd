"""Tables in mapped files: the same training, in memory that need not hold them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from pathlib import Path

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


@pytest.mark.parametrize("number", [torch.inf, -torch.inf, torch.nan])
def test_numbers_that_are_not_finite_are_found(number):
    table = torch.zeros(100, 3)
    assert is_finite(table)
    assert is_finite(torch.tensor(1.0))
    assert is_finite(torch.zeros(0, 3))
    table[57, 2] = number
    assert not is_finite(table)
    assert not is_finite(torch.tensor(number))


def test_large_weights_are_mapped_when_a_run_is_loaded(tmp_path, monkeypatch):
    run = fivestar.train(people_graph(), settings(), tmp_path / "run")
    monkeypatch.setattr(run_module, "_MAP_ABOVE", 0)
    monkeypatch.setattr(run_module, "load", None)  # what reads a whole file
    loaded = fivestar.load(tmp_path / "run")
    assert torch.equal(loaded.model.entities, run.model.entities)


def resident_pages(table):
    """Return how many pages of a mapped table are in memory, those of other mappings aside."""
    size = table.numel() * 4
    flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(table.data_ptr()), ctypes.c_size_t(size), flags) == 0
    return [flag & 1 for flag in flags]


def evict(table):
    """Write a mapped table to its file and drop its pages from memory."""
    file = mapped_tables._files[table.data_ptr()]
    file.flush()
    file.madvise(mmap.MADV_DONTNEED)
    # The files have no names: find the one of this mapping by its descriptor.
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        if descriptor.is_symlink() and "deleted" in str(descriptor.readlink()):
            os.posix_fadvise(int(descriptor.name), 0, 0, os.POSIX_FADV_DONTNEED)


linux = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs Linux")


@linux
def test_prefetch_reads_these_rows_and_random_access_no_others(tmp_path):
    width = mmap.PAGESIZE // 4  # a row per page
    table = mapped_zeros((1000, width), tmp_path)
    table.fill_(1)
    evict(table)
    if any(resident_pages(table)):
        pytest.skip("this file system keeps its pages")
    mapped_tables.random_access(table)
    assert float(table[500, 0]) == 1
    assert sum(resident_pages(table)) == 1
    rows = torch.tensor([3, 4, 5, 700, 999])
    mapped_tables.prefetch(table, rows)
    pages = [*rows.tolist(), 500]
    deadline = time.monotonic() + 10
    while sum(resident_pages(table)) < len(pages) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [page for page, flag in enumerate(resident_pages(table)) if flag] == sorted(pages)


def test_tables_in_memory_need_no_advice():
    table = torch.zeros(4, 3)
    for advise in (mapped_tables.random_access, mapped_tables.sequential_access):
        advise(table)
    mapped_tables.prefetch(table, torch.tensor([1, 2]))


def test_the_rows_of_a_bucket_are_prefetched_once(tmp_path, monkeypatch):
    prefetched = []
    monkeypatch.setattr(loop, "prefetch", lambda table, rows: prefetched.append((table, rows)))
    graph = people_graph()
    values = settings(table="mmap", epochs=1, partitions=2)
    trainer = loop.Trainer(graph, fivestar.make_settings(values), tmp_path)
    state = trainer.optimizer.torch_optimizer.state[trainer.model.entities]["sum"]
    trainer.run()
    # Two partitions have three buckets; the table and the state of Adagrad are mapped.
    tables = [table.data_ptr() for table, _ in prefetched]
    assert tables.count(trainer.model.entities.data_ptr()) == 3
    assert tables.count(state.data_ptr()) == 3
