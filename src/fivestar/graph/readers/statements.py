"""Statements of RDF, sorted into facts, annotations and statements to ignore.

Statements are columns of terms, written as in N-Triples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import SettingsError
from fivestar.graph.arrow import Mask, from_arrow, to_arrow, to_mask, to_text, to_texts
from fivestar.graph.rdf_terms import (
    DESCRIPTIONS,
    LABELS,
    PREDICTION_GRAPH,
    SPLIT_GRAPHS,
    TYPE,
    iri_as_name,
    literal_text,
)
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.statement_weights import StatementWeights
from fivestar.graph.triples import FactWeights

# The parsers give unlabeled nodes a random hexadecimal label, without leading zeros.
_RANDOM_LABEL = re.compile(r"_:[a-f][0-9a-f]{20,31}")
_DEFAULT_GRAPH = "default"
_POSITION = re.compile(r"^Parser error at .*?: | \(line \d+\)$")
QUOTED = "has a quoted triple (RDF-star), which is not an entity"


@dataclass(frozen=True)
class Terms:
    """A column of terms as codes of distinct terms, so that each is tested once."""

    codes: npt.NDArray[np.int32]
    distinct: pa.Array

    @classmethod
    def of(cls, terms: pa.Array) -> Terms:
        """Return a column of terms without nulls."""
        encoded = terms.dictionary_encode()
        return cls(from_arrow(encoded.indices), encoded.dictionary)

    def __len__(self) -> int:
        return len(self.codes)

    def where(self, test: Callable[[pa.Array], pa.Array]) -> Mask:
        """Return a mask of the rows whose term passes a test."""
        return to_mask(test(self.distinct))[self.codes]

    def take(self, rows: Mask) -> Terms:
        """Return the rows of a mask."""
        return Terms(self.codes[rows], self.distinct)

    def used(self) -> Terms:
        """Return the same column without unused distinct terms."""
        occurs = np.zeros(len(self.distinct), bool)
        occurs[self.codes] = True
        if occurs.all():
            return self
        numbers = (np.cumsum(occurs) - 1).astype(np.int32)
        return Terms(numbers[self.codes], self.distinct.take(to_arrow(np.flatnonzero(occurs))))

    def texts(self) -> pa.Array:
        """Return the terms of all rows."""
        return self.distinct.take(to_arrow(self.codes))


class Statements(NamedTuple):
    """Subjects, predicates, objects and graphs; the default graph is an empty string."""

    subjects: Terms
    predicates: Terms
    objects: Terms
    graphs: Terms

    @classmethod
    def of(cls, rows: Sequence[tuple[str, str, str, str]]) -> Statements:
        """Return statements from rows of terms."""
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(*(Terms.of(to_texts(column)) for column in columns))

    def take(self, rows: Mask) -> Statements:
        """Return the rows of a mask."""
        return self if rows.all() else Statements(*(column.take(rows) for column in self))

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the statements as tuples."""
        return zip(*(column.texts().to_pylist() for column in self), strict=True)


def parser_reason(error: Exception) -> str:
    """Return the message of a parser error without the position."""
    return _POSITION.sub("", str(getattr(error, "msg", None) or error))


def term_text(term: object) -> str:
    """Return a term of pyoxigraph as in N-Triples.

    pyoxigraph omits the brackets of a quoted triple; of the others only literals contain spaces.
    """
    text = str(term)
    return f"<<( {text} )>>" if " " in text and text[0] != '"' else text


@dataclass
class BlankNodes:
    """Names of blank nodes: their labels, or numbers if they have none.

    >>> nodes = BlankNodes("train.", "renumber")
    >>> nodes.name("_:alice"), nodes.name("_:abcdefabcdefabcdefabcdefabcdefab")
    ('_:train.alice', '_:train.[0]')
    """

    scope: str
    unlabeled: Literal["keep", "renumber"] = "keep"

    def __post_init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def name(self, term: str) -> str:
        """Return the name of a blank node."""
        if self.unlabeled == "renumber" and _RANDOM_LABEL.fullmatch(term):
            # A label cannot contain brackets, so this name is unique.
            number = self._numbers.setdefault(term, f"[{len(self._numbers)}]")
            return f"_:{self.scope}{number}"
        return f"_:{self.scope}{term[2:]}" if self.scope else term


