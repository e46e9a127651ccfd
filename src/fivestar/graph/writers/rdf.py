"""Triples as N-Triples, N-Quads or Turtle (a superset of N-Triples)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import to_arrow
from fivestar.graph.rdf_terms import (
    BLANK,
    DESCRIPTION,
    IRI,
    LABEL,
    LITERAL,
    OWN_STATEMENT,
    PARTS,
    SPECIAL_TYPES,
    SPLIT_GRAPHS,
    TYPE,
    WEIGHT,
    literal,
    name_as_iri,
)
from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.graph.writers.base import WriteOptions, concatenated, weight_column

_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
_GRAPH_OF_SPLIT = {split: graph for graph, split in SPLIT_GRAPHS.items()}


class RdfSink:
    """Write one statement per line."""

    def __init__(self, stream: BinaryIO, options: WriteOptions) -> None:
        self._stream = stream
        self._options = options
        self._num_weights = 0

    def write(self, piece: TripleColumns) -> None:
        """Write statements; splits are named graphs, weights those of reified statements."""
        heads = self._terms(piece.heads, "entity", self._head_forms())
        relations = self._terms(piece.relations, "relation", [])
        tails = self._terms(piece.tails, "entity", self._tail_forms())
        graph = f" {_GRAPH_OF_SPLIT[piece.split]}" if self._options.splits == "include" else ""
        end, space = (pa.scalar(text, NAME_TYPE) for text in (f"{graph} .\n", " "))
        empty = pa.scalar("", NAME_TYPE)
        lines = pc.binary_join_element_wise(heads, space, relations, space, tails, end, empty)
        self._stream.write(concatenated(lines))
        if self._options.weights == "include":
            self._write_weights((heads, relations, tails), weight_column(piece), f"{graph} .\n")

    def _write_weights(
        self, triple: tuple[pa.Array, pa.Array, pa.Array], weights: pa.Array, end: str
    ) -> None:
        """Write four statements per fact: its subject, predicate and object, and its weight."""
        numbers = to_arrow(np.arange(self._num_weights, self._num_weights + len(weights)))
        self._num_weights += len(weights)
        nodes = _joined(OWN_STATEMENT, numbers.cast(NAME_TYPE), ">")
        values = _joined('"', weights.cast(NAME_TYPE), f'"^^<{_DOUBLE}>')
        parts = zip((*PARTS, WEIGHT), (*triple, values), strict=True)
        lines = [_joined(nodes, f" {predicate} ", value, end) for predicate, value in parts]
        self._stream.write(concatenated(_joined(*lines)))

    def write_annotations(self, annotations: Annotations) -> None:
        """Write labels, descriptions and types as statements."""
        lines = "".join(f"{line} .\n" for line in self._annotation_lines(annotations))
        self._stream.write(lines.encode())

    def close(self) -> None:
        """Do nothing: the file needs no end."""

    def _annotation_lines(self, annotations: Annotations) -> Iterator[str]:
        pairs = ((annotations.labels, LABEL), (annotations.descriptions, DESCRIPTION))
        for texts, predicate in pairs:
            for term, (_, text) in texts.items():
                yield f"{self._term(term)} {predicate} {literal(text)}"
        for term, type_ in annotations.types:
            yield f"{self._term(term)} {TYPE} {self._term(type_)}"

    def _term(self, term: str) -> str:
        """Return a term as it is written: blank nodes may become IRIs."""
        if term.startswith("<"):
            return term
        return str(self._terms(pa.array([term], NAME_TYPE), "entity", self._head_forms())[0])

    def _head_forms(self) -> list[str]:
        return [BLANK] if self._options.blanks == "nodes" else []

    def _tail_forms(self) -> list[str]:
        literals = [LITERAL] if self._options.literals == "literals" else []
        return [*self._head_forms(), *literals]

    def _terms(self, names: pa.ChunkedArray | pa.Array, kind: str, forms: list[str]) -> pa.Array:
        """Return names as terms; names that match one of the `forms` are terms already."""
        if isinstance(names, pa.ChunkedArray):
            names = names.unify_dictionaries().combine_chunks()
        encoded = names.dictionary_encode()
        distinct = encoded.dictionary
        is_iri = pc.and_not(
            pc.match_substring_regex(distinct, f"^(?:{IRI})$"),
            pc.starts_with(distinct, "urn:fivestar:"),
        )
        opening, closing, empty = (pa.scalar(text, NAME_TYPE) for text in ("<", ">", ""))
        terms = pc.binary_join_element_wise(opening, distinct, closing, empty)
        others = pc.invert(is_iri)
        if pc.any(others).as_py():
            is_term = pa.repeat(pa.scalar(False), len(distinct))  # noqa: FBT003
            for form in forms:
                is_term = pc.or_(is_term, pc.match_substring_regex(distinct, f"^(?:{form})$"))
            for ending in SPECIAL_TYPES:
                is_term = pc.and_not(is_term, pc.ends_with(distinct, ending))
            plain = pc.and_not(others, is_term)
            iris = [f"<{name_as_iri(name, kind)}>" for name in distinct.filter(plain).to_pylist()]
            terms = pc.if_else(is_iri, terms, distinct)
            terms = pc.replace_with_mask(terms, plain, pa.array(iris, NAME_TYPE))
        return terms.take(encoded.indices)


def _joined(*texts: str | pa.Array) -> pa.Array:
    """Return the concatenation of texts, row by row."""
    scalars = [pa.scalar(text, NAME_TYPE) if isinstance(text, str) else text for text in texts]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", NAME_TYPE))


def subject_term(name: str, kind: str) -> str:
    """Return the term of a name as the subject of annotations; blank nodes keep their names.

    >>> subject_term("New York", "entity"), subject_term("_:b0", "entity")
    ('<urn:fivestar:entity:New%20York>', '_:b0')
    """
    is_blank = name.startswith("_:") and kind != "relation"
    return name if is_blank else f"<{name_as_iri(name, kind)}>"
