"""Warm starts: rows that are kept, new and vanished, and settings that are refused."""

from __future__ import annotations

import pytest
import torch
from tests.graphs import people_graph
from tests.training.test_loop import same, small, tables

import fivestar
from fivestar.errors import SettingsError
from fivestar.runs.run import CHECKPOINT


@pytest.fixture
def graph():
    return people_graph()


def named_rows(run, kind, names):
    table = getattr(run.model, kind).detach()
    return table[torch.tensor(getattr(run.graph, kind).ids_of(names).tolist())]


def without(graph, name):
    """The same facts without one entity, under other ids."""
    rows = reversed(graph.named(graph.train).to_pylist())
    return fivestar.read_graph(
        [tuple(row.values()) for row in rows if name not in (row["head"], row["tail"])]
    )


@pytest.mark.parametrize("optimizer", ["adagrad", "row-adagrad", "adam", "sgd"])
def test_a_warm_start_on_the_same_graph_starts_from_the_same_weights(graph, tmp_path, optimizer):
    settings = small(epochs=2, optimizer=optimizer, lr=0.01, evaluate_every=0)
    fivestar.train(graph, settings, tmp_path / "first")
    begun = fivestar.train(graph, small(epochs=0), warm_start=tmp_path / "first")
    first = fivestar.load(tmp_path / "first")
    assert same(tables(begun), tables(first))


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_names_are_matched_whatever_their_ids(graph, tmp_path):
    first = fivestar.train(graph, small(epochs=2), tmp_path / "first")
    gone = graph.entities.name_of(0)
    changed = without(graph, gone)
    begun = fivestar.train(changed, small(epochs=0), warm_start=tmp_path / "first")
    names = list(changed.entities)
    assert torch.equal(named_rows(begun, "entities", names), named_rows(first, "entities", names))
    relations = list(changed.relations)
    assert torch.equal(
        named_rows(begun, "relations", relations), named_rows(first, "relations", relations)
    )
    turned = torch.tensor(changed.relations.ids_of(relations).tolist()) + len(changed.relations)
    before = torch.tensor(graph.relations.ids_of(relations).tolist()) + len(graph.relations)
    assert torch.equal(begun.model.relations[turned], first.model.relations[before])
    origin = begun.metrics["started_from"]["entities"]
    lost = set(graph.entities) - set(names)
    assert (origin["kept"], origin["new"], origin["vanished"]) == (len(names), 0, len(lost))
    assert set(origin["some_vanished"]) <= lost


def test_new_names_are_initialized_as_in_any_training(graph, tmp_path):
    smaller = without(graph, graph.entities.name_of(0))
    fivestar.train(smaller, small(epochs=2), tmp_path / "first")
    begun = fivestar.train(graph, small(epochs=0), warm_start=tmp_path / "first")
    fresh = fivestar.train(graph, small(epochs=0))
    new = sorted(set(graph.entities) - set(smaller.entities))
    assert begun.metrics["started_from"]["entities"]["new"] == len(new) > 0
    assert torch.equal(named_rows(begun, "entities", new), named_rows(fresh, "entities", new))


def test_the_optimizer_state_of_kept_rows_is_copied(graph, tmp_path):
    fivestar.train(graph, small(epochs=3), tmp_path / "first")
    with_memory = fivestar.train(graph, small(epochs=1), warm_start=tmp_path / "first")
    assert with_memory.metrics["started_from"]["optimizer_memory"] is True
    (tmp_path / "first" / CHECKPOINT).unlink()
    without_memory = fivestar.train(graph, small(epochs=1), warm_start=tmp_path / "first")
    assert without_memory.metrics["started_from"]["optimizer_memory"] is False
    start = fivestar.load(tmp_path / "first").model.entities
    moved = [(r.model.entities - start).norm() for r in (with_memory, without_memory)]
    assert moved[0] < 0.7 * moved[1]


def test_settings_are_those_of_the_run_unless_given(graph, tmp_path):
    first = fivestar.train(graph, small(epochs=1, lr=0.07), tmp_path / "first")
    begun = fivestar.train(graph, warm_start=tmp_path / "first")
    assert begun.settings == first.settings
    with pytest.raises(SettingsError, match=r"dim is 3, but .* omit it, or convert"):
        fivestar.train(graph, {"model": {"dim": 3}}, warm_start=tmp_path / "first")
    with pytest.raises(SettingsError, match="reciprocals is False, but True"):
        fivestar.train(graph, small(reciprocals=False), warm_start=tmp_path / "first")


def test_a_warm_start_killed_at_once_resumes_from_the_copied_weights(graph, tmp_path):
    fivestar.train(graph, small(epochs=2), tmp_path / "first")

    def stop(_):
        raise KeyboardInterrupt

    whole = fivestar.train(
        graph, small(epochs=2), tmp_path / "whole", warm_start=tmp_path / "first"
    )
    with pytest.raises(KeyboardInterrupt):
        fivestar.train(
            graph, small(epochs=2), tmp_path / "cut", on_step=stop, warm_start=tmp_path / "first"
        )
    resumed = fivestar.resume(tmp_path / "cut")
    assert same(tables(resumed), tables(whole))
    assert resumed.metrics["started_from"] == whole.metrics["started_from"]
