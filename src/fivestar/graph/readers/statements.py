"""Statements of RDF sorted: what is a fact, what is about names, and what was not asked for.

Statements come as columns of terms, written as in N-Triples, whatever they were read from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import SettingsError
from fivestar.graph.arrow import Mask, from_arrow, to_arrow, to_mask, to_text, to_texts
from fivestar.graph.rdf_terms import (
    DESCRIPTIONS,
    LABELS,
    SPLIT_GRAPHS,
    TYPE,
    iri_as_name,
    literal_text,
)
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns

# The parsers give nodes without a label a random number; zeros in front are left out.
_NEVER_LABELLED = re.compile(r"_:[a-f][0-9a-f]{20,31}")
_DEFAULT_GRAPH = "default"
_PLACE = re.compile(r"^Parser error at .*?: | \(line \d+\)$")
QUOTED = "is about a quoted triple (RDF-star), which is no entity"


@dataclass(frozen=True)
class Terms:
    """A column of terms as numbers of distinct ones: what is asked of a term is asked once."""

    codes: npt.NDArray[np.int32]
    known: pa.Array

    @classmethod
    def of(cls, terms: pa.Array) -> Terms:
        """A column of terms, none missing."""
        coded = terms.dictionary_encode()
        return cls(from_arrow(coded.indices), coded.dictionary)

    def __len__(self) -> int:
        return len(self.codes)

    def where(self, test: Callable[[pa.Array], pa.Array]) -> Mask:
        """Which rows hold a term that passes a test."""
        return to_mask(test(self.known))[self.codes]

    def take(self, rows: Mask) -> Terms:
        """Those of a mask."""
        return Terms(self.codes[rows], self.known)

    def used(self) -> Terms:
        """The same without distinct terms that occur nowhere any more."""
        occurs = np.zeros(len(self.known), bool)
        occurs[self.codes] = True
        if occurs.all():
            return self
        numbers = (np.cumsum(occurs) - 1).astype(np.int32)
        return Terms(numbers[self.codes], self.known.take(to_arrow(np.flatnonzero(occurs))))

    def texts(self) -> pa.Array:
        """The terms row by row."""
        return self.known.take(to_arrow(self.codes))


class Statements(NamedTuple):
    """Equally many subjects, predicates, objects and graphs; no graph is an empty string."""

    subjects: Terms
    predicates: Terms
    objects: Terms
    graphs: Terms

    @classmethod
    def of(cls, rows: Sequence[tuple[str, str, str, str]]) -> Statements:
        """Statements of rows of terms."""
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(*(Terms.of(to_texts(column)) for column in columns))

    def take(self, rows: Mask) -> Statements:
        """Those of a mask."""
        return self if rows.all() else Statements(*(column.take(rows) for column in self))

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Row by row."""
        return zip(*(column.texts().to_pylist() for column in self), strict=True)


def reason(error: Exception) -> str:
    """What a parser did not like, without the place, which is told by itself."""
    return _PLACE.sub("", str(getattr(error, "msg", None) or error))


