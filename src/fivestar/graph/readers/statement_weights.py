"""Weights of RDF facts, given by statements about statements.

A weight is a number that is the value of a property of a node which represents a fact: a reifier of
RDF 1.2 (`s p o {| :confidence 0.9 |}` or `<< s p o >> :confidence 0.9` in Turtle, the predicate
rdf:reifies in N-Triples), or a node of the older reification (rdf:subject, rdf:predicate and
rdf:object). A weight may come before or after its fact, so facts are held until their source ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from fivestar.errors import BadSource
from fivestar.graph.arrow import Mask, to_text, to_texts
from fivestar.graph.rdf_terms import OWN_STATEMENT, PARTS, RDF, TYPE, literal_text
from fivestar.graph.readers.base import ReadOptions, Tally
from fivestar.graph.readers.weights import attribute_weight, weight_of
from fivestar.graph.triples import FactWeights

if TYPE_CHECKING:
    from fivestar.graph.readers.statements import Statements

_REIFIES = f"<{RDF}reifies>"
_STATEMENT = f"<{RDF}Statement>"
Triple = tuple[str, str, str]


@dataclass
class _Node:
    """A node that represents a fact: what it says about itself."""

    parts: dict[str, str] = field(default_factory=dict)
    triples: list[Triple] = field(default_factory=list)
    weight: float | None = None

    def facts(self) -> list[Triple]:
        """Return the facts it represents."""
        if len(self.parts) < len(PARTS):
            return self.triples
        subject, predicate, item = (self.parts[part] for part in PARTS)
        return [*self.triples, (subject, predicate, item)]


class StatementWeights:
    """The weights of the facts of one source, collected while it is read."""

    def __init__(self, options: ReadOptions, tally: Tally) -> None:
        weight = attribute_weight(options, "the property (an IRI) or of the variable")
        self.predicate = "" if weight is None else f"<{weight.strip('<>')}>"
        self._options = options
        self._tally = tally
        self._nodes: dict[str, _Node] = {}
        self._weights: dict[Triple, float] = {}

    def extract(self, statements: Statements, numbers: npt.NDArray[np.int64]) -> Mask:
        """Return a mask of the statements that are not about weights; note the others.

        Args:
            statements: statements of the selected graphs.
            numbers: their lines in the source.
        """
        own = statements.subjects.where(lambda terms: pc.starts_with(terms, OWN_STATEMENT))
        if not self.predicate:
            self._tally.weights += int(np.count_nonzero(own))
            return ~own
        predicates = to_texts([*PARTS, _REIFIES, self.predicate])
        about = statements.predicates.where(lambda terms: pc.is_in(terms, value_set=predicates))
        typing = statements.predicates.where(lambda terms: pc.equal(terms, to_text(TYPE)))
        typing &= statements.objects.where(lambda terms: pc.equal(terms, to_text(_STATEMENT)))
        about |= typing | own
        rows = statements.take(about).rows()
        for number, row in zip(numbers[about].tolist(), rows, strict=True):
            self._note(number, row[:3])
        return ~about

    def add(self, triple: Triple, weight: float) -> None:
        """Note the weight of a fact; of several, the largest counts."""
        self._weights[triple] = max(weight, self._weights.get(triple, 0.0))

    def _note(self, number: int, statement: Triple) -> None:
        subject, predicate, item = statement
        node = self._nodes.setdefault(subject, _Node())
        if predicate in PARTS:
            node.parts[predicate] = item
        elif predicate == _REIFIES and item.startswith("<<( "):
            first, second, third = item[4:-4].split(" ", 2)
            node.triples.append((first, second, third))
        elif predicate == self.predicate:
            try:
                text = literal_text(item) if item.startswith('"') else item
                node.weight = max(weight_of(text), node.weight or 0.0)
            except ValueError as reason:
                self._tally.reject(number, str(reason), " ".join(statement), self._options)
                return
        self._tally.weights += 1

    def of(self, statements: Statements) -> FactWeights:
        """Return the weights (n) of facts; 1 for a fact without one."""
        triples = (row[:3] for row in statements.rows())
        return np.array([self._weights.get(triple, 1.0) for triple in triples], np.float64)

    def finish(self) -> None:
        """Give the facts the weights of the nodes that represent them.

        Raises:
            BadSource: if no fact has a weight.
        """
        for node in self._nodes.values():
            for triple in node.facts() if node.weight is not None else ():
                self.add(triple, node.weight or 0.0)
        if not self._weights:
            raise BadSource(
                f"{self._tally.source}: no fact has a weight by {self.predicate}; weight= is the "
                "IRI of a property of annotated or reified statements"
            )
