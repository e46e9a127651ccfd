"""Statements of RDF sorted: what is a fact, what is about names, and what was not asked for.

Statements come as columns of terms, written as in N-Triples, whatever they were read from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import SettingsError
from fivestar.graph.arrow import Mask, to_arrow, to_mask
from fivestar.graph.rdf_terms import (
    DESCRIPTIONS,
    LABELS,
    SPLIT_GRAPHS,
    TYPE,
    iri_as_name,
    literal_text,
)
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns, keep_better
from fivestar.graph.vocabulary import NAME_TYPE

# The parsers give nodes without a label a random one of this form.
_NEVER_LABELLED = re.compile(r"_:[a-f][0-9a-f]{31}")
_DEFAULT_GRAPH = "default"
QUOTED = "is about a quoted triple (RDF-star), which is no entity"


class Statements(NamedTuple):
    """Equally many subjects, predicates, objects and graphs; no graph is an empty string."""

    subjects: pa.Array
    predicates: pa.Array
    objects: pa.Array
    graphs: pa.Array

    @classmethod
    def of(cls, rows: Sequence[tuple[str, str, str, str]]) -> Statements:
        """Statements of rows of terms."""
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(*(pa.array(column, NAME_TYPE) for column in columns))

    def take(self, rows: Mask) -> Statements:
        """Those of a mask."""
        if rows.all():
            return self
        places = to_arrow(np.flatnonzero(rows))
        return Statements(*(column.take(places) for column in self))


@dataclass
class BlankNodes:
    """Names for blank nodes: theirs where they have one, else numbers, never those of others.

    >>> nodes = BlankNodes("train.", "renumbered")
    >>> nodes.name("_:alice"), nodes.name("_:abcdefabcdefabcdefabcdefabcdefab")
    ('_:train.alice', '_:train.[0]')
    """

    scope: str
    unlabelled: str = "kept"

    def __post_init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def name(self, term: str) -> str:
        """The name of a blank node."""
        if self.unlabelled == "renumbered" and _NEVER_LABELLED.fullmatch(term):
            # No label can have brackets, so this is nobody else's name.
            number = self._numbers.setdefault(term, f"[{len(self._numbers)}]")
            return f"_:{self.scope}{number}"
        return f"_:{self.scope}{term[2:]}" if self.scope else term


class Sorter:
    """Sorts statements, and counts every one of them in a tally."""

    def __init__(self, options: ReadOptions, tally: Tally, unlabelled: str = "kept") -> None:
        self._options = options
        self._tally = tally
        self._blank = BlankNodes(options.blank_scope, unlabelled)
        self._graphs = None if options.graphs is None else _graph_terms(options.graphs)
        self._ranks = _ranks(LABELS), _ranks(DESCRIPTIONS)

    def sort(self, statements: Statements, numbers: Sequence[int]) -> Iterator[TripleColumns]:
        """The facts among statements; `numbers` are their places in the source."""
        wanted = np.ones(len(statements.graphs), bool)
        if self._graphs is not None:
            found = pc.is_in(statements.graphs, value_set=pa.array(self._graphs, NAME_TYPE))
            wanted = to_mask(found)
            self._tally.other_graphs += int(np.count_nonzero(~wanted))
        quoted = wanted & to_mask(pc.starts_with(statements.objects, "<<"))
        for row in np.flatnonzero(quoted).tolist():
            text = " ".join(str(column[row].as_py()) for column in statements[:3])
            self._tally.reject(int(numbers[row]), QUOTED, text, self._options)
        statements = self._without_annotations(statements.take(wanted & ~quoted))
        yield from self._by_split(statements)

    def _without_annotations(self, statements: Statements) -> Statements:
        literal = to_mask(pc.starts_with(statements.objects, '"'))
        typing = ~literal & to_mask(pc.equal(statements.predicates, pa.scalar(TYPE, NAME_TYPE)))
        texts = literal & to_mask(pc.is_in(statements.predicates, value_set=_TELLING))
        facts = ~texts
        if texts.any():
            self._note_texts(statements.take(texts))
        if self._options.types == "types" and typing.any():
            self._note_types(statements.take(typing))
            facts &= ~typing
        if self._options.literals == "drop":
            self._tally.literals += int(np.count_nonzero(literal & facts))
            facts &= ~literal
        return statements.take(facts)

    def _note_texts(self, statements: Statements) -> None:
        told = self._tally.annotations
        for subject, predicate, text_term in zip(
            *(column.to_pylist() for column in statements[:3]), strict=True
        ):
            self._tally.labels += 1
            text, language = literal_text(text_term)
            if not text:
                continue
            texts = (told.labels, told.descriptions)
            for ranks, known in zip(self._ranks, texts, strict=True):
                if predicate in ranks:
                    rank = len(ranks) * self._language_rank(language) + ranks[predicate]
                    keep_better(known, self._about(subject), rank, text)

    def _language_rank(self, language: str) -> int:
        wanted = self._options.language.casefold()
        if language.casefold() == wanted:
            return 0
        if language.casefold().startswith(f"{wanted}-"):
            return 1
        return 3 if language else 2

    def _note_types(self, statements: Statements) -> None:
        self._tally.types += len(statements.subjects)
        subjects, kinds = statements.subjects.to_pylist(), statements.objects.to_pylist()
        pairs = zip(map(self._about, subjects), map(self._about, kinds), strict=True)
        self._tally.annotations.types |= dict.fromkeys(pairs)

    def _about(self, term: str) -> str:
        return self._blank.name(term) if term.startswith("_:") else term

    def _by_split(self, statements: Statements) -> Iterator[TripleColumns]:
        split = pc.index_in(statements.graphs, value_set=_SPLIT_TERMS)
        if self._options.graphs is not None or split.null_count == len(split):
            yield self._named(statements, "train")
            return
        numbers = pc.fill_null(split, _TRAIN).to_numpy()
        for number, name in enumerate(SPLIT_GRAPHS.values()):
            part = statements.take(numbers == number)
            if len(part.subjects):
                yield self._named(part, name)

    def _named(self, statements: Statements, split: str) -> TripleColumns:
        subjects, predicates, objects, _ = statements
        return TripleColumns(
            self._names(subjects, "entity"),
            self._names(predicates, "relation"),
            self._names(objects, "entity"),
            split,
        )

    def _names(self, terms: pa.Array, kind: str) -> pa.ChunkedArray:
        """The names of terms; what has to be done a term in Python is done once a distinct one."""
        coded = terms.dictionary_encode()
        known = coded.dictionary
        names = pc.utf8_slice_codeunits(known, 1, -1)  # an IRI without its brackets
        odd = pc.or_(
            pc.starts_with(known, "<urn:fivestar:"), pc.invert(pc.starts_with(known, "<"))
        )
        if pc.any(odd).as_py():
            some = [self._name(term, kind) for term in known.filter(odd).to_pylist()]
            names = pc.replace_withto_mask(names, odd, pa.array(some, NAME_TYPE))
        return pa.chunked_array([names.take(coded.indices)], NAME_TYPE)

    def _name(self, term: str, kind: str) -> str:
        if term.startswith("_:"):
            return self._blank.name(term)
        return iri_as_name(term[1:-1], kind) if term.startswith("<") else term


_TELLING = pa.array([*LABELS, *DESCRIPTIONS], NAME_TYPE)
_SPLIT_TERMS = pa.array(list(SPLIT_GRAPHS), NAME_TYPE)
_TRAIN = list(SPLIT_GRAPHS.values()).index("train")


def _ranks(predicates: Sequence[str]) -> dict[str, int]:
    return {predicate: rank for rank, predicate in enumerate(predicates)}


def _graph_terms(graphs: Sequence[str]) -> list[str]:
    if isinstance(graphs, str) or not graphs or not all(isinstance(g, str) and g for g in graphs):
        raise SettingsError(
            "graphs must be a list of IRIs of named graphs, or 'default' for the one without a name"
        )
    terms = []
    for graph in graphs:
        bare = graph.removeprefix("<").removesuffix(">")
        is_term = graph.startswith("_:") or bare == _DEFAULT_GRAPH
        terms.append(("" if bare == _DEFAULT_GRAPH else graph) if is_term else f"<{bare}>")
    return terms

