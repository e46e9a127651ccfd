"""Predicted links and vectors in graphs of NetworkX."""

from __future__ import annotations

import networkx as nx
import pytest

import fivestar
from fivestar.errors import SettingsError
from fivestar.integrations.links import links_of
from fivestar.integrations.networkx import add_links, set_vectors


@pytest.fixture
def graph():
    """Integers as nodes, and two kinds of edges: a cycle and its double steps."""
    graph = nx.MultiDiGraph()
    for node in range(12):
        graph.add_edge(node, (node + 1) % 12, "next", since=node)
        if node % 3:
            graph.add_edge(node, (node + 2) % 12, "skip")
    return graph


@pytest.fixture
def model(graph):
    return fivestar.train(graph, dim=8, epochs=20, progress=False)


def test_predicted_links_are_edges_between_the_nodes_they_were_read_from(graph, model):
    before = [(edge[:3], dict(edge[3])) for edge in graph.edges(keys=True, data=True)]
    found = model.complete(top=5)
    assert add_links(graph, found) == 5
    assert set(graph) == set(range(12))
    predicted = {
        (str(h), key, str(t)): data
        for h, t, key, data in graph.edges(keys=True, data=True)
        if data.get("predicted")
    }
    assert len(predicted) == 5
    for link in links_of(found):
        data = predicted[link[:3]]
        assert data["probability"] == link.probability
        assert data["relation"] == link.relation
        assert 0 <= link.probability <= 1
    for edge, attributes in before:
        assert graph.edges[edge] == attributes
    assert add_links(graph, found) == 0  # nothing twice


def test_answers_to_queries_are_links_too(graph, model):
    both = model.predict([("3", "next", "_"), ("_", "skip", "5"), ("2", "_", "9")], top=4)
    links = links_of(both)
    assert links == [link for each in both for link in links_of(each)]
    assert {link.head for link in links_of(both[0])} == {"3"}
    assert {link.tail for link in links_of(both[1])} == {"5"}
    assert {(link.head, link.tail) for link in links_of(both[2])} == {("2", "9")}
    facts = model.graph.named(model.graph.facts).to_pylist()
    assert not {tuple(fact.values()) for fact in facts} & {link[:3] for link in links}
    assert add_links(graph, both) == len(links)


def test_labels_in_a_query_become_names():
    labeled = fivestar.read_graph([(a, "next", b) for a in "abcd" for b in "abcd" if a != b])
    names = fivestar.Vocabulary("entity", list(labeled.entities), ["Ann", "Bob", "Cy", "Di"])
    labeled = type(labeled)("labeled", names, labeled.relations, labeled.train)
    model = fivestar.train(labeled, dim=4, epochs=1, progress=False)
    assert {triple[:2] for triple in model.predict_tails("Ann", "next").triples()} == {
        ("a", "next")
    }
    assert {triple[1:] for triple in model.predict_heads("next", "di").triples()} == {("next", "d")}


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, nx.MultiGraph])
def test_other_graphs_are_refused(model, kind):
    with pytest.raises(SettingsError, match=r"networkx\.MultiDiGraph\(graph\)"):
        add_links(kind(), model.complete(top=1))


def test_what_has_no_links_is_refused(graph):
    for found in (3, "abc", graph.edges):
        with pytest.raises(SettingsError, match="no predicted links"):
            add_links(nx.MultiDiGraph(), found)


def test_vectors_are_those_of_the_entities(graph, model):
    graph.add_node("unknown")
    assert set_vectors(graph, model, "embedding") == 12
    assert "embedding" not in graph.nodes["unknown"]
    for node in range(12):
        row = model.model.entities[model.graph.entities.id_of(str(node))]
        assert (graph.nodes[node]["embedding"] == row.detach().numpy()).all()
    graph.nodes[0]["embedding"][:] = 0  # a copy: the model does not change
    assert model.model.entities[model.graph.entities.id_of("0")].abs().sum() > 0


def test_two_nodes_of_one_name_are_refused(graph, model):
    graph.add_node("7")
    for call in (
        lambda: set_vectors(graph, model),
        lambda: add_links(graph, model.complete(top=1)),
    ):
        with pytest.raises(SettingsError, match="7 and '7' have the same name"):
            call()


def test_a_graph_goes_to_networkx_and_back(graph):
    facts = fivestar.read_graph(graph)
    again = fivestar.read_graph(facts.to_networkx())
    assert again.named(again.train).equals(facts.named(facts.train))
