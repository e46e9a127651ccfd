from __future__ import annotations

import gzip

import pytest

from fivestar.errors import GraphWarning, SettingsError
from fivestar.graph.datasets import available_graphs, locate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.reading import read_graph


@pytest.fixture
def folder(tmp_path):
    world = tmp_path / "world"
    world.mkdir()
    (world / "train.txt").write_text("q1\tin\tq2\nq1\tin\tq2\nq3\tin\tq2\n")
    (world / "dev.tsv.gz").write_bytes(gzip.compress(b"q3\tin\tq4\nq3\tin\tq4\n"))
    (world / "test.csv").write_text("q1,in,q4\n")
    (world / "entity_labels.tsv").write_text(
        "q1\tParis\tcapital of France\nq2\tFrance\n\nq9\tunknown to the graph\nq3\t\n"
    )
    (world / "relation_labels.tsv").write_text("in\tlies in\n")
    (world / "entity_types.tsv").write_text(
        "q1\tcity\nq1\tcapital\nq9\tghost\nq1\tcity\nq2\tcountry\n"
    )
    return world


def test_a_folder_with_splits_labels_and_types(folder):
    graph = read_graph(folder)
    assert repr(graph) == ("KnowledgeGraph('world': 4 entities, 1 relations, 2 / 2 / 1 triples)")
    assert [graph.entities.label_of(i) for i in range(4)] == ["Paris", "France", "q3", "q4"]
    assert graph.entities.description_of(0) == "capital of France"
    assert graph.relations.label_of(0) == "lies in"
    assert sorted(graph.types.of(0)) == ["capital", "city"]
    assert graph.types.of(3) == []
    assert list(graph.types.vocabulary) == ["city", "capital", "country"]


def test_train_is_a_set_and_valid_and_test_keep_duplicates(folder):
    splits = read_graph(folder).report.splits
    assert (splits["train"].lines, splits["train"].triples, splits["train"].duplicates) == (3, 2, 1)
    assert (splits["valid"].lines, splits["valid"].triples, splits["valid"].duplicates) == (2, 1, 1)


def test_a_path_wins_over_a_dataset_name(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path))
    monkeypatch.chdir(folder)
    assert locate("world") == folder
    assert {"demo", "world", "wn18rr"} <= set(available_graphs())
    assert read_graph("world").name == "world"
    (folder / "world").write_text("x\tr\ty\n")
    assert list(read_graph("world").entities) == ["x", "y"]


def test_the_name_of_a_graph(folder, tmp_path, monkeypatch):
    (tmp_path / "facts.tsv.gz").write_bytes(gzip.compress(b"a\tr\tb\n"))
    assert read_graph(tmp_path / "facts.tsv.gz").name == "facts"
    assert read_graph(folder, name="other").name == "other"
    monkeypatch.chdir(folder)
    assert read_graph(".").name == "world"


def test_bad_annotations_are_skipped_on_request(folder):
    (folder / "entity_types.tsv").write_bytes(b"q1\tcity\nq2\nq3\t\xff\nq3\tcity\textra\n")
    with pytest.warns(GraphWarning, match=r"entity_types.tsv: 3 bad lines"):
        graph = read_graph(folder, on_bad_line="skip")
    assert graph.types.of(0) == ["city"]


def test_a_graph_knows_its_splits(folder):
    graph = read_graph(folder)
    assert isinstance(graph, KnowledgeGraph)
    assert graph.split("test") is graph.test
    with pytest.raises(SettingsError, match="no split 'tset'; did you mean 'test'"):
        graph.split("tset")
    assert len(graph.facts) == 4
