"""Triples as N-Triples, N-Quads or Turtle (of which N-Triples are a part)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.rdf_terms import (
    BLANK,
    DESCRIPTION,
    IRI,
    LABEL,
    LITERAL,
    SPECIAL_TYPES,
    SPLIT_GRAPHS,
    TYPE,
    literal,
    name_as_iri,
)
from fivestar.graph.readers.base import Annotations, TripleColumns
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.graph.writers.base import WriteChoices
from fivestar.graph.writers.text import bytes_of

_GRAPH_OF = {split: graph for graph, split in SPLIT_GRAPHS.items()}


class RdfSink:
    """Writes a statement a line."""

    def __init__(self, stream: BinaryIO, choices: WriteChoices) -> None:
        self._stream = stream
        self._choices = choices

    def write(self, piece: TripleColumns) -> None:
        """Add statements; a split is a named graph where splits are told."""
        heads = self._terms(piece.heads, "entity", self._head_rule())
        relations = self._terms(piece.relations, "relation", [])
        tails = self._terms(piece.tails, "entity", self._tail_rule())
        graph = f" {_GRAPH_OF[piece.split]}" if self._choices.splits == "told" else ""
        end, space = (pa.scalar(text, NAME_TYPE) for text in (f"{graph} .\n", " "))
        nothing = pa.scalar("", NAME_TYPE)
        lines = pc.binary_join_element_wise(heads, space, relations, space, tails, end, nothing)
        self._stream.write(bytes_of(lines))

    def tell(self, told: Annotations) -> None:
        """Labels, descriptions and types as statements of their own."""
        lines = "".join(f"{line} .\n" for line in self._about(told))
        self._stream.write(lines.encode())

    def close(self) -> None:
        """There is nothing to end."""

    def _about(self, told: Annotations) -> Iterator[str]:
        for texts, predicate in ((told.labels, LABEL), (told.descriptions, DESCRIPTION)):
            for term, (_, text) in texts.items():
                yield f"{self._term(term)} {predicate} {literal(text)}"
        for term, kind in told.types:
            yield f"{self._term(term)} {TYPE} {self._term(kind)}"

    def _term(self, term: str) -> str:
        """A term as it is to be written: a blank node may have to be a name."""
        if term.startswith("<"):
            return term
        return str(self._terms(pa.array([term], NAME_TYPE), "entity", self._head_rule())[0])

    def _head_rule(self) -> list[str]:
        return [BLANK] if self._choices.blanks == "nodes" else []

    def _tail_rule(self) -> list[str]:
        literals = [LITERAL] if self._choices.literals == "literals" else []
        return [*self._head_rule(), *literals]

    def _terms(self, names: pa.ChunkedArray | pa.Array, kind: str, as_is: list[str]) -> pa.Array:
        """Names as terms; those of a form `as_is` are terms already."""
        if isinstance(names, pa.ChunkedArray):
            names = names.unify_dictionaries().combine_chunks()
        coded = names.dictionary_encode()
        known = coded.dictionary
        is_iri = pc.and_not(
            pc.match_substring_regex(known, f"^(?:{IRI})$"), pc.starts_with(known, "urn:fivestar:")
        )
        less, more, nothing = (pa.scalar(text, NAME_TYPE) for text in ("<", ">", ""))
        terms = pc.binary_join_element_wise(less, known, more, nothing)
        others = pc.invert(is_iri)
        if pc.any(others).as_py():
            kept = pa.repeat(pa.scalar(False), len(known))  # noqa: FBT003
            for form in as_is:
                kept = pc.or_(kept, pc.match_substring_regex(known, f"^(?:{form})$"))
            for ending in SPECIAL_TYPES:
                kept = pc.and_not(kept, pc.ends_with(known, ending))
            odd = pc.and_not(others, kept)
            encoded = [f"<{name_as_iri(name, kind)}>" for name in known.filter(odd).to_pylist()]
            terms = pc.if_else(is_iri, terms, known)
            terms = pc.replace_with_mask(terms, odd, pa.array(encoded, NAME_TYPE))
        return terms.take(coded.indices)


def term_of(name: str, kind: str) -> str:
    """The term of a name that says what it is about; blank nodes keep their names.

    >>> term_of("New York", "entity"), term_of("_:b0", "entity")
    ('<urn:fivestar:entity:New%20York>', '_:b0')
    """
    is_blank = name.startswith("_:") and kind != "relation"
    return name if is_blank else f"<{name_as_iri(name, kind)}>"
