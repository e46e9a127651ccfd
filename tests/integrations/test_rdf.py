"""Graphs and predicted links go to rdflib and pyoxigraph and come back whole."""

from __future__ import annotations

import sys

import pyoxigraph as ox
import pytest
import rdflib
from rdflib.namespace import RDF, RDFS, XSD

import fivestar
from fivestar.errors import BadSource, MissingExtra, SettingsError
from fivestar.integrations.links import links_of
from fivestar.integrations.rdf import PREDICTIONS, read_links, to_oxigraph, to_rdflib

EX = rdflib.Namespace("http://example.org/")
CONFIDENCE = rdflib.URIRef("urn:fivestar:confidence")


def people():
    """IRIs, blank nodes, literals of all kinds, labels and types."""
    graph = rdflib.Graph()
    nodes = [EX[f"p{n}"] if n % 4 else rdflib.BNode(f"b{n}") for n in range(10)]
    for number, node in enumerate(nodes):
        graph.add((node, EX.knows, nodes[(number + 1) % 10]))
        graph.add((node, EX.knows, nodes[(number + 3) % 10]))
        graph.add((node, EX.age, rdflib.Literal(20 + number % 3)))
        graph.add((node, RDF.type, EX.Person if number % 2 else EX.Robot))
        graph.add((node, RDFS.label, rdflib.Literal(f"person {number}", lang="en")))
    texts = [
        rdflib.Literal('say "hi"\n\\ here'),
        rdflib.Literal("Grüezi", lang="de-ch"),
        rdflib.Literal("汉字", lang="zh-hans"),
        rdflib.Literal("007", datatype=XSD.integer, normalize=False),
    ]
    for node in nodes[:6]:
        for text in texts:
            graph.add((node, EX.motto, text))
    return graph


def stored(graph):
    """The same in a store, with the same blank nodes."""
    store = ox.Store()
    store.extend(to_oxigraph(fivestar.read_graph(graph, literals="keep", types="triples")))
    for subject, text in graph.subject_objects(RDFS.label):
        node = ox.BlankNode(str(subject)) if isinstance(subject, rdflib.BNode) else None
        store.add(
            ox.Quad(
                node or ox.NamedNode(str(subject)),
                ox.NamedNode(str(RDFS.label)),
                ox.Literal(str(text), language="en"),
            )
        )
    return store


def content(graph):
    """A graph by name, whatever its ids are."""
    return {
        split: {tuple(row.values()) for row in graph.named(graph.split(split)).to_pylist()}
        for split in ("train", "valid", "test")
    } | {
        "labels": dict(zip(graph.entities, graph.entities.labels or [], strict=False)),
        "types": graph.types
        and {name: set(graph.types.of(number)) for number, name in enumerate(graph.entities)},
    }


@pytest.fixture(scope="module")
def source():
    return people()


@pytest.fixture(scope="module")
def model(source):
    graph = fivestar.read_graph(source, literals="keep")
    return fivestar.train(graph, dim=4, epochs=10, progress=False)


@pytest.fixture(scope="module")
def found(model):
    return model.complete(top=40)


def test_a_graph_of_rdflib_comes_back_whole(source):
    for literals in ("keep", "drop"):
        graph = fivestar.read_graph(source, literals=literals)
        again = to_rdflib(graph)
        assert content(fivestar.read_graph(again, literals=literals)) == content(graph)
        # Every fact is the very statement that it was; labels lose their language.
        kept = {EX.knows, RDF.type} | ({EX.age, EX.motto} if literals == "keep" else set())
        facts = {statement for statement in source if statement[1] in kept}
        assert set(again) >= facts
        assert len(again) == len(facts) + 10


def test_a_store_of_pyoxigraph_is_read_like_rdflib(source):
    from_store, from_rdflib = (
        fivestar.read_graph(each, literals="keep") for each in (stored(source), source)
    )
    # A store writes numbers in their canonical form.
    theirs = content(from_rdflib)
    theirs["train"] = {
        tuple(name.replace('"007"', '"7"') for name in row) for row in theirs["train"]
    }
    theirs["labels"] = {
        name.replace('"007"', '"7"'): label for name, label in theirs["labels"].items()
    }
    theirs["types"] = {
        name.replace('"007"', '"7"'): types for name, types in theirs["types"].items()
    }
    assert content(from_store) == theirs
    dataset = to_oxigraph(from_store)
    assert isinstance(dataset, ox.Dataset)
    assert content(fivestar.read_graph(dataset, literals="keep")) == content(from_store)


def test_splits_are_named_graphs(source):
    graph = fivestar.split_graph(fivestar.read_graph(source), valid=0.2, test=0.2)
    for convert in (to_rdflib, to_oxigraph):
        assert content(fivestar.read_graph(convert(graph))) == content(graph)


