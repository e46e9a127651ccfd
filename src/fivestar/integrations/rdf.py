"""Graphs and predicted links as objects of rdflib and pyoxigraph.

`fivestar.read_graph` reads graphs and datasets of rdflib, and stores and datasets of pyoxigraph.
Names that are IRIs, blank nodes or literals become the terms that they were; others become IRIs
`urn:fivestar:entity:…`, which are read back as the same names.

The confidence of a link belongs to a statement about it. rdflib (7.6) knows RDF 1.1, so there it is
an `rdf:Statement`; pyoxigraph (0.5) knows the triple terms of RDF 1.2, `rdf:reifies <<( s p o )>>`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from fivestar.errors import BadSource, SettingsError
from fivestar.extras import require
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.rdf_terms import (
    BLANK,
    DESCRIPTION,
    LABEL,
    PREDICTION_GRAPH,
    RDF,
    SPLIT_GRAPHS,
    TYPE,
    iri_as_name,
    literal,
    literal_text,
    name_as_iri,
)
from fivestar.graph.readers.objects import rdflib_statements, rdflib_term
from fivestar.graph.readers.statements import term_text
from fivestar.graph.vocabulary import Vocabulary
from fivestar.graph.writing import graph_annotations
from fivestar.integrations.links import Found, Link, links_of
from fivestar.prediction.completion_file import CONFIDENCE

# The named graph of predicted links; `read_graph` reads it only if it is selected.
PREDICTIONS = PREDICTION_GRAPH[1:-1]
StatementForm = Literal["statements", "triple-terms"]
_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
_REIFIES = f"<{RDF}reifies>"
_PARTS = tuple(f"<{RDF}{part}>" for part in ("subject", "predicate", "object"))
_LITERAL = re.compile(
    r'"(?:[^"\\]|\\.)*"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<(?P<type>[^<>"\s]*)>)?',
    re.DOTALL,
)
_BLANK = re.compile(BLANK)


class Statement(NamedTuple):
    """Terms as in N-Triples; a quoted triple is three of them. The default graph is empty."""

    subject: str
    predicate: str
    object: str | tuple[str, str, str]
    graph: str = ""


def to_rdflib(content: KnowledgeGraph | Found) -> Any:
    """Return a graph, or predicted links with their confidence, for rdflib.

    Args:
        content: a graph, or what `complete`, `predict` or `predict_tails` of a trained model
            returns.

    Returns:
        An `rdflib.Graph`; for a graph with several splits an `rdflib.Dataset` with one named graph
        per split. Predicted links are triples, each with an `rdf:Statement` that has its
        probability as `urn:fivestar:confidence`; their graph is named `urn:fivestar:predictions`.

    >>> import fivestar
    >>> graph = fivestar.read_graph([("http://ex.org/a", "http://ex.org/p", "http://ex.org/b")])
    >>> len(to_rdflib(graph))
    1
    """
    rdflib = require("rdflib", "rdflib", "to_rdflib")
    statements = list(_statements(content, "statements"))
    names = {statement.graph for statement in statements}

    def term(text: Any) -> Any:
        if text.startswith("<"):
            return rdflib.URIRef(text[1:-1])
        if text.startswith("_:"):
            return rdflib.BNode(text[2:])
        value, language, datatype = _literal_parts(text)
        kind = None if datatype is None else rdflib.URIRef(datatype)
        return rdflib.Literal(value, lang=language, datatype=kind, normalize=False)

    if len(names) > 1:
        dataset = rdflib.Dataset()
        # Called default_context before rdflib 7.1.
        has_name = hasattr(dataset, "default_graph")
        unnamed = dataset.default_graph if has_name else dataset.default_context
        graphs = {name: dataset.graph(term(name)) if name else unnamed for name in names}
        for statement in statements:
            graphs[statement.graph].add(tuple(map(term, statement[:3])))
        return dataset
    (name,) = names or {""}
    graph = rdflib.Graph(identifier=term(name)) if name else rdflib.Graph()
    for statement in statements:
        graph.add(tuple(map(term, statement[:3])))
    return graph


def to_oxigraph(content: KnowledgeGraph | Found, *, form: StatementForm = "triple-terms") -> Any:
    """Return a graph, or predicted links with their confidence, for pyoxigraph.

    Args:
        content: a graph, or what `complete`, `predict` or `predict_tails` of a trained model
            returns.
        form: how the confidence refers to its link: by a triple term of RDF 1.2, or by an
            `rdf:Statement` of RDF 1.1.

    Returns:
        A `pyoxigraph.Dataset` for `store.extend`. Predicted links are in the named graph
        `urn:fivestar:predictions`; several splits are one named graph each.

    Raises:
        SettingsError: if there is no such form.
    """
    oxigraph = require("pyoxigraph", "rdf", "to_oxigraph")
    if form not in ("statements", "triple-terms"):
        raise SettingsError(f"form must be 'statements' or 'triple-terms', not {form!r}")

    def term(text: str | tuple[str, str, str]) -> Any:
        if isinstance(text, tuple):
            return oxigraph.Triple(*map(term, text))
        if text.startswith("<"):
            return oxigraph.NamedNode(text[1:-1])
        if text.startswith("_:"):
            return oxigraph.BlankNode(text[2:])
        value, language, datatype = _literal_parts(text)
        kind = None if datatype is None else oxigraph.NamedNode(datatype)
        return oxigraph.Literal(value, language=language, datatype=kind)

    return oxigraph.Dataset(
        oxigraph.Quad(
            *map(term, statement[:3]),
            term(statement.graph) if statement.graph else oxigraph.DefaultGraph(),
        )
        for statement in _statements(content, form)
    )


def read_links(source: Any) -> list[Link]:
    """Return the predicted links with a confidence in an RDF graph, most probable first.

    Args:
        source: a graph or dataset of rdflib, or a store or dataset of pyoxigraph, with the
            statements of `to_rdflib` or `to_oxigraph` and whatever else.

    Raises:
        BadSource: if it is none of these, or a statement about a confidence is incomplete.
    """
    rows = list(_rows(source))
    confidences = {s: float(literal_text(o)) for s, p, o in rows if p == f"<{CONFIDENCE}>"}
    triples: dict[str, list[str]] = {}
    for subject, predicate, item in rows:
        if subject in confidences and predicate == _REIFIES:
            triples[subject] = item.removeprefix("<<( ").removesuffix(" )>>").split(" ", 2)
        elif subject in confidences and predicate in _PARTS:
            parts = triples.setdefault(subject, ["", "", ""])
            parts[_PARTS.index(predicate)] = item
    links = []
    for subject, confidence in confidences.items():
        terms = triples.get(subject, [""])
        if not all(terms):
            raise BadSource(f"{subject} has a confidence, but does not say of which triple")
        kinds = ("entity", "relation", "entity")
        head, relation, tail = (_name(t, kind) for t, kind in zip(terms, kinds, strict=True))
        links.append(Link(head, relation, tail, confidence))
    return sorted(links, key=lambda link: (-(link.probability or 0), link))


def _rows(source: Any) -> Iterator[tuple[str, str, str]]:
    """Yield subject, predicate and object of all statements as texts."""
    module = type(source).__module__.partition(".")[0]
    if module == "rdflib":
        for s, p, o, _ in rdflib_statements(source):
            yield rdflib_term(s), rdflib_term(p), rdflib_term(o)
    elif module == "pyoxigraph":
        yield from ((str(s), str(p), term_text(o)) for s, p, o, _ in source)
    else:
        raise BadSource(
            f"cannot read links from {type(source).__name__}; pass a graph of rdflib or a store of "
            "pyoxigraph"
        )


def _statements(content: KnowledgeGraph | Found, form: StatementForm) -> Iterator[Statement]:
    if isinstance(content, KnowledgeGraph):
        return _graph_statements(content)
    return _link_statements(links_of(content), form)


def _graph_statements(graph: KnowledgeGraph) -> Iterator[Statement]:
    """Yield facts, labels, descriptions and types; several splits are named graphs."""
    splits = {split: triples for split, triples in graph.splits.items() if len(triples)}
    graph_of = {split: name for name, split in SPLIT_GRAPHS.items()}
    heads = _terms(graph.entities)
    tails = [_tail_term(name, term) for name, term in zip(graph.entities, heads, strict=True)]
    relations = [f"<{name_as_iri(name, 'relation')}>" for name in graph.relations]
    for split, triples in splits.items():
        name = graph_of[split] if len(splits) > 1 else ""
        for h, r, t in triples.array.tolist():
            yield Statement(heads[h], relations[r], tails[t], name)
    annotations = graph_annotations(graph)
    pairs = ((annotations.labels, LABEL), (annotations.descriptions, DESCRIPTION))
    for texts, predicate in pairs:
        for term, (_, text) in texts.items():
            yield Statement(term, predicate, literal(text))
    for term, type_ in annotations.types:
        yield Statement(term, TYPE, type_)


def _link_statements(links: list[Link], form: StatementForm) -> Iterator[Statement]:
    for link in links:
        head = _term(link.head)
        triple = head, f"<{name_as_iri(link.relation, 'relation')}>", _tail_term(link.tail)
        yield Statement(*triple, PREDICTION_GRAPH)
        if link.probability is None:
            continue
        # The same for the same triple, so that adding links again adds no second statement.
        digest = hashlib.blake2b("\n".join(triple).encode(), digest_size=16).hexdigest()
        node = f"<urn:fivestar:link:{digest}>"
        if form == "triple-terms":
            yield Statement(node, _REIFIES, triple, PREDICTION_GRAPH)
        else:
            yield Statement(node, TYPE, f"<{RDF}Statement>", PREDICTION_GRAPH)
            for part, term in zip(_PARTS, triple, strict=True):
                yield Statement(node, part, term, PREDICTION_GRAPH)
        confidence = literal(repr(link.probability), datatype=_DOUBLE)
        yield Statement(node, f"<{CONFIDENCE}>", confidence, PREDICTION_GRAPH)


def _terms(vocabulary: Vocabulary) -> list[str]:
    return [_term(name) for name in vocabulary]


def _term(name: str) -> str:
    return name if _BLANK.fullmatch(name) else f"<{name_as_iri(name, 'entity')}>"


def _tail_term(name: str, term: str | None = None) -> str:
    """Return the term of a tail, which may be a literal."""
    return name if _LITERAL.fullmatch(name) else term or _term(name)


def _literal_parts(term: str) -> tuple[str, str | None, str | None]:
    match = _LITERAL.fullmatch(term)
    language, datatype = (match["language"], match["type"]) if match else (None, None)
    return literal_text(term), language, datatype


def _name(term: str, kind: str) -> str:
    return iri_as_name(term[1:-1], kind) if term.startswith("<") else term
