"""Clusters are measured as others measure them, and the size of a model's cloud does not count."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples
from sklearn.neighbors import NearestNeighbors
from typer.testing import CliRunner

import fivestar
from fivestar.analysis.clustering import (
    Typed,
    clustering,
    entity_map,
    normalised,
    typed_entities,
)
from fivestar.cli.main import app
from fivestar.errors import GraphError, SettingsError, UnknownName
from fivestar.runs.run import Run, build_model


def cloud(rows):
    """A run whose entities lie there."""
    graph = fivestar.read_graph([(f"e{i}", "r", f"e{i + 1}") for i in range(len(rows) - 1)])
    settings = fivestar.make_settings({"model": {"name": "distmult", "dim": rows.shape[1]}})
    model = build_model(graph, settings)
    with torch.no_grad():
        model.entities.copy_(torch.as_tensor(rows))
    return Run(graph, settings, model)


def labelled(classes):
    names = [f"type {n}" for n in range(max(classes) + 1)]
    return Typed(names, np.arange(len(classes)), np.asarray(classes))


@pytest.fixture(scope="module")
def example():
    rng = np.random.default_rng(0)
    classes = rng.permutation([0] * 40 + [1] * 25 + [2] * 10)
    centres = rng.normal(size=(3, 6)) * 1.5
    return cloud(centres[classes] + rng.normal(size=(75, 6))), labelled(classes)


def means_by_type(values, classes):
    return np.mean([values[classes == n].mean() for n in range(max(classes) + 1)])


def test_as_scikit_learn_measures_it(example):
    run, typed = example
    found = clustering(run, typed, neighbours=5)
    rows = normalised(run, typed.entities).numpy()
    silhouettes = silhouette_samples(rows, typed.classes)
    assert found.silhouette == pytest.approx(means_by_type(silhouettes, typed.classes), abs=1e-6)
    near = NearestNeighbors(n_neighbors=6).fit(rows).kneighbors(rows)[1][:, 1:]
    alike = (typed.classes[near] == typed.classes[:, None]).mean(axis=1)
    assert found.purity == pytest.approx(means_by_type(alike, typed.classes), abs=1e-9)
    centres = [rows[typed.classes == n].mean(axis=0) for n in range(3)]
    inside = ((rows - np.array(centres)[typed.classes]) ** 2).sum(axis=1)
    assert found.within == pytest.approx(means_by_type(inside, typed.classes), abs=1e-6)
    pairs = [np.linalg.norm(centres[i] - centres[j]) for i in range(3) for j in range(i)]
    assert found.between == pytest.approx(np.mean(pairs), abs=1e-6)
    assert found.types == {"type 0": 40, "type 1": 25, "type 2": 10}


def test_types_dealt_out_anew_are_what_chance_gives(example):
    run, typed = example
    found = clustering(run, typed)
    assert found.purity > found.shuffled["purity"] + 0.2
    assert found.silhouette > found.shuffled["silhouette"] + 0.2
    assert found.within < found.shuffled["within"]
    assert found.shuffled["purity"] == pytest.approx(found.chance, abs=0.15)
    other = clustering(run, typed, seed=1)
    assert other.shuffled != found.shuffled
    assert other.purity == found.purity


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_neither_the_size_nor_the_place_of_a_cloud_counts(example, factor, shift):
    run, typed = example
    moved = cloud(run.model.entities.detach().double().numpy() * factor + shift)
    one, other = clustering(run, typed), clustering(moved, typed)
    for key in ("within", "between", "silhouette"):
        assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-3, abs=1e-3)


def test_far_apart_is_pure():
    rows = np.array([[0, 0], [0, 1], [1, 0], [50, 50], [50, 51], [51, 50]], float)
    found = clustering(cloud(rows), labelled([0, 0, 0, 1, 1, 1]), neighbours=2)
    assert found.purity == 1
    assert found.silhouette > 0.95
    assert found.within < 0.01


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clustered") / "run"
    training = {"epochs": 3, "evaluate-every": 0}
    fivestar.train(fivestar.read_graph(), {"model": {"dim": 8}, "training": training}, folder)
    return folder


def test_only_entities_of_exactly_one_type_count(trained):
    graph = fivestar.load(trained).graph
    names = list(graph.types.vocabulary)[:2]
    typed = typed_entities(graph, names)
    for entity, which in zip(typed.entities, typed.classes, strict=True):
        assert set(graph.types.of(int(entity))) & set(names) == {names[which]}
    assert len(typed_entities(graph).types) >= 2  # the most frequent, if none are named


def test_maps_are_flat_and_repeatable(trained):
    run = fivestar.load(trained)
    typed = typed_entities(run.graph)
    flat = entity_map(run, typed, "pca")
    rows = normalised(run, typed.entities)
    assert flat.shape == (len(typed.entities), 2)
    spread = np.linalg.svd(rows.numpy(), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(flat, axis=0), spread, rtol=1e-9)
    small = Typed(typed.types, typed.entities[:60], typed.classes[:60])
    one, two = (entity_map(run, small, "tsne", seed=3) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_bad_requests(trained, example):
    run = fivestar.load(trained)
    with pytest.raises(UnknownName, match="did you mean"):
        typed_entities(run.graph, ["citi", "country"])
    with pytest.raises(SettingsError, match="at least two types"):
        typed_entities(run.graph, [next(iter(run.graph.types.vocabulary))])
    with pytest.raises(GraphError, match=r"entity_types\.tsv"):
        typed_entities(example[0].graph)
    with pytest.raises(SettingsError, match="must be fewer"):
        clustering(*example, neighbours=75)
    with pytest.raises(SettingsError, match="one point"):
        clustering(cloud(np.ones((6, 2))), labelled([0, 0, 0, 1, 1, 1]), neighbours=2)


def test_the_command(trained, tmp_path):
    invoke = CliRunner().invoke
    shown = invoke(app, ["cluster", str(trained), "--neighbours", "3"])
    assert shown.exit_code == 0, shown.output
    assert "dealt out anew" in shown.output
    drawn = tmp_path / "map.svg"
    options = ["--method", "pca", "--out", str(drawn), "--json", "--seed", "1"]
    found = invoke(app, ["cluster", str(trained), *options])
    assert found.exit_code == 0, found.output
    listed = json.loads(found.output[: found.output.rindex("}") + 1])
    assert listed["run"]["neighbours"] == 10
    assert drawn.read_bytes().startswith(b"<?xml")
