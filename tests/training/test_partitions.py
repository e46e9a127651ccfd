"""Partitions: laws of the buckets, their batches and their candidates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph

import fivestar
from fivestar.errors import SettingsError
from fivestar.training.candidates import sample_candidates
from fivestar.training.partitions import Partitions
from fivestar.training.queries import GroupedQueries

COUNTS = st.integers(2, 9)
SEEDS = st.integers(0, 99)
CPU = torch.device("cpu")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(COUNTS, SEEDS)
def test_all_buckets_once_and_at_most_one_new_partition_each(count, seed):
    buckets = Partitions(500, count, 800, 0).order(generator(seed))
    pairs = [divmod(bucket, count) for bucket in buckets]
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i, count)]
    for before, after in itertools.pairwise(pairs):
        assert len({*after} - {*before}) <= 1


@given(st.integers(1, 3000), COUNTS, st.integers(1, 1 << 18), SEEDS)
def test_each_entity_is_in_one_partition_of_nearly_equal_size(entities, count, row_bytes, seed):
    partitions = Partitions(entities, count, row_bytes, seed)
    own = partitions.of(np.arange(entities))
    sizes = np.bincount(own, minlength=count)
    assert sizes.sum() == entities
    assert sizes.max() - sizes.min() <= 2 * partitions.rows_per_block
    for bucket in range(count):
        expected = np.flatnonzero(own == bucket)
        assert partitions.entities(bucket * count + bucket).tolist() == expected.tolist()
    both = partitions.entities(count - 1).tolist()  # the first and the last partition
    assert both == np.flatnonzero((own == 0) | (own == count - 1)).tolist()


def test_rows_of_a_block_are_read_together():
    partitions = Partitions(100_000, 4, 800, 0)
    assert partitions.rows_per_block == 163  # 128 KiB
    own = partitions.of(np.arange(163 * 600))
    assert (own.reshape(600, 163) == own.reshape(600, 163)[:, :1]).all()


@pytest.mark.parametrize("grouping", ["queries", "triples"])
@given(COUNTS, SEEDS)
def test_an_epoch_has_every_fact_once_per_side(grouping, count, seed):
    graph = people_graph()
    partitions = Partitions(len(graph.entities), count, 800, seed)
    queries = GroupedQueries.of(graph.train, 2, grouping=grouping, partitions=partitions)
    batches = list(queries.batches(7, generator(seed), CPU))
    seen = []
    for batch in batches:
        assert len(batch.entities) <= 7
        assert torch.isin(torch.cat([batch.entities, batch.answers]), batch.pool).all()
        assert len(np.unique(partitions.of(batch.pool.numpy()))) <= 2
        entities, relations = batch.entities[batch.rows], batch.side_relations[batch.rows]
        seen += zip(entities.tolist(), relations.tolist(), batch.answers.tolist(), strict=True)
    facts = graph.train.array.tolist()
    assert sorted(seen) == sorted(
        [(h, r, t) for h, r, t in facts] + [(t, r + 2, h) for h, r, t in facts]
    )
    assert queries.num_batches(7) == len(batches)
    skipped = list(queries.batches(7, generator(seed), CPU, skip=3))
    for batch, same in zip(batches[3:], skipped, strict=True):
        assert torch.equal(batch.answers, same.answers)
        assert torch.equal(batch.pool, same.pool)


@given(st.data())
def test_candidates_come_from_the_pool_and_stand_for_all_entities(data):
    entities = data.draw(st.integers(3, 60))
    ids = st.integers(0, entities - 1)
    pool = sorted(data.draw(st.sets(ids, min_size=2)))
    answers = data.draw(st.lists(st.sampled_from(pool), min_size=1))
    size = data.draw(st.integers(1, 70))
    torch.manual_seed(data.draw(SEEDS))
    sample = sample_candidates(torch.tensor(answers), size, entities, torch.tensor(pool))
    count, weight = sample.sampled
    sampled, rest = sample.ids[:count].tolist(), sample.ids[count:].tolist()
    others = set(pool) - set(answers)
    assert rest == sorted(set(answers))
    assert sampled == sorted(set(sampled))
    assert set(sampled) <= others
    assert count == min(size, len(others))
    if count:
        assert count * weight == pytest.approx(entities - len(set(answers)))


def test_a_model_learns_with_partitions():
    graph = people_graph()

    def mrr(**changes):
        training = {"epochs": 40, "batch_size": 20, "num_candidates": 16, "lr": 0.3, **changes}
        run = fivestar.train(graph, {"model": {"dim": 16}, "training": training})
        return run.metrics["valid"]["mrr"]

    untrained = mrr(epochs=0)
    assert mrr(partitions=3) > untrained + 0.5 * (mrr() - untrained) > 1.5 * untrained


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "margin", "num_candidates": 0}, "no effect with the objective margin"),
        ({"objective": "bce"}, "no effect with the objective bce"),
        ({"reciprocals": False}, "need reciprocals"),
        ({"label_smoothing": 0.1}, "label_smoothing 0"),
        ({"num_candidates": 0}, "set num_candidates"),
    ],
)
def test_what_partitions_cannot_do_is_refused(changes, message):
    training = {"epochs": 1, "num_candidates": 16, "partitions": 2, **changes}
    with pytest.raises(SettingsError, match=message):
        fivestar.train(people_graph(), {"model": {"dim": 4}, "training": training})
