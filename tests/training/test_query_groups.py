"""Query groups that divide a batch between them compute what one process computes."""

from __future__ import annotations

import shutil
from functools import partial

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph
from tests.training.sharded import in_processes, several
from tests.training.test_sharding import (
    CASES,
    begin,
    check_complete,
    check_learned,
    finish,
    many_bytes,
    settings_of,
    train_all,
)

from fivestar.errors import SettingsError
from fivestar.models.sharding import Shard
from fivestar.runs.run import load_run
from fivestar.training.loop import Trainer
from fivestar.training.train import resume, train

DIVIDED = [case for case in CASES if case not in ("model conve", "model tucker")]
# One case for each way that a batch is divided; all others are slow.
SOME_CASES = [
    *("softmax", "bce with label smoothing", "sampled candidates", "negative sampling"),
    *("without reciprocals", "relation loss", "clip", "early stopping", "one query per batch"),
    *("touched relations", "touched relations, negatives"),
]


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """What two processes have computed as two query groups, and the folder of their runs."""
    folder = tmp_path_factory.mktemp("groups")
    tasks = {
        "learned": (train_all, (SOME_CASES, 2)),
        "differences": (differences, (["softmax", "sampled candidates"],)),
        "sampled": (partial(many_bytes, query_groups=2), ([500, 5000],)),
        "all": (partial(many_bytes, query_groups=2, num_candidates=0), ([500, 5000],)),
        "begun": (begin, (folder / "begun", 8, 2)),
        "refused": (refused, ()),
        "saved": (saved, (folder / "saved",)),
    }
    results = in_processes(2, several, folder / "group", list(tasks.values()))
    return folder, dict(zip(tasks, results, strict=True))


def test_two_groups_learn_what_one_process_learns(groups):
    check_learned(groups[1]["learned"])


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "query_groups"), [(2, 2), (3, 3), (4, 2)])
def test_groups_learn_what_one_process_learns(processes, query_groups, tmp_path):
    check_learned(in_processes(processes, train_all, tmp_path, DIVIDED, query_groups))


def differences(cases):
    """Return how much the weights of the groups differ after a training, at most."""
    results = []
    for case in cases:
        trainer = Trainer(people_graph(), settings_of(case, dist.get_world_size()))
        for table in trainer.run().state_dict().values():
            highest, lowest = table.clone(), table.clone()
            dist.all_reduce(highest, dist.ReduceOp.MAX)
            dist.all_reduce(lowest, dist.ReduceOp.MIN)
            results.append((highest - lowest).abs().max())
    return torch.stack(results)


def test_the_replicas_of_a_row_stay_equal(groups):
    assert not groups[1]["differences"].any()


def test_the_traffic_of_sampled_candidates_does_not_depend_on_the_entities(groups):
    sampled, whole = groups[1]["sampled"], groups[1]["all"]
    sent = {size: int(values[1]) for size, values in sampled.items()}
    assert sent["500"] > 0
    # A few of the sampled entities are queries of the batch as well, or not.
    assert sent["5000"] == pytest.approx(sent["500"], rel=0.1)
    # A softmax over all entities has a dense gradient of the table, which the groups sum.
    width = 16  # two numbers per dimension
    grown = int(whole["5000"][1]) - int(whole["500"][1])
    assert grown == (5000 - 500) * width * 4


def refused():
    """Return the messages of settings that cannot be divided."""
    messages = []
    for case, number in (("model conve", 2), ("softmax", 3)):
        with pytest.raises(SettingsError) as error:
            Trainer(people_graph(), settings_of(case, number))
        messages.append(str(error.value))
    return messages


def test_what_cannot_be_divided_is_refused(groups):
    conve, three = groups[1]["refused"]
    assert "conve uses batch normalization or dropout" in conve
    assert "train it with query_groups 1" in conve
    assert "query_groups is 3, which does not divide the number of processes, 2" in three
    assert "use 1 or 2" in three
    with pytest.raises(SettingsError, match="number of processes, 1: use 1, or start"):
        Trainer(people_graph(), settings_of("softmax", 2))


def saved(folder):
    """Train a run; what needs one process is refused even if each process has all rows."""
    run = train(people_graph(), settings_of("softmax", 2), folder)
    with pytest.raises(SettingsError, match="in one process"):
        run.save(folder.with_name("copy"))
    return run.metrics["valid"]["mrr"]


def test_the_run_of_several_groups_is_an_ordinary_one(groups):
    run = load_run(groups[0] / "saved")
    assert run.settings.training.query_groups == 2
    assert run.metrics["valid"]["mrr"] == groups[1]["saved"]
    alone = train(people_graph(), settings_of("softmax"))
    assert run.metrics["valid"]["mrr"] == pytest.approx(alone.metrics["valid"]["mrr"], abs=1e-3)


def test_one_process_resumes_what_two_groups_have_begun(groups, tmp_path):
    run = shutil.copytree(groups[0] / "begun", tmp_path / "run")
    with pytest.raises(SettingsError, match="query_groups is 2, which does not divide"):
        resume(run, query_groups=2)
    finish(run)
    check_complete(run)


@pytest.mark.slow
def test_any_number_of_processes_resumes_what_four_have_begun_in_two_groups(tmp_path):
    """One; two, as two groups or as one; and three, which two does not divide."""
    begun = tmp_path / "begun"
    in_processes(4, begin, tmp_path / "group", begun, 8, 2)
    assert (begun / "checkpoint-8-0").is_dir()
    for number, (processes, query_groups) in enumerate([(1, None), (2, None), (2, 1), (3, None)]):
        run = shutil.copytree(begun, tmp_path / f"run-{number}")
        if processes == 1:
            finish(run)
        else:
            group = tmp_path / f"group-{number}"
            in_processes(processes, finish_in_groups, group, run, query_groups)
        check_complete(run)


@pytest.mark.slow
def test_four_processes_in_two_groups_resume_what_one_has_begun(tmp_path):
    begin(tmp_path / "run", 8)
    in_processes(4, finish_in_groups, tmp_path / "group", tmp_path / "run", 2)
    check_complete(tmp_path / "run")


def finish_in_groups(folder, query_groups):
    """Resume to the end, and check the number of row shards."""
    run, processes = resume(folder, query_groups=query_groups), dist.get_world_size()
    groups = query_groups or (2 if processes % 2 == 0 else 1)
    assert run.model.shard.size == processes // groups
    return torch.zeros(0)


@given(st.integers(0, 50), st.integers(1, 7))
def test_the_parts_of_all_groups_cover_the_batch_evenly(count, groups):
    parts = [range(count)[Shard(9, 0, 1, group, groups).own_part(count)] for group in range(groups)]
    assert [number for part in parts for number in part] == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
