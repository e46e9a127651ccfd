"""The same triples in every format and object type that can be read, for tests."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyoxigraph as ox
import rdflib
from pykeen.triples import TriplesFactory

from fivestar.graph.rdf_terms import name_as_iri
from fivestar.graph.reading import read_graph
from fivestar.graph.writing import write_graph

RDF_FORMATS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "ttl": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "rdf": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}
WRITTEN = ("tsv", "csv", "nt", "nq", "ttl", "parquet", "arrow", "feather")
PACKED = ("tsv.gz", "csv.bz2", "nt.gz", "nt.zst", "nq.xz", "ttl.gz")


def iris(triple):
    head, relation, tail = triple
    kinds = ((head, "entity"), (relation, "relation"), (tail, "entity"))
    return [name_as_iri(name, kind) for name, kind in kinds]


def rdf_file(triples, folder, kind):
    quads = [ox.Quad(*map(ox.NamedNode, iris(triple))) for triple in triples]
    path = folder / f"graph.{kind}"
    items = quads if RDF_FORMATS[kind].supports_datasets else [quad.triple for quad in quads]
    ox.serialize(items, output=str(path), format=RDF_FORMATS[kind])
    return path


def written(triples, folder, suffix):
    return write_graph(read_graph(triples), folder / f"source.{suffix}")


def sparql_json(triples, folder):
    rows = [
        {key: {"type": "uri", "value": iri} for key, iri in zip("spo", iris(triple), strict=True)}
        for triple in triples
    ]
    path = folder / "graph.srj"
    path.write_text(json.dumps({"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": rows}}))
    return path


def sparql_xml(triples, folder):
    rows = "".join(
        "<result>"
        + "".join(
            f'<binding name="{key}"><uri>{escape(iri)}</uri></binding>'
            for key, iri in zip("spo", iris(triple), strict=True)
        )
        + "</result>"
        for triple in triples
    )
    head = "".join(f'<variable name="{key}"/>' for key in "spo")
    path = folder / "graph.srx"
    path.write_text(
        '<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#">'
        f"<head>{head}</head><results>{rows}</results></sparql>",
        encoding="utf-8",
    )
    return path


def openke(triples, folder):
    path = folder / "openke"
    path.mkdir()
    entities = list(dict.fromkeys(name for head, _, tail in triples for name in (head, tail)))
    relations = list(dict.fromkeys(relation for _, relation, _ in triples))
    for file, names in (("entity2id.txt", entities), ("relation2id.txt", relations)):
        lines = [f"{name}\t{number}" for number, name in enumerate(names)]
        (path / file).write_text("\n".join([str(len(names)), *lines]) + "\n")
    facts = [f"{entities.index(h)} {entities.index(t)} {relations.index(r)}" for h, r, t in triples]
    (path / "train2id.txt").write_text("\n".join([str(len(facts)), *facts]) + "\n")
    return path


def networkx_graph(triples, _folder):
    graph = nx.MultiDiGraph()
    for head, relation, tail in triples:
        graph.add_edge(head, tail, key=relation)
    return graph


def rdflib_graph(triples, _folder):
    graph = rdflib.Graph()
    for triple in triples:
        graph.add(tuple(map(rdflib.URIRef, iris(triple))))
    return graph


def factory(triples, _folder):
    return TriplesFactory.from_labeled_triples(np.array(triples))


def columns(triples):
    return dict(zip(("head", "relation", "tail"), zip(*triples, strict=True), strict=True))


SOURCES = {
    **{kind: lambda t, f, kind=kind: rdf_file(t, f, kind) for kind in RDF_FORMATS},
    **{
        f"{kind} (ours)": lambda t, f, kind=kind: written(t, f, kind)
        for kind in (*WRITTEN, *PACKED)
    },
    "srj": sparql_json,
    "srx": sparql_xml,
    "openke": openke,
    "pandas": lambda t, _: pd.DataFrame(columns(t)),
    "polars": lambda t, _: pl.DataFrame(columns(t)),
    "pyarrow": lambda t, _: pa.table({k: list(v) for k, v in columns(t).items()}),
    "iterable": lambda t, _: t,
    "networkx": networkx_graph,
    "rdflib": rdflib_graph,
    "pykeen": factory,
}
# These hold facts in an order of their own.
UNORDERED = ("networkx", "rdflib", "pykeen")


def facts(graph, split="train"):
    return sorted(zip(*graph.named(graph.split(split)).to_pydict().values(), strict=True))