class StatementSorter:
    """Sort statements, and count all of them in a tally."""

    def __init__(
        self,
        options: ReadOptions,
        tally: Tally,
        unlabeled: Literal["keep", "renumber"] = "keep",
    ) -> None:
        self._options = options
        self._tally = tally
        self._blank = BlankNodes(options.blank_scope, unlabeled)
        self._graphs = None if options.graphs is None else _graph_terms(options.graphs)
        self.weights = StatementWeights(options, tally)
        self._held: list[Statements] = []
        self._ranks: dict[tuple[str, str], int] = {}

    def sort(self, statements: Statements, numbers: npt.ArrayLike) -> Iterator[TripleColumns]:
        """Yield the facts among statements; `numbers` are their lines in the source.

        Facts with weights are held back until `finish`.
        """
        selected = statements.graphs.where(self._is_selected)
        self._tally.other_graphs += int(np.count_nonzero(~selected))
        lines = np.asarray(numbers, np.int64)[selected]
        statements = statements.take(selected)
        others = self.weights.extract(statements, lines)
        quoted = others & statements.objects.where(lambda terms: pc.starts_with(terms, "<<"))
        for number, row in zip(lines[quoted].tolist(), statements.take(quoted).rows(), strict=True):
            self._tally.reject(number, QUOTED, " ".join(row[:3]), self._options)
        statements = self._extract_annotations(statements.take(others & ~quoted))
        if self.weights.predicate:
            self._held.append(statements)
        else:
            yield from self._by_split(statements, None)

    def finish(self) -> Iterator[TripleColumns]:
        """Yield the facts that were held back, with their weights; call it at the end."""
        if self.weights.predicate:
            self.weights.finish()
        for statements in self._held:
            yield from self._by_split(statements, self.weights.of(statements))

    def _is_selected(self, graphs: pa.Array) -> pa.Array:
        if self._graphs is None:  # predicted links are no facts
            return pc.not_equal(graphs, to_text(PREDICTION_GRAPH))
        return pc.is_in(graphs, value_set=to_texts(self._graphs))

    def _extract_annotations(self, statements: Statements) -> Statements:
        literal = statements.objects.where(lambda terms: pc.starts_with(terms, '"'))
        texts = literal & statements.predicates.where(_is_text_predicate)
        facts = ~texts
        if texts.any():
            self._add_texts(statements.take(texts))
        if self._options.types == "types":
            typing = ~literal & statements.predicates.where(_is_type)
            self._add_types(statements.take(typing))
            facts &= ~typing
        if self._options.literals == "drop":
            self._tally.literals += int(np.count_nonzero(literal & facts))
            facts &= ~literal
        return statements.take(facts)

    def _add_texts(self, statements: Statements) -> None:
        annotations = self._tally.annotations
        self._tally.labels += len(statements.subjects)
        subjects, predicates, items, _ = (column.texts().to_pylist() for column in statements)
        for subject, predicate, item in zip(subjects, predicates, items, strict=True):
            texts = annotations.labels if predicate in LABELS else annotations.descriptions
            term = self._scoped(subject)
            rank = self._rank(predicate, item[item.rindex('"') + 1 :])
            # Most texts are in other languages: do not decode them.
            if (term not in texts or rank < texts[term][0]) and (text := literal_text(item)):
                texts[term] = (rank, text)

    def _rank(self, predicate: str, tag: str) -> int:
        """Return the rank of a text, first by its language, then by its predicate."""
        if (predicate, tag) not in self._ranks:
            preferred, given = f"@{self._options.language}".casefold(), tag.casefold()
            is_tagged = given.startswith("@")
            distance = 0 if given == preferred else 1 if given.startswith(f"{preferred}-") else 2
            among = LABELS if predicate in LABELS else DESCRIPTIONS
            rank = len(among) * (3 if distance == 2 and is_tagged else distance)
            self._ranks[predicate, tag] = rank + among.index(predicate)
        return self._ranks[predicate, tag]

    def _add_types(self, statements: Statements) -> None:
        self._tally.types += len(statements.subjects)
        types = self._tally.annotations.types
        for subject, _, type_, _ in statements.rows():
            types[self._scoped(subject), self._scoped(type_)] = None

    def _scoped(self, term: str) -> str:
        return self._blank.name(term) if term.startswith("_:") else term

    def _by_split(
        self, statements: Statements, weights: FactWeights | None
    ) -> Iterator[TripleColumns]:
        for graph, split in SPLIT_GRAPHS.items() if self._options.graphs is None else ():
            mask = statements.graphs.where(partial(pc.equal, to_text(graph)))
            if split != "train" and mask.any():
                own = None if weights is None else weights[mask]
                yield self._named(statements.take(mask), split, own)
                statements = statements.take(~mask)
                weights = None if weights is None else weights[~mask]
        yield self._named(statements, "train", weights)

    def _named(
        self, statements: Statements, split: str, weights: FactWeights | None
    ) -> TripleColumns:
        subjects, predicates, objects, _ = statements
        return TripleColumns(
            self._names(subjects, "entity"),
            self._names(predicates, "relation"),
            self._names(objects, "entity"),
            split,
            weights=weights,
        )

    def _names(self, terms: Terms, kind: str) -> pa.ChunkedArray:
        """Return the names of terms; Python code runs once per distinct term."""
        terms = terms.used()
        special = pc.or_(
            pc.starts_with(terms.distinct, "<urn:fivestar:"),
            pc.invert(pc.starts_with(terms.distinct, "<")),
        )
        names = pc.utf8_slice_codeunits(terms.distinct, 1, -1)  # an IRI without its brackets
        if pc.any(special).as_py():
            converted = [self._name(t, kind) for t in terms.distinct.filter(special).to_pylist()]
            names = pc.replace_with_mask(names, special, to_texts(converted))
        codes = to_arrow(terms.codes)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, names, safe=False)])

    def _name(self, term: str, kind: str) -> str:
        if term.startswith("_:"):
            return self._blank.name(term)
        return iri_as_name(term[1:-1], kind) if term.startswith("<") else term


def _is_text_predicate(predicates: pa.Array) -> pa.Array:
    return pc.is_in(predicates, value_set=to_texts([*LABELS, *DESCRIPTIONS]))


def _is_type(predicates: pa.Array) -> pa.Array:
    return pc.equal(predicates, to_text(TYPE))


def _graph_terms(graphs: Sequence[str]) -> list[str]:
    if isinstance(graphs, str) or not graphs or not all(isinstance(g, str) and g for g in graphs):
        raise SettingsError(
            "graphs must be IRIs of named graphs, or 'default' for the default graph"
        )
    terms = []
    for graph in graphs:
        bare = graph.removeprefix("<").removesuffix(">")
        is_term = graph.startswith("_:") or bare == _DEFAULT_GRAPH
        terms.append(("" if bare == _DEFAULT_GRAPH else graph) if is_term else f"<{bare}>")
    return terms