def test_predicted_links_are_between_the_nodes_of_the_graph(source, found):
    predicted = to_rdflib(found)
    links = links_of(found)
    facts = set(predicted.triples((None, EX.knows, None)))
    facts |= set(predicted.triples((None, EX.motto, None)))
    facts |= set(predicted.triples((None, EX.age, None)))
    assert len(facts) == len(links) == 40
    assert not facts & set(source)
    assert {s for s, _, _ in facts} <= set(source.subjects())
    assert {o for _, _, o in facts} <= set(source.subjects()) | set(source.objects())
    assert any(isinstance(o, rdflib.Literal) for _, _, o in facts)
    assert any(isinstance(o, rdflib.BNode) for _, _, o in facts)
    for subject, _, confidence in predicted.triples((None, CONFIDENCE, None)):
        parts = [predicted.value(subject, p) for p in (RDF.subject, RDF.predicate, RDF.object)]
        assert tuple(parts) in facts
        assert confidence.datatype == XSD.double


@pytest.mark.parametrize("form", ["rdflib", "statements", "triple-terms"])
def test_predicted_links_come_back_with_their_probabilities(source, found, form):
    predicted = to_rdflib(found) if form == "rdflib" else to_oxigraph(found, form=form)
    expected = links_of(found)
    assert sorted(read_links(predicted)) == sorted(expected)
    if form == "rdflib":
        assert sorted(read_links(source + predicted)) == sorted(expected)
    else:
        store = stored(source)
        store.extend(predicted)
        again = {link[:3] for link in read_links(store)}
        assert again == {
            tuple(name.replace('"007"', '"7"') for name in link[:3]) for link in expected
        }


def test_triple_terms_are_those_of_rdf_1_2(found):
    store = ox.Store()
    store.extend(to_oxigraph(found))
    answers = store.query(
        "PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> SELECT ?s ?p ?o ?c WHERE { "
        f"GRAPH <{PREDICTIONS}> {{ ?r rdf:reifies <<( ?s ?p ?o )>> ; <{CONFIDENCE}> ?c . "
        "?s ?p ?o } }"
    )
    assert sorted(float(row["c"].value) for row in answers) == pytest.approx(
        sorted(link.probability for link in links_of(found))
    )


@pytest.mark.parametrize("form", ["statements", "triple-terms"])
def test_predictions_in_a_store_are_not_read_as_facts(source, found, form, tmp_path):
    store = stored(source)
    facts = content(fivestar.read_graph(store))
    store.extend(to_oxigraph(found, form=form))
    graph = fivestar.read_graph(store)
    assert content(graph) == facts
    assert graph.report.splits["train"].other_graphs == len(to_oxigraph(found, form=form))
    path = tmp_path / "store.nq"
    store.dump(str(path), format=ox.RdfFormat.N_QUADS)
    assert content(fivestar.read_graph(path))["train"] == facts["train"]
    if form == "statements":
        selected = fivestar.read_graph(store, graphs=[PREDICTIONS])
        assert "http://example.org/knows" in selected.relations


def test_predictions_in_a_dataset_of_rdflib_are_not_read_as_facts(source, found):
    dataset = rdflib.Dataset()
    for statement in source:
        dataset.default_graph.add(statement)
    named = dataset.graph(rdflib.URIRef(PREDICTIONS))
    for statement in to_rdflib(found):
        named.add(statement)
    assert sorted(read_links(dataset)) == sorted(links_of(found))
    assert content(fivestar.read_graph(dataset)) == content(fivestar.read_graph(source))


def test_links_added_twice_are_there_once(found):
    store = ox.Store()
    for _ in range(2):
        store.extend(to_oxigraph(found))
    assert len(store) == 3 * len(links_of(found))


def test_names_that_are_no_iris_become_iris_and_names_again():
    facts = [(f"New York {n}", "twinned with", f"Città {n + 1}%") for n in range(3)]
    facts += [(f"Città {n + 1}%", "twinned with", f"New York {n}") for n in range(3)]
    graph = fivestar.read_graph([*facts, ("http://ex.org/a", "in", '"quoted" name')])
    for convert in (to_rdflib, to_oxigraph):
        assert content(fivestar.read_graph(convert(graph))) == content(graph)


def test_without_calibration_links_have_no_confidence(source):
    graph = fivestar.read_graph(source)
    with pytest.warns(fivestar.GraphWarning, match="without validation"):
        model = fivestar.train(graph, dim=4, epochs=1, valid=0, progress=False)
    found = model.complete(top=3)
    assert len(to_rdflib(found)) == len(to_oxigraph(found)) == 3


def test_a_literal_as_head_is_written_as_a_name(model):
    everything = model.complete(top=200, slots="all")
    links = [link for link in links_of(everything) if link.head.startswith('"')]
    assert links  # not RDF, but a name as any other
    assert sorted(read_links(to_rdflib(everything))) == sorted(links_of(everything))


def test_wrong_arguments_say_what_to_pass(found):
    with pytest.raises(SettingsError, match="triple-terms"):
        to_oxigraph(found, form="star")
    with pytest.raises(BadSource, match="rdflib"):
        read_links([("a", "b", "c")])
    graph = rdflib.Graph()
    graph.add((EX.s, CONFIDENCE, rdflib.Literal(0.5)))
    with pytest.raises(BadSource, match="of which triple"):
        read_links(graph)


@pytest.mark.parametrize(
    ("module", "convert", "extra"),
    [("rdflib", to_rdflib, "rdflib"), ("pyoxigraph", to_oxigraph, "rdf")],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, module, convert, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"fivestar-kge\[{extra}\]"):
        convert(fivestar.read_graph([("a", "r", "b")]))
