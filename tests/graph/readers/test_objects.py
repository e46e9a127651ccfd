from __future__ import annotations

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import rdflib
import torch
from pykeen.triples import CoreTriplesFactory, TriplesFactory
from tests.graph.formats import facts

from fivestar.errors import BadSource, GraphWarning, SettingsError
from fivestar.graph.reading import read_graph

X = rdflib.Namespace("http://x/")


def test_networkx_by_key_or_attribute():
    multi = nx.MultiDiGraph()
    multi.add_edge("a", "b", key="r")
    multi.add_edge("a", "b", key="s")
    assert facts(read_graph(multi)) == [("a", "r", "b"), ("a", "s", "b")]
    assert read_graph(multi).report.splits["train"].lines == 2
    plain = nx.DiGraph()
    plain.add_edge(1, "b", predicate="r", weight=2)
    assert facts(read_graph(plain)) == [("1", "r", "b")]
    plain.add_edge("b", "c", predicate="r", how="s")
    with pytest.raises(BadSource, match="edge 0: has no attribute 'how'"):
        read_graph(plain, columns=("head", "how", "tail"))
    with pytest.warns(GraphWarning, match="1 bad edge"):
        graph = read_graph(plain, columns=("head", "how", "tail"), on_bad_line="skip")
    assert facts(graph) == [("b", "s", "c")]


def test_networkx_edges_without_a_relation_or_a_direction():
    graph = nx.MultiDiGraph([("a", "b")])
    with pytest.raises(BadSource, match="give edges a key or an attribute 'relation'"):
        read_graph(graph)
    with pytest.raises(BadSource, match="is undirected"):
        read_graph(nx.Graph([("a", "b")]))
    graph = nx.MultiDiGraph()
    graph.add_edge("a", ("b", 1), key="r")
    with pytest.raises(BadSource, match="has a tail of type tuple"):
        read_graph(graph)
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", key="r", split="tset")
    with pytest.raises(BadSource, match="is of the split 'tset'"):
        read_graph(graph)


def test_rdflib_graphs_and_datasets():
    graph = rdflib.Graph()
    graph.add((X.a, X.r, X.b))
    graph.add((X.a, rdflib.RDFS.label, rdflib.Literal('say "hi"\n', lang="en")))
    graph.add((X.a, X.r, rdflib.Literal(5)))
    graph.add((rdflib.BNode("n"), rdflib.RDF.type, X.T))
    read = read_graph(graph, literals="keep")
    five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert facts(read) == sorted([(f"{X}a", f"{X}r", f"{X}b"), (f"{X}a", f"{X}r", five)])
    assert read.entities.label_of(read.entities.id_of(f"{X}a")) == 'say "hi"\n'
    data = rdflib.Dataset()
    data.add((X.a, X.r, X.b, X.g))
    data.default_graph.add((X.a, X.r, X.c))
    assert len(read_graph(data).train) == 2
    assert read_graph(data).report.splits["train"].lines == 2
    assert facts(read_graph(data, graphs=["default"])) == [(f"{X}a", f"{X}r", f"{X}c")]
    assert facts(read_graph(data, graphs=[f"{X}g"])) == [(f"{X}a", f"{X}r", f"{X}b")]


@pytest.mark.filterwarnings("ignore:.*does not look like a valid URI")
def test_rdflib_terms_that_are_not_iris():
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("a b"), X.r, X.b))
    with pytest.raises(BadSource, match="statement 0: has the URIRef 'a b', which is not an IRI"):
        read_graph(graph)


def test_pykeen_factories_with_and_without_labels():
    rows = np.array([["a", "r", "b"], ["b", "s", "c"]])
    factory = TriplesFactory.from_labeled_triples(rows, create_inverse_triples=True)
    assert facts(read_graph(factory)) == sorted(map(tuple, rows.tolist()))
    assert read_graph(factory).report.splits["train"].lines == 2
    core = CoreTriplesFactory.create(torch.tensor([[0, 1, 4]]))
    assert facts(read_graph({"train": core, "test": core})) == [("0", "1", "4")]


def test_a_format_is_for_files():
    with pytest.raises(SettingsError, match=r"format='nt' is for files"):
        read_graph([("a", "r", "b")], format="nt")
    with pytest.raises(SettingsError, match="format must be one of text, nt, nq"):
        read_graph([("a", "r", "b")], format="turtle")


def test_other_libraries_are_not_imported():
    code = """
import sys, fivestar
fivestar.read_graph([("a", "r", "b")])
loaded = {"networkx", "rdflib", "pykeen", "pyoxigraph"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("role", ["head", "relation", "tail"])
def test_networkx_names_of_a_wrong_type_are_called_by_their_role(role):
    names = {"head": "a", "relation": "r", "tail": "b"} | {role: 1.5}
    graph = nx.DiGraph()
    graph.add_edge(names["head"], names["tail"], relation=names["relation"])
    with pytest.raises(BadSource, match=f"edge 0: has a {role} of type float"):
        read_graph(graph)


@pytest.mark.filterwarnings("ignore:.*does not look like a valid URI")
def test_a_bad_rdflib_statement_is_shown_without_its_graph():
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("a b"), X.r, X.b))
    with pytest.raises(BadSource) as caught:
        read_graph(graph)
    assert f"\n  | a b {X.r} {X.b}\n" in str(caught.value)


def test_pykeen_ids_of_relations_and_entities_have_ranges_of_their_own():
    core = CoreTriplesFactory.create(torch.tensor([[0, 7, 1], [1, 2, 0]]))
    assert facts(read_graph(core)) == [("0", "7", "1"), ("1", "2", "0")]
    core = CoreTriplesFactory.create(torch.tensor([[9, 0, 1]]))
    assert facts(read_graph(core)) == [("9", "0", "1")]
