"""Graphs of other libraries: NetworkX, rdflib, pyoxigraph and PyKEEN.

None of them is imported here: their objects exist only if the caller has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from fivestar.errors import BadSource, SettingsError
from fivestar.graph.arrow import to_arrow
from fivestar.graph.rdf_terms import literal
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns, split_named
from fivestar.graph.readers.dialect import HEADER_NAMES
from fivestar.graph.readers.frames import name_of
from fivestar.graph.readers.rdf_lines import quad_terms
from fivestar.graph.readers.statements import Statements, StatementSorter
from fivestar.graph.readers.weights import attribute_weight, weight_of
from fivestar.graph.vocabulary import NAME_TYPE

_BATCH_SIZE = 100_000
_INVALID_IN_IRI = frozenset('<>"{}|^`\\') | {chr(code) for code in range(0x21)}


class NetworkXReader:
    """Read directed graphs of NetworkX; the relation is an edge's key or an attribute."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is a graph of NetworkX."""
        return _is_a(source, "networkx", "Graph")

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the edges as triples."""
        graph: Any = source
        tally.unit = "edge"
        if not graph.is_directed():
            raise BadSource(
                f"{tally.source}: is undirected, and facts are directed; pass a MultiDiGraph"
            )
        edges = _keyed_edges(graph)
        weight = attribute_weight(options, "an edge attribute")
        if weight and not any(weight in data for *_, data in _keyed_edges(graph)):
            raise BadSource(f"{tally.source}: no edge has the attribute {weight!r} with a weight")
        while batch := list(islice(edges, _BATCH_SIZE)):
            yield from _edge_columns(batch, weight, options, tally)


def _keyed_edges(graph: Any) -> Iterator[tuple[object, object, object, dict[object, object]]]:
    if graph.is_multigraph():
        return iter(graph.edges(keys=True, data=True))
    return ((head, tail, None, data) for head, tail, data in graph.edges(data=True))


def _edge_columns(
    edges: list[tuple[object, object, object, dict[object, object]]],
    weight: str | None,
    options: ReadOptions,
    tally: Tally,
) -> Iterator[TripleColumns]:
    """Yield edges as triples; like in NetworkX, an edge without a weight has the weight 1."""
    attribute = None if options.columns is None else str(options.columns[1])
    columns: dict[str, tuple[list[str], list[str], list[str]]] = {}
    weights: dict[str, list[float]] = {}
    for head, tail, key, data in edges:
        number = tally.lines
        tally.lines += 1
        try:
            relation = _relation(key, data, attribute)
            fields = zip((head, relation, tail), ("head", "relation", "tail"), strict=True)
            names = [name_of(field, role) for field, role in fields]
            split = _split(data)
            weights.setdefault(split, []).append(weight_of(data.get(weight, 1)) if weight else 1.0)
        except ValueError as reason:
            tally.reject(number, str(reason), f"{head!r} → {tail!r}", options)
            continue
        for column, name in zip(columns.setdefault(split, ([], [], [])), names, strict=True):
            column.append(name)
    for split, triple in columns.items():
        own = np.array(weights[split]) if weight else None
        yield TripleColumns.of([pa.chunked_array([c], NAME_TYPE) for c in triple], split, own)


def _relation(key: object, data: dict[object, object], attribute: str | None) -> object:
    """Return the relation of an edge: the given attribute, its key, or its only known attribute."""
    if attribute is not None:
        if attribute not in data:
            raise ValueError(f"has no attribute {attribute!r}")
        return data[attribute]
    if isinstance(key, str):
        return key
    known = [name for name in data if isinstance(name, str) and name in HEADER_NAMES[1]]
    if len(known) != 1:
        raise ValueError("has no relation: give edges a key or an attribute 'relation'")
    return data[known[0]]


def _split(data: dict[object, object]) -> str:
    text = data.get("split", "train")
    split = split_named(text) if isinstance(text, str) else None
    if split is None:
        raise ValueError(f"is of the split {text!r}; use train, valid and test")
    return split


class RdflibReader:
    """Read graphs and datasets of rdflib."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is a graph of rdflib."""
        return _is_a(source, "rdflib", "Graph")

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the facts among its statements."""
        graph: Any = source
        tally.unit = "statement"
        sorter = StatementSorter(options, tally)
        statements = rdflib_statements(graph)
        while batch := list(islice(statements, _BATCH_SIZE)):
            rows, numbers = [], []
            for row in batch:
                number = tally.lines
                tally.lines += 1
                try:
                    subject, predicate, item, named = map(rdflib_term, row)
                except ValueError as reason:
                    tally.reject(number, str(reason), " ".join(map(str, row[:3])), options)
                    continue
                rows.append((subject, predicate, item, named))
                numbers.append(number)
            yield from sorter.sort(Statements.of(rows), numbers)
        yield from sorter.finish()


def rdflib_statements(graph: Any) -> Iterator[tuple[object, object, object, object]]:
    """Yield the statements of a graph or dataset of rdflib; the default graph is None."""
    if not hasattr(graph, "quads"):
        return ((*triple, None) for triple in graph)
    attribute = "default_graph" if hasattr(graph, "default_graph") else "default_context"
    unnamed_id = getattr(getattr(graph, attribute, None), "identifier", None)

    def name(context: Any) -> object:
        identifier = getattr(context, "identifier", context)
        return None if identifier == unnamed_id else identifier

    return ((s, p, o, name(context)) for s, p, o, context in graph.quads())


def rdflib_term(term: object) -> str:
    """Return a term of rdflib as in N-Triples; None is an empty string.

    Raises:
        ValueError: if it is an invalid IRI, or no term of RDF; with the reason.
    """
    if term is None:
        return ""
    type_name = type(term).__name__
    if hasattr(term, "datatype") and hasattr(term, "language"):
        datatype = None if term.language else term.datatype
        return literal(str(term), term.language, None if datatype is None else str(datatype))
    if type_name == "BNode":
        return f"_:{term}"
    if type_name != "URIRef" or not str(term) or set(str(term)) & _INVALID_IN_IRI:
        raise ValueError(f"has the {type_name} {str(term)!r}, which is not an IRI")
    return f"<{term}>"


class OxigraphReader:
    """Read stores and datasets of pyoxigraph."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is a store or a dataset of pyoxigraph."""
        return any(_is_a(source, "pyoxigraph", name) for name in ("Store", "Dataset"))

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the facts among its statements."""
        quads: Iterator[Any] = iter(source)  # type: ignore[call-overload]
        tally.unit = "statement"
        sorter = StatementSorter(options, tally)
        while rows := [quad_terms(quad) for quad in islice(quads, _BATCH_SIZE)]:
            first = tally.lines
            tally.lines += len(rows)
            yield from sorter.sort(Statements.of(rows), np.arange(first, tally.lines))


class PykeenReader:
    """Read triples factories of PyKEEN."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is a triples factory."""
        return _is_a(source, "pykeen.triples", "CoreTriplesFactory")

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples by label; without labels the ids are the names."""
        if options.weight is not None:
            raise SettingsError(
                f"weight={options.weight!r}: a triples factory of PyKEEN has no weights; omit it"
            )
        factory: Any = source
        rows = np.asarray(factory.mapped_triples.cpu().numpy(), dtype=np.int64)
        tally.lines += len(rows)
        entities = _factory_names(getattr(factory, "entity_id_to_label", None), rows[:, [0, 2]])
        relations = _factory_names(getattr(factory, "relation_id_to_label", None), rows[:, 1])
        yield TripleColumns(
            *(
                pa.chunked_array([names.take(to_arrow(rows[:, column]))], NAME_TYPE)
                for column, names in enumerate((entities, relations, entities))
            )
        )


def _factory_names(labels: dict[int, str] | None, numbers: Any) -> pa.Array:
    count = 1 + int(numbers.max()) if numbers.size else 0
    if labels is None:
        return pa.array([str(number) for number in range(count)], NAME_TYPE)
    return pa.array([labels.get(number) for number in range(count)], NAME_TYPE)


def _is_a(source: object, module: str, name: str) -> bool:
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(source, cls)