def term_text(term: object) -> str:
    """A term of pyoxigraph as N-Triples have it.

    A quoted triple leaves out its brackets there; but only literals hold spaces besides.
    """
    text = str(term)
    return f"<<( {text} )>>" if " " in text and text[0] != '"' else text


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
        self._ranks: dict[tuple[str, str], int] = {}

    def sort(self, statements: Statements, numbers: npt.ArrayLike) -> Iterator[TripleColumns]:
        """The facts among statements; `numbers` are their places in the source."""
        wanted = np.ones(len(statements.graphs), bool)
        if self._graphs is not None:
            wanted = statements.graphs.where(self._is_wanted)
            self._tally.other_graphs += int(np.count_nonzero(~wanted))
        quoted = wanted & statements.objects.where(lambda terms: pc.starts_with(terms, "<<"))
        for number, row in zip(
            np.asarray(numbers)[quoted].tolist(), statements.take(quoted).rows(), strict=True
        ):
            self._tally.reject(number, QUOTED, " ".join(row[:3]), self._options)
        statements = self._without_annotations(statements.take(wanted & ~quoted))
        yield from self._by_split(statements)

    def _is_wanted(self, graphs: pa.Array) -> pa.Array:
        return pc.is_in(graphs, value_set=to_texts(self._graphs or ()))

    def _without_annotations(self, statements: Statements) -> Statements:
        literal = statements.objects.where(lambda terms: pc.starts_with(terms, '"'))
        texts = literal & statements.predicates.where(_is_telling)
        facts = ~texts
        if texts.any():
            self._note_texts(statements.take(texts))
        if self._options.types == "types":
            typing = ~literal & statements.predicates.where(_is_type)
            self._note_types(statements.take(typing))
            facts &= ~typing
        if self._options.literals == "drop":
            self._tally.literals += int(np.count_nonzero(literal & facts))
            facts &= ~literal
        return statements.take(facts)

    def _note_texts(self, statements: Statements) -> None:
        told = self._tally.annotations
        self._tally.labels += len(statements.subjects)
        subjects, predicates, items, _ = (column.texts().to_pylist() for column in statements)
        for subject, predicate, item in zip(subjects, predicates, items, strict=True):
            known = told.labels if predicate in LABELS else told.descriptions
            about = self._about(subject)
            rank = self._rank(predicate, item[item.rindex('"') + 1 :])
            # Most texts are in languages that nobody asked for, and need not be looked at.
            if (about not in known or rank < known[about][0]) and (text := literal_text(item)):
                known[about] = (rank, text)

    def _rank(self, predicate: str, tag: str) -> int:
        """How far a text is from what was asked for: its language counts first."""
        if (predicate, tag) not in self._ranks:
            wanted, found = f"@{self._options.language}".casefold(), tag.casefold()
            is_tagged = found.startswith("@")
            distance = 0 if found == wanted else 1 if found.startswith(f"{wanted}-") else 2
            among = LABELS if predicate in LABELS else DESCRIPTIONS
            rank = len(among) * (3 if distance == 2 and is_tagged else distance)
            self._ranks[predicate, tag] = rank + among.index(predicate)
        return self._ranks[predicate, tag]

    def _note_types(self, statements: Statements) -> None:
        self._tally.types += len(statements.subjects)
        types = self._tally.annotations.types
        for subject, _, kind, _ in statements.rows():
            types[self._about(subject), self._about(kind)] = None

    def _about(self, term: str) -> str:
        return self._blank.name(term) if term.startswith("_:") else term

    def _by_split(self, statements: Statements) -> Iterator[TripleColumns]:
        for graph, split in SPLIT_GRAPHS.items() if self._options.graphs is None else ():
            here = statements.graphs.where(partial(pc.equal, to_text(graph)))
            if split != "train" and here.any():
                yield self._named(statements.take(here), split)
                statements = statements.take(~here)
        yield self._named(statements, "train")

    def _named(self, statements: Statements, split: str) -> TripleColumns:
        subjects, predicates, objects, _ = statements
        return TripleColumns(
            self._names(subjects, "entity"),
            self._names(predicates, "relation"),
            self._names(objects, "entity"),
            split,
        )

    def _names(self, terms: Terms, kind: str) -> pa.ChunkedArray:
        """The names of terms; what has to be done in Python is done once a distinct one."""
        terms = terms.used()
        odd = pc.or_(
            pc.starts_with(terms.known, "<urn:fivestar:"),
            pc.invert(pc.starts_with(terms.known, "<")),
        )
        names = pc.utf8_slice_codeunits(terms.known, 1, -1)  # an IRI without its brackets
        if pc.any(odd).as_py():
            some = [self._name(term, kind) for term in terms.known.filter(odd).to_pylist()]
            names = pc.replace_with_mask(names, odd, to_texts(some))
        codes = to_arrow(terms.codes)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, names, safe=False)])

    def _name(self, term: str, kind: str) -> str:
        if term.startswith("_:"):
            return self._blank.name(term)
        return iri_as_name(term[1:-1], kind) if term.startswith("<") else term


def _is_telling(predicates: pa.Array) -> pa.Array:
    return pc.is_in(predicates, value_set=to_texts([*LABELS, *DESCRIPTIONS]))


def _is_type(predicates: pa.Array) -> pa.Array:
    return pc.equal(predicates, to_text(TYPE))


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
