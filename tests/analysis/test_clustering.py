"""ClusteringMetrics metrics agree with scikit-learn and do not depend on scale or position."""

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
    TypedEntities,
    clustering_metrics,
    entity_map,
    normalized_embeddings,
    typed_entities,
)
from fivestar.cli.main import app
from fivestar.errors import GraphError, SettingsError, UnknownName
from fivestar.runs.run import Run, build_model


def cloud(rows):
    """Return a run with these entity embeddings."""
    graph = fivestar.read_graph([(f"e{i}", "r", f"e{i + 1}") for i in range(len(rows) - 1)])
    settings = fivestar.make_settings({"model": {"name": "distmult", "dim": rows.shape[1]}})
    model = build_model(graph, settings)
    with torch.no_grad():
        model.entities.copy_(torch.as_tensor(rows))
    return Run(graph, settings, model)


def typed_as(classes):
    names = [f"type {n}" for n in range(max(classes) + 1)]
    return TypedEntities(names, np.arange(len(classes)), np.asarray(classes))


@pytest.fixture(scope="module")
def example():
    rng = np.random.default_rng(0)
    classes = rng.permutation([0] * 40 + [1] * 25 + [2] * 10)
    centers = rng.normal(size=(3, 6)) * 1.5
    return cloud(centers[classes] + rng.normal(size=(75, 6))), typed_as(classes)


def means_by_type(values, classes):
    return np.mean([values[classes == n].mean() for n in range(max(classes) + 1)])


def test_metrics_agree_with_scikit_learn(example):
    run, typed = example
    metrics = clustering_metrics(run, typed, num_neighbors=5)
    rows = normalized_embeddings(run, typed.entities).numpy()
    silhouettes = silhouette_samples(rows, typed.classes)
    assert metrics.silhouette == pytest.approx(means_by_type(silhouettes, typed.classes), abs=1e-6)
    near = NearestNeighbors(n_neighbors=6).fit(rows).kneighbors(rows)[1][:, 1:]
    same_type = (typed.classes[near] == typed.classes[:, None]).mean(axis=1)
    assert metrics.purity == pytest.approx(means_by_type(same_type, typed.classes), abs=1e-9)
    centers = [rows[typed.classes == n].mean(axis=0) for n in range(3)]
    inside = ((rows - np.array(centers)[typed.classes]) ** 2).sum(axis=1)
    assert metrics.within == pytest.approx(means_by_type(inside, typed.classes), abs=1e-6)
    pairs = [np.linalg.norm(centers[i] - centers[j]) for i in range(3) for j in range(i)]
    assert metrics.between == pytest.approx(np.mean(pairs), abs=1e-6)
    assert metrics.types == {"type 0": 40, "type 1": 25, "type 2": 10}


def test_permutation_baseline_is_close_to_random(example):
    run, typed = example
    metrics = clustering_metrics(run, typed)
    assert metrics.purity > metrics.permutation_baseline["purity"] + 0.2
    assert metrics.silhouette > metrics.permutation_baseline["silhouette"] + 0.2
    assert metrics.within < metrics.permutation_baseline["within"]
    assert metrics.permutation_baseline["purity"] == pytest.approx(metrics.random_purity, abs=0.15)
    other = clustering_metrics(run, typed, seed=1)
    assert other.permutation_baseline != metrics.permutation_baseline
    assert other.purity == metrics.purity


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_metrics_are_invariant_under_scaling_and_translation(example, factor, shift):
    run, typed = example
    moved = cloud(run.model.entities.detach().double().numpy() * factor + shift)
    one, other = clustering_metrics(run, typed), clustering_metrics(moved, typed)
    for key in ("within", "between", "silhouette"):
        assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-3, abs=1e-3)


def test_distant_clusters_are_pure():
    rows = np.array([[0, 0], [0, 1], [1, 0], [50, 50], [50, 51], [51, 50]], float)
    metrics = clustering_metrics(cloud(rows), typed_as([0, 0, 0, 1, 1, 1]), num_neighbors=2)
    assert metrics.purity == 1
    assert metrics.silhouette > 0.95
    assert metrics.within < 0.01


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clustered") / "run"
    training = {"epochs": 3, "evaluate-every": 0}
    fivestar.train(fivestar.read_graph(), {"model": {"dim": 8}, "training": training}, folder)
    return folder


def test_only_entities_of_exactly_one_type_are_selected(trained):
    graph = fivestar.load(trained).graph
    names = list(graph.types.vocabulary)[:2]
    typed = typed_entities(graph, names)
    for entity, which in zip(typed.entities, typed.classes, strict=True):
        assert set(graph.types.of(int(entity))) & set(names) == {names[which]}
    assert len(typed_entities(graph).types) >= 2  # the most frequent, if none are named


def test_maps_are_two_dimensional_and_reproducible(trained):
    run = fivestar.load(trained)
    typed = typed_entities(run.graph)
    flat = entity_map(run, typed, "pca")
    rows = normalized_embeddings(run, typed.entities)
    assert flat.shape == (len(typed.entities), 2)
    spread = np.linalg.svd(rows.numpy(), compute_uv=False)[:2]
    np.testing.assert_allclose(np.linalg.norm(flat, axis=0), spread, rtol=1e-9)
    small = TypedEntities(typed.types, typed.entities[:60], typed.classes[:60])
    one, two = (entity_map(run, small, "tsne", seed=3) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_invalid_requests_are_refused(trained, example):
    run = fivestar.load(trained)
    with pytest.raises(UnknownName, match="did you mean"):
        typed_entities(run.graph, ["citi", "country"])
    with pytest.raises(SettingsError, match="at least two types"):
        typed_entities(run.graph, [next(iter(run.graph.types.vocabulary))])
    with pytest.raises(GraphError, match=r"entity_types\.tsv"):
        typed_entities(example[0].graph)
    with pytest.raises(SettingsError, match="num_neighbors must be below"):
        clustering_metrics(*example, num_neighbors=75)
    with pytest.raises(SettingsError, match="same embedding"):
        clustering_metrics(cloud(np.ones((6, 2))), typed_as([0, 0, 0, 1, 1, 1]), num_neighbors=2)


def test_the_command(trained, tmp_path):
    invoke = CliRunner().invoke
    shown = invoke(app, ["cluster", str(trained), "--neighbors", "3"])
    assert shown.exit_code == 0, shown.output
    assert "permutation baseline" in shown.output
    drawn = tmp_path / "map.svg"
    options = ["--method", "pca", "--out", str(drawn), "--json", "--seed", "1"]
    metrics = invoke(app, ["cluster", str(trained), *options])
    assert metrics.exit_code == 0, metrics.output
    listed = json.loads(metrics.output[: metrics.output.rindex("}") + 1])
    assert listed["run"]["num_neighbors"] == 10
    assert drawn.read_bytes().startswith(b"<?xml")
