"""Metrics of a random sample of queries estimate those of all without bias, with intervals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.json_outputs import LinkMetrics
from fivestar.cli.main import app
from fivestar.errors import SettingsError
from fivestar.evaluation.ranks import Ranks
from fivestar.evaluation.report import Evaluation, evaluate
from fivestar.evaluation.sampling import mean_interval, sample_triples, sampled_intervals
from fivestar.graph.triples import Triples
from fivestar.runs.settings import make_settings


def random_ranks(count, seed):
    """Return ranks between 1 and 1,000, most of them low."""
    ranks = np.random.default_rng(seed).geometric(0.1, count).clip(max=1000)
    return Ranks(ranks, ranks, np.full(count, 1000), np.zeros(count, np.int8))


def evaluation_of(rows, heads, tails):
    triples = Triples.of([(row, 0, row) for row in rows])
    mask = np.isin(np.arange(len(heads)), rows)
    return Evaluation(triples, heads.take(mask), tails.take(mask), np.zeros(len(rows), bool))


def test_the_mean_over_all_samples_is_the_metric_of_all():
    heads, tails = random_ranks(7, 0), random_ranks(7, 1)
    every = evaluation_of(range(7), heads, tails).metrics((3,))
    samples = [
        evaluation_of(rows, heads, tails).metrics((3,)) for rows in combinations(range(7), 3)
    ]
    for name in ("mrr", "hits@3"):
        assert np.mean([sample[name] for sample in samples]) == pytest.approx(every[name])


def test_95_percent_of_the_intervals_hold_the_metric_of_all():
    count, size = 1_000, 300
    heads, tails = random_ranks(count, 0), random_ranks(count, 1)
    every = evaluation_of(range(count), heads, tails).metrics((3,))
    triples = Triples.of([(row, 0, row) for row in range(count)])
    held = {"mrr": 0, "hits@3": 0}
    for seed in range(400):
        rows = sample_triples(triples, 2 * size, seed).heads
        found = sampled_intervals(evaluation_of(rows, heads, tails), count, (3,))
        assert (found["queries"], found["of"]) == (2 * size, 2 * count)
        for name in held:
            low, high = found[f"{name}_95"]
            held[name] += low <= every[name] <= high
    for name, number in held.items():
        assert 0.92 < number / 400 < 0.98, name


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.integers(0, 50))
def test_an_interval_holds_its_mean_and_shrinks_to_it(values, more):
    sample = np.array(values)
    low, high = mean_interval(sample, len(sample) + more)
    mean = sample.mean()
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1 + 1e-12
    if more == 0:
        assert low == high
    else:
        wider = mean_interval(sample, len(sample) + 2 * more)
        assert wider[0] <= low + 1e-12
        assert high <= wider[1] + 1e-12


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled") / "run"
    settings = {"model": {"dim": 4}, "training": {"epochs": 2, "evaluate_every": 0}}
    fivestar.train(people_graph(0.2, 0.2), settings, folder)
    return folder


def test_a_sample_is_ranked_among_all_entities(run, monkeypatch):
    monkeypatch.setattr("fivestar.prediction.evaluate.MIN_QUERIES", 2)
    model = fivestar.load(run)
    test = model.graph.test
    assert len(test) > 5
    found = model.evaluate(sampled=9)
    sample = sample_triples(test, 9)
    assert len(sample) == 5
    assert found["count"] == found["sampled"]["queries"] == 10
    assert found["sampled"]["of"] == 2 * len(test)
    # The same ranks as among all queries.
    every, rows = evaluate(model.model, model.graph, test), test.are_in(sample)
    assert rows.sum() == 5
    ranks = [side.realistic[rows] for side in (every.head_ranks, every.tail_ranks)]
    assert found["mrr"] == pytest.approx(np.mean([1 / side for side in ranks]))
    whole = model.evaluate()
    assert "sampled" not in whole
    more_than_all = model.evaluate(sampled=10_000)
    assert more_than_all["mrr"] == whole["mrr"]
    assert more_than_all["sampled"]["mrr_95"] == pytest.approx([whole["mrr"]] * 2)


def test_small_samples_and_other_tasks_are_refused(run):
    model = fivestar.load(run)
    with pytest.raises(SettingsError, match="at least 100 queries"):
        model.evaluate(sampled=99)
    with pytest.raises(SettingsError, match="sampled and candidates need the task links"):
        model.evaluate(task="relations", sampled=100)
    shown = CliRunner().invoke(
        app, ["evaluate", str(run), "--task", "relations", "--sampled", "100"]
    )
    assert "--sampled and --candidates need --task links" in str(shown.exception)


def test_the_command_says_what_was_ranked(run, monkeypatch):
    monkeypatch.setattr("fivestar.prediction.evaluate.MIN_QUERIES", 2)
    shown = CliRunner().invoke(app, ["evaluate", str(run), "--sampled", "8"]).output
    of = 2 * len(fivestar.load(run).graph.test)
    assert f"random sample of 8 of {of} queries" in " ".join(shown.split())
    shown = CliRunner().invoke(app, ["evaluate", str(run), "--sampled", "10000"]).output
    assert f"All {of} queries were ranked" in " ".join(shown.split())
    shown = CliRunner().invoke(app, ["evaluate", str(run), "--sampled", "8", "--json"]).stdout
    sampled = LinkMetrics.model_validate_json(shown).sampled
    assert (sampled.queries, sampled.of) == (8, of)
    assert set(sampled.model_extra) == {"hits@1_95", "hits@3_95", "hits@10_95"}


class LargeGraph:
    """As much of a graph as its settings depend on."""

    entities = range(100_001)
    train = range(400_000)
    pair_redundancy = 0.2


@pytest.mark.parametrize(
    "training", [{}, {"batch_size": 7, "epochs": 1, "num_candidates": 5, "reg_weight": 0.1}]
)
def test_large_graphs_are_validated_on_a_sample_by_default(training):
    def queries(graph, **more):
        settings = make_settings({"training": {**training, **more}}).for_graph(graph)
        return settings.training.validation_queries

    assert queries(LargeGraph) == 10_000
    assert queries(LargeGraph, validation_queries=0) == 0
    assert queries(LargeGraph, validation_queries=500) == 500
    small = type("Small", (LargeGraph,), {"entities": range(100_000)})
    assert queries(small) == 0
