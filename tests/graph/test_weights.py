"""Weights of facts: read from every format, kept by conversion, splitting and storage."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rdflib
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather
from pykeen.triples import TriplesFactory

import fivestar
from fivestar.errors import BadLine, BadSource, GraphError, SettingsError
from fivestar.graph.file_conversion import convert_graph
from fivestar.graph.readers.base import ReadOptions
from fivestar.graph.reading import read_graph
from fivestar.graph.splitting import hold_out_validation, split_graph
from fivestar.graph.statistics import profile_graph
from fivestar.graph.storage import load_graph, save_graph
from fivestar.graph.triples import Triples
from fivestar.graph.writing import write_graph

# The last but one repeats a fact with a larger weight, the last with a smaller one.
ROWS = [
    ("http://e/a", "http://e/p", "http://e/b", 0.5),
    ("http://e/b", "http://e/p", "http://e/c", 2.0),
    ("http://e/a", "http://e/p", "http://e/b", 0.75),
    ("http://e/a", "http://e/p", "http://e/b", 0.0),
]
WEIGHTS = [0.75, 2.0]
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
CONFIDENCE = "http://e/confidence"
TITLES = ("head", "relation", "tail", "confidence")


def table():
    return pa.table(dict(zip(TITLES, map(list, zip(*ROWS, strict=True)), strict=True)))


def text(folder, delimiter="\t", header=""):
    path = folder / "graph.tsv"
    lines = [delimiter.join(map(str, row)) for row in ROWS]
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def parquet(folder):
    pq.write_table(table(), folder / "graph.parquet")
    return folder / "graph.parquet"


def arrow(folder):
    feather.write_feather(table(), folder / "graph.feather")
    return folder / "graph.feather"


def sparql(folder):
    rows = []
    for *names, weight in ROWS:
        row = {k: {"type": "uri", "value": v} for k, v in zip("spo", names, strict=True)}
        rows.append(row | {"w": {"type": "literal", "value": str(weight)}})
    content = {"head": {"vars": ["s", "p", "o", "w"]}, "results": {"bindings": rows}}
    (folder / "graph.srj").write_text(json.dumps(content))
    return folder / "graph.srj"


def openke(folder):
    (folder / "entity2id.txt").write_text("3\nhttp://e/a 0\nhttp://e/b 1\nhttp://e/c 2\n")
    (folder / "relation2id.txt").write_text("1\nhttp://e/p 0\n")
    number = {"http://e/a": 0, "http://e/b": 1, "http://e/c": 2}
    lines = [f"{number[h]} {number[t]} 0 {w}\n" for h, _, t, w in ROWS]
    (folder / "train2id.txt").write_text(f"{len(lines)}\n{''.join(lines)}")
    return folder


def networkx_graph(_):
    graph = nx.MultiDiGraph()
    for head, relation, tail, weight in ROWS[1:3]:
        graph.add_edge(head, tail, relation, confidence=weight)
    return graph


def annotated(_):
    """Return Turtle with the three ways to annotate a statement."""
    return "".join(
        f"<{h}> <{r}> <{t}> {{| <{CONFIDENCE}> {w:.2f} |}} .\n"
        if number % 2 == 0
        # The weight comes before the fact.
        else f"<< <{h}> <{r}> <{t}> >> <{CONFIDENCE}> '{w}' .\n<{h}> <{r}> <{t}> .\n"
        for number, (h, r, t, w) in enumerate(ROWS)
    )


def turtle(folder):
    (folder / "graph.ttl").write_text(annotated(folder))
    return folder / "graph.ttl"


def ntriples(folder):
    lines = []
    for number, (h, r, t, w) in enumerate(ROWS):
        fact = f"<{h}> <{r}> <{t}>"
        lines += [f"_:s{number} <{RDF}reifies> <<( {fact} )>> .", f"{fact} ."]
        lines += [f'_:s{number} <{CONFIDENCE}> "{w}" .']
    (folder / "graph.nt").write_text("\n".join(lines))
    return folder / "graph.nt"


def reified():
    graph = rdflib.Graph()
    for number, (h, r, t, w) in enumerate(ROWS):
        fact = [rdflib.URIRef(term) for term in (h, r, t)]
        node = rdflib.URIRef(f"http://e/statement{number}")
        graph.add(tuple(fact))
        graph.add((node, rdflib.RDF.type, rdflib.RDF.Statement))
        for part, term in zip(("subject", "predicate", "object"), fact, strict=True):
            graph.add((node, rdflib.RDF[part], term))
        graph.add((node, rdflib.URIRef(CONFIDENCE), rdflib.Literal(w)))
    return graph


def xml(folder):
    reified().serialize(folder / "graph.rdf", format="xml")
    return folder / "graph.rdf"


def jsonld(folder):
    reified().serialize(folder / "graph.jsonld", format="json-ld")
    return folder / "graph.jsonld"


SOURCES = {
    "text by number": (text, 3),
    "text by name": (lambda folder: text(folder, header="\t".join(TITLES) + "\n"), "confidence"),
    "text, unknown titles": (lambda folder: text(folder, header="a\tb\tc\tw\n"), "w"),
    "text with commas": (lambda folder: text(folder, ","), 3),
    "parquet": (parquet, "confidence"),
    "arrow": (arrow, 3),
    "pyarrow": (lambda _: table(), "confidence"),
    "pandas": (lambda _: table().to_pandas(), "confidence"),
    "polars": (lambda _: pl.from_arrow(table()), "confidence"),
    "texts in a table": (
        lambda _: pd.DataFrame([map(str, row) for row in ROWS], columns=TITLES),
        "confidence",
    ),
    "iterable": (lambda _: iter(ROWS), 3),
    "weight first": (lambda _: [(w, *names) for *names, w in ROWS], 0),
    "openke": (openke, 3),
    "sparql": (sparql, "w"),
    "networkx": (networkx_graph, "confidence"),
    "turtle": (turtle, CONFIDENCE),
    "n-triples": (ntriples, f"<{CONFIDENCE}>"),
    "rdf/xml": (xml, CONFIDENCE),
    "json-ld": (jsonld, CONFIDENCE),
    "rdflib": (lambda _: reified(), CONFIDENCE),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_weights_and_the_largest_of_a_repeated_fact_counts(name, tmp_path):
    make, weight = SOURCES[name]
    graph = read_graph(make(tmp_path), weight=weight)
    names = map(tuple, zip(*(c.to_pylist() for c in graph.named(graph.train).columns), strict=True))
    found = dict(zip(names, graph.train.weights.tolist(), strict=True))
    assert found == {tuple(ROWS[0][:3]): 0.75, tuple(ROWS[1][:3]): 2.0}
    report = graph.report.splits["train"]
    parts = (report.headers, report.triples, report.duplicates, report.weights)
    assert sum(parts) == report.lines


def test_an_edge_or_statement_without_a_weight_counts_once(tmp_path):
    graph = nx.MultiDiGraph([("a", "b", "r", {"w": 3}), ("b", "c", "r", {})])
    assert read_graph(graph, weight="w").train.weights.tolist() == [3, 1]
    path = tmp_path / "graph.ttl"
    path.write_text(f"<a:b> <a:c> <a:d> {{| <{CONFIDENCE}> 0.1 |}} . <a:b> <a:c> <a:e> .")
    assert read_graph(path, weight=CONFIDENCE).train.weights.tolist() == [0.1, 1]
    path.write_text("<a:b> <a:c> <a:d> .")
    with pytest.raises(BadSource, match="no fact has a weight by <http://e/confidence>"):
        read_graph(path, weight=CONFIDENCE)
    with pytest.raises(BadSource, match="no edge has the attribute 'x'"):
        read_graph(graph, weight="x")


BAD = {"-1": "finite number", "nan": "finite number", "inf": "finite number"}
BAD |= {"much": "not a number", "1_0": "not a number", "": "has no weight"}


@pytest.mark.parametrize("cell", BAD)
@pytest.mark.parametrize("kind", ["text", "table", "iterable", "rdf", "networkx", "openke"])
def test_bad_weights_are_refused_or_skipped(kind, cell, tmp_path):
    rows = [("a", "r", "b", "0.5"), ("b", "r", "c", cell)]
    weight = 3
    if kind == "text":
        source = tmp_path / "graph.tsv"
        source.write_text("".join("\t".join(row) + "\n" for row in rows))
    elif kind == "table":
        source = pd.DataFrame(rows, columns=["h", "r", "t", "w"])
    elif kind == "rdf":
        source, weight = tmp_path / "graph.ttl", CONFIDENCE
        facts = (f"<a:{h}> <a:{r}> <a:{t}> {{| <{weight}> '{w}' |}} .\n" for h, r, t, w in rows)
        source.write_text("".join(facts))
    elif kind == "networkx":
        weight = "w"
        source = nx.MultiDiGraph([(h, t, r, {"w": w}) for h, r, t, w in rows])
    elif kind == "openke":
        source = openke(tmp_path)
        (source / "train2id.txt").write_text(f"2\n0 1 0 0.5\n1 2 0 {cell or '-2'}\n")
    else:
        source = rows
    with pytest.raises(BadLine, match=BAD[cell if cell or kind != "openke" else "-1"]):
        read_graph(source, weight=weight)
    with pytest.warns(fivestar.errors.GraphWarning, match="1 bad"):
        graph = read_graph(source, weight=weight, on_bad_line="skip")
    # A bad annotation is not a bad fact.
    assert graph.train.weights.tolist() == ([0.5, 1.0] if kind == "rdf" else [0.5])


@pytest.mark.parametrize(
    ("source", "weight", "message"),
    [
        (ROWS, "confidence", "pass the position of the weight"),
        (ROWS, 4, "pass the position of the weight"),
        (ROWS, -1, "name or the number"),
        (nx.MultiDiGraph([("a", "b", "r")]), 3, "name of an edge attribute"),
        (
            TriplesFactory.from_labeled_triples(np.array([["a", "r", "b"]])),
            "w",
            "has no weights",
        ),
        (rdflib.Graph(), 3, "name of the property"),
    ],
)
def test_weights_that_a_source_cannot_have(source, weight, message):
    with pytest.raises(SettingsError, match=message):
        read_graph(source, weight=weight)


def test_a_column_that_is_missing_or_holds_no_numbers(tmp_path):
    with pytest.raises(BadSource, match=r"no column 'confidense'.*'confidence'"):
        read_graph(table(), weight="confidense")
    with pytest.raises(BadSource, match="no column 7 with weights"):
        read_graph(text(tmp_path), weight=7)
    wrong = table().append_column("flag", pa.array([True] * 4))
    with pytest.raises(BadSource, match="is of type bool, not numbers"):
        read_graph(wrong, weight="flag", columns=TITLES[:3])
    with pytest.raises(SettingsError, match="is a column of the triple"):
        read_graph(table(), weight=2, columns=(0, 1, 2))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(*(st.integers(0, 2),) * 3, st.floats(0, 1e6, allow_subnormal=False)),
        min_size=1,
        max_size=12,
    )
)
def test_distinct_facts_have_the_largest_of_their_weights(rows):
    triples = Triples.of([row[:3] for row in rows]).with_weights([row[3] for row in rows])
    largest = {}
    for *fact, weight in rows:
        largest[tuple(fact)] = max(weight, largest.get(tuple(fact), 0))
    distinct = triples.distinct()
    found = zip(map(tuple, distinct.array.tolist()), distinct.weights.tolist(), strict=True)
    assert list(found) == list(largest.items())  # in the order of first appearance, too


def weighted_graph(count=60):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, (count, 2))
    rows = [(f"e{h}", "r", f"e{t}", float(rng.random())) for h, t in rows]
    return read_graph({"train": rows, "test": [("e1", "r", "e2", 0.1)]}, weight=3)


@pytest.mark.parametrize("target", ["tsv", "csv", "nt", "nq", "ttl", "parquet", "arrow"])
def test_weights_are_kept_by_every_format(target, tmp_path):
    graph = weighted_graph()
    weight = "urn:fivestar:weight" if target in ("nt", "nq", "ttl") else "weight"
    write_graph(graph, tmp_path / "folder", to=target)
    read = read_graph(tmp_path / "folder", weight=weight)
    for split in ("train", "test"):
        assert read.split(split).weights.tolist() == graph.split(split).weights.tolist()
        assert read.named(read.split(split)) == graph.named(graph.split(split))
    # One file, and from file to file.
    write_graph(graph, tmp_path / f"one.{target}", splits="merge")
    merged = read_graph(tmp_path / f"one.{target}", weight=weight)
    assert merged.train.weights.tolist() == graph.facts.weights.tolist()
    options = ReadOptions(weight=weight)
    convert_graph(tmp_path / f"one.{target}", tmp_path / "two.parquet", options=options)
    convert_graph(
        tmp_path / "two.parquet", tmp_path / f"three.{target}", options=ReadOptions(weight="weight")
    )
    assert read_graph(tmp_path / f"three.{target}", weight=weight).train == merged.train
    # Without the option, the same facts have no weights.
    plain = read_graph(tmp_path / f"one.{target}")
    assert plain.train == merged.train.with_weights(None)


def test_splits_in_one_file_keep_their_weights(tmp_path):
    graph = weighted_graph()
    for name, weight in (("graph.nq", "urn:fivestar:weight"), ("graph.parquet", "weight")):
        write_graph(graph, tmp_path / name)
        read = read_graph(tmp_path / name, weight=weight)
        assert read.train == graph.train
        assert read.test.weights.tolist() == [0.1]


def test_storage_splitting_and_objects_keep_weights(tmp_path):
    graph = weighted_graph()
    assert load_graph(save_graph(graph, tmp_path / "saved")) == graph
    with pytest.raises(SettingsError, match="saved graph, which has the weights"):
        read_graph(tmp_path / "saved", weight="weight")
    assert read_graph(graph.to_arrow(), weight="weight").train == graph.train
    assert read_graph(graph.to_networkx(), weight="weight").facts.weights.sum() == pytest.approx(
        graph.facts.weights.sum()
    )
    for parts in (split_graph(graph, test=0.2), hold_out_validation(graph)):
        assert len(parts.valid)
        weight_of = dict(
            zip(map(tuple, graph.facts.array.tolist()), graph.facts.weights, strict=True)
        )
        for triples in parts.splits.values():
            rows = map(tuple, triples.array.tolist())
            assert triples.weights_or_ones.tolist() == [weight_of[row] for row in rows]


def test_weights_must_be_numbers_of_at_least_0():
    triples = Triples.of([(0, 0, 1)])
    for weights in ([-1.0], [np.nan], [np.inf]):
        with pytest.raises(GraphError, match="finite numbers of at least 0"):
            triples.with_weights(weights)
    with pytest.raises(GraphError, match="one weight for each of the 1 facts"):
        triples.with_weights([1, 2])
    assert triples != triples.with_weights([1])


def test_the_profile_of_weights():
    profile = profile_graph(weighted_graph())
    weights = profile.graph.train.weights
    found = profile.weights["train"]
    assert found == (len(weights), weights.min(), weights.mean(), weights.max())
    assert set(profile.as_json()["weights"]) == {"train", "test"}
    assert profile_graph(read_graph([("a", "r", "b")])).weights == {}
