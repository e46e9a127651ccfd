"""Neighbors and analogous facts agree with brute force in numpy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.graphs import people_graph
from tests.models.forms import FORMS, made
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import AmbiguousName, SettingsError, UnknownName
from fivestar.graph.vocabulary import Vocabulary
from fivestar.prediction import neighbors as neighbors_module
from fivestar.prediction.neighbors import analogous_facts, cosine_similarities, similar
from fivestar.prediction.paths import TripleIds
from fivestar.runs.run import Run, build_model


def run_on(graph, name="complex", dim=6):
    settings = fivestar.make_settings({"model": {"name": name, "dim": dim}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(3))
    return Run(graph, settings, model)


def brute_force(rows):
    rows = rows - rows.mean(axis=0)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


@pytest.fixture(scope="module")
def people():
    return run_on(people_graph())


def test_neighbors_agree_with_numpy(people):
    cosines = brute_force(people.model.entities.detach().double().numpy())
    names = people.graph.entities
    for entity in (0, 17, len(names) - 1):
        found = similar(people, names.name_of(entity), top=5)
        order = [i for i in np.argsort(-cosines[entity]) if i != entity][:5]
        assert [each.entity.id for each in found] == names.names_of(order)
        np.testing.assert_allclose([each.similarity for each in found], cosines[entity, order])
        assert [each.rank for each in found] == [1, 2, 3, 4, 5]
        assert all(each.common_types is None for each in found)
    assert len(similar(people, "p0", top=10**6)) == len(names) - 1


def test_chunk_size_does_not_matter(people, monkeypatch):
    whole = cosine_similarities(people.model, [3, 4])
    monkeypatch.setattr(neighbors_module, "_CHUNK", 7)
    torch.testing.assert_close(cosine_similarities(people.model, [3, 4]), whole)


@pytest.mark.parametrize("form", FORMS)
def test_biases_and_full_turns_do_not_count(form):
    model = made(form)
    before = cosine_similarities(model, [2])
    with torch.no_grad():
        if form.startswith("protate"):
            model.entities += 2 * torch.pi
        elif form in {"mure", "murp"}:
            model.entities[:, -2:] *= 3
        elif form == "conve":
            model.entities[:, -1] *= 3
        else:
            model.entities += 1  # embeddings are centered
    assert before.shape == (1, 7)
    assert float(before[0, 2]) == pytest.approx(1)
    torch.testing.assert_close(cosine_similarities(model, [2]), before)


def test_the_center_has_cosine_zero(people):
    one_point = run_on(people.graph)
    with torch.no_grad():
        one_point.model.entities.fill_(1)
    assert [each.similarity for each in similar(one_point, "p0", top=3)] == [0, 0, 0]


def test_analogies_agree_with_numpy(people):
    graph, cosines = people.graph, brute_force(people.model.entities.detach().double().numpy())
    knows = graph.relations.id_of("knows")
    rows = graph.train.array[graph.train.relations == knows]
    for head, _, tail in rows[:5].tolist():
        found = analogous_facts(people, TripleIds(head, knows, tail), top=4)
        others = [(h, t) for h, _, t in rows.tolist() if (h, t) != (head, tail)]
        values = [(cosines[head, h] + cosines[tail, t]) / 2 for h, t in others]
        expected = [others[i] for i in np.argsort(values)[::-1][:4]]
        ids = graph.entities.id_of
        assert [(ids(each.head.id), ids(each.tail.id)) for each in found] == expected
        for each in found:
            mean = (each.head_similarity + each.tail_similarity) / 2
            assert each.similarity == pytest.approx(mean)


def test_a_triple_is_not_analogous_to_itself(people):
    for head, relation, tail in people.graph.train.array[::9].tolist():
        triple = TripleIds(head, relation, tail)
        found = analogous_facts(people, triple, top=10**6)
        names = people.graph.entities.names_of([head, tail])
        assert names not in [[each.head.id, each.tail.id] for each in found]
        assert len(found) == (people.graph.train.relations == relation).sum() - 1


def test_bad_requests(people):
    with pytest.raises(SettingsError, match="at least 1"):
        similar(people, "p0", top=0)
    with pytest.raises(UnknownName, match="did you mean 'p0'"):
        similar(people, "pp0")
    labels = ["twin" if i < 2 else None for i in range(len(people.graph.entities))]
    twins = Vocabulary("entity", people.graph.entities.names, labels)
    graph = fivestar.KnowledgeGraph("twins", twins, people.graph.relations, people.graph.train)
    with pytest.raises(AmbiguousName, match="'Twin' is ambiguous, it matches 2 names"):
        similar(run_on(graph), "Twin")


def test_similar_command(tmp_path):
    run_on(fivestar.read_graph()).save(tmp_path / "run")
    call = ["similar", str(tmp_path / "run"), "lyon", "--top", "4"]
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0, shown.output
    assert "types in common" in shown.output
    found = json.loads(CliRunner().invoke(app, [*call, "--json"]).output)
    assert [each["rank"] for each in found] == [1, 2, 3, 4]
    types = fivestar.read_graph().types
    for each in found:
        entity = fivestar.read_graph().entities.id_of(each["entity"]["id"])
        lyon = types.of(fivestar.read_graph().entities.id_of("Lyon"))
        assert each["common_types"] == [name for name in types.of(entity) if name in lyon]
